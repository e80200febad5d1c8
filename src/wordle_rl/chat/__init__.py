"""Chat messages to token ids and loss masks.

codec.py      `ChatCodec`: prompts, completions and whole games as tokens; the lengths of games
masks.py      loss masks: which tokens of a game are trained
templates.py  training variants of chat templates that rewrite earlier turns
"""
