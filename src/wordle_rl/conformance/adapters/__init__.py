"""Environments with other interfaces, made a target.

module.py            a callable of a module that returns an environment with reset and step
own.py               this package's game as such an environment
openenv.py           an OpenEnv server, ours or another, by address
gym_wordle.py        gym-wordle 0.1: actions are numbers, observations arrays
verifiers_wordle.py  the wordle task set of verifiers 0.4: the environment drives, the player answers
"""
