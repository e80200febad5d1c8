"""Learning by play.

    setup.py           words, prompts, solver and reward of a training; metrics of its games
    advantages.py      rewards -> advantages, by game, turn or guess
    initial_states.py  which secrets are played next, and from which initial state
    starts_file.py     initial states from a file
    grpo/              multi-turn GRPO
    rounds/            expert iteration, DPO, DAgger: play, select, fine-tune

GRPO begins in grpo/train.py.
"""
