"""Learning by play.

setup.py         words, prompts, solver and reward of a training; metrics of its games
advantages.py    rewards -> advantages, by game, turn or guess
starts.py        which secrets are played next, and from which initial state
start_boards.py  initial states from a file
grpo/            multi-turn GRPO
rounds/          expert iteration, DPO, DAgger: play, select, fine-tune
"""
