"""Chat messages to token ids and loss masks.

codec.py      `ChatCodec`: prompts, completions and whole games as tokens, with loss masks
templates.py  training variants of chat templates that rewrite earlier turns
lengths.py    how many tokens games and completions may take: longest_game(), longest_reply()
"""
