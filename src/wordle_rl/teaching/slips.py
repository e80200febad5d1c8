"""Misspelt guesses before a teacher's own, so that a player learns to correct one on the next turn.

A language model that half knows a word says something close to it, which is refused and costs the turn. Games without
misspellings do not teach it what a refusal means.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from wordle_rl.game import Turn, violates_clues
from wordle_rl.words import WordList

_TRIES = 20
_SECOND_LETTER_RATE = 0.2


def misspelt(word: str, board: Sequence[Turn], words: WordList, rng: random.Random) -> str | None:
    """An unlisted word, one or two letters off, that fits the board and is not on it; None if none was found.

    New letters are drawn from the same place of listed words, so that letters common there are common here.
    """
    played = {turn.guess for turn in board}
    for _ in range(_TRIES):
        letters = list(word)
        for place in rng.sample(range(len(word)), 1 + (rng.random() < _SECOND_LETTER_RATE)):
            letters[place] = rng.choice(words.guesses)[place]
        slip = "".join(letters)
        if slip not in words.guess_index and slip not in played and not violates_clues(slip, board):
            return slip
    return None
