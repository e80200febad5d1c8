"""Checks for any Wordle environment and any trainer: `wordle-rl conformance URL|module`.

A check of an environment learns a secret only by finding it through play. Check ids are those of OpenEnv's RFC 008
where it has the same check; `wordle.*` are the rules of this game.
"""
