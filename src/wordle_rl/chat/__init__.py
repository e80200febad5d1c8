"""Chat messages to token ids and loss masks.

codec.py      `ChatCodec`: prompts, completions and whole games as tokens, with loss masks; the lengths of games
templates.py  training variants of chat templates that rewrite earlier turns
"""
