"""verl, whose engine is Ray: our games, rewards and credit under a trainer for one GPU up to many nodes.

settings.py    what verl has settings for and a run has not
refusals.py    settings that verl would not follow
translate.py   a run's config in verl's words
layouts/       Hydra configs for one GPU, one machine, several machines
launch.py      a training from a run's config to a run's model
__main__.py    `python -m wordle_rl.trainers.verl`
main.py        the process on Ray that drives the training
trainer.py     verl's trainer, which also writes our metrics and games
critic.py      verl's worker of a critic, with the attention of the config
checkpoint.py  its last checkpoint as the run's model
dataset.py     secrets as the parquet files that verl reads
play.py        what every game of a run is played with; one game, asked of a server turn by turn
agent_loop.py  verl's agent loop around it: tokens, loss mask, a reward at the end of each turn
advantages.py  turn and guess credit as verl's advantage estimators
tool.py        guesses by tool calls
"""
