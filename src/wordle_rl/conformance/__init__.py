"""Checks for any Wordle environment and any trainer: `wordle-rl conformance URL|module`.

command.py            the command
environment_checks.py the checks of an environment
examiner.py           players, games, and the examiner that plays each game once
targets.py            an environment as the checks see it, its dialect, and one made by a module
openenv.py            an OpenEnv server, ours or another, as a target
trainer_checks.py     a trainer compared with ours on the games of recorded.json

A check of an environment learns a secret only by finding it through play. Check ids are those of OpenEnv's RFC 008
where it has the same check; `wordle.*` are the rules of this game.
"""
