"""Invented words: letters that follow each other as in the word list, but form no word of it.

A policy that has only seen secrets of its list cannot handle a board that none of them fits, and strict words lead to
such boards. So the secret of some teacher games is an invented word, which the teacher names once no answer fits. A
word that occurs once cannot be memorised, so the policy learns to spell what the marks say.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

from wordle_rl.words import WordList, WordListError

_CONTEXT = 2
"""Number of preceding letters that a letter depends on, besides its place."""
_MOST_TRIED = 1000
"""Give up after drawing this many listed words in a row."""


class Inventor:
    """Draw invented words from the letter statistics of a word list; answers count twice, other words once.

    Examples:
        >>> from wordle_rl.words import load_words
        >>> words = load_words()
        >>> found = Inventor(words).draw(random.Random(0))
        >>> len(found), found in words.guess_index
        (5, False)
    """

    def __init__(self, words: WordList) -> None:
        self._words = words
        following: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        for word in (*words.guesses, *words.answers):
            for place, letter in enumerate(word):
                following[place, word[max(0, place - _CONTEXT) : place]][letter] += 1
        self._following = {before: (list(counts), list(counts.values())) for before, counts in following.items()}

    def draw(self, rng: random.Random) -> str:
        """Draw a word that is neither listed nor reserved.

        Raises:
            WordListError: If the list is so small that only its own words are drawn.
        """
        for _ in range(_MOST_TRIED):
            word = ""
            for place in range(self._words.word_length):
                letters, counts = self._following[place, word[max(0, place - _CONTEXT) :]]
                word += rng.choices(letters, counts)[0]
            if word not in self._words.guess_index and word not in self._words.reserved:
                return word
        raise WordListError(
            f"word list {self._words.name!r} is too small to invent words that are not in it; set "
            "traces.invented_rate to 0"
        )
