"""Checks for any Wordle environment and any trainer: `wordle-rl conformance URL|module`.

target.py            an environment as the checks see it, and one made by a module
dialects.py          how a guess is written, and how marks are read
play.py              players, games, and the examiner that plays each game once
checks.py            the checks of an environment
commands.py          the command
openenv.py           an OpenEnv server, ours or another, as a target
trainers.py          a trainer compared with ours on the games of recorded.json

A check of an environment learns a secret only by finding it through play. Check ids are those of OpenEnv's RFC 008
where it has the same check; `wordle.*` are the rules of this game.
"""
