"""Checks that any Wordle environment, and any trainer, can be held against: `wordle-rl conformance URL|module`.

target.py            an environment as the checks see it; one that a module makes
dialects.py          the form of a guess, and reading marks
play.py              players, games, and the examiner who plays each game once
checks.py            the checks, and a target held against them
commands.py          the command
openenv.py           an OpenEnv server, ours or another, as a target
trainers.py          a trainer, held against ours on the games of recorded.json

A check of an environment knows a secret only from having found it, by play from the marks alone. Ids are those of
OpenEnv's RFC 008 where one says the same; `wordle.*` are the rules of this game.
"""
