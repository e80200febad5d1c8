"""Invented words: letters that follow each other as in a word list, and that are no word of it.

A policy that only ever saw secrets of its list has no use for a board that none of them fits, and strict words lead to
just such boards. The secret of some teacher games is therefore an invented word. It is named once no answer fits, so
that what is trained there is to spell what the marks say: a word drawn once cannot be memorised.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

from wordle_rl.words import WordList, WordListError

_CONTEXT = 2
"""Letters before a letter that it depends on, beside its place."""
_MOST_TRIED = 1000
"""Words drawn in a row that may turn out to be listed."""


class Inventor:
    """Draws invented words, by the letters of a word list. Answers count twice, other listed words once.

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
        """One invented word: neither listed nor reserved.

        Raises:
            WordListError: If the list is so small that only its own words come of its letters.
        """
        for _ in range(_MOST_TRIED):
            word = ""
            for place in range(self._words.word_length):
                letters, counts = self._following[place, word[max(0, place - _CONTEXT) :]]
                word += rng.choices(letters, counts)[0]
            if word not in self._words.guess_index and word not in self._words.reserved:
                return word
        raise WordListError(
            f"no words can be invented by the letters of word list {self._words.name!r} that are not in it; set "
            "traces.invented_rate to 0"
        )
