"""Black-box checks of any Wordle environment; `check_environment.py` runs them.

A check learns a secret only by finding it through play. Check ids are those of OpenEnv's RFC 008 where it has the same
check; `wordle.*` are the rules of this game.
"""
