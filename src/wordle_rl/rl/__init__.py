"""Learning from play: GRPO, expert iteration, DPO, DAgger.

games.py             what games are played with, what they earned, what is logged of them
credit.py            rewards -> advantages
focus.py             which secrets are played next
starts.py            where the groups of a step begin
group_rollouts.py    one step's games: played, scored, laid out as rows
branching.py         several guesses for every turn
colocate.py          vLLM beside the training
selection.py         which weights are kept
replay.py            teacher games beside play
micro_batches.py     which games share a backward pass
grpo_trainer.py      TRL's trainer with our rows
grpo.py              a GRPO training
rounds.py            a training by rounds: play, store, train
expert_iteration.py  the best games of each group
dpo.py               pairs of replies
dagger.py            what the teacher would have played
"""
