"""Chat messages to token ids and loss masks.

codec.py      `ChatCodec`: prompts, completions and whole games as tokens; masks
templates.py  chat templates that rewrite earlier turns, and their replacements
lengths.py    tokens that games and completions may take: longest_game(), fit_problems()
"""
