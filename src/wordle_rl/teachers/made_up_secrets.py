"""Made-up secrets of teacher games: invented words, and pseudo secrets.

Invented words are letters that follow each other as in the word list, but form no word of it. A policy that has only
seen secrets of its list cannot handle a board that none of them fits, and strict words lead to such boards. So the
secret of some teacher games is an invented word, which the teacher names once no answer fits. A word that occurs once
cannot be memorised, so the policy learns to spell what the marks say. Before it, the teacher often tries other strings
that the marks allow and is refused, as a policy is that spells a word which it has never seen; what comes after a
refusal is learnt. If refused strings were only misspelt words, which a policy would hardly name, it would not learn to
let go of its own.

Pseudo secrets are letters that stand in for an answer. A player knows a secret only by its marks. If other letters give
the same marks as an answer for every guess before it is named, the game is the same up to that point: the board leaves
only the answer, the teacher names it, and it is not the secret. So a game can show any answer, even a held-out one, on
a board that decides it, while no game has it as the secret. Wins on such words are coverage, not generalisation.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

from wordle_rl.game import Turn, score_guess, scored_turn, violates_clues
from wordle_rl.prompt import Knowledge, knowledge_of
from wordle_rl.words import WordList, WordListError

_CONTEXT = 2
"""Number of preceding letters that a letter depends on, besides its place."""
_MOST_DRAWN = 1000
"""Give up after drawing this many listed words in a row."""
_MOST_FITTING = 200
"""Give up after drawing this many strings for a board."""


class Spelling:
    """How the letters of a word list follow each other: each depends on its place and the letters before it.

    Answers count twice, other words once.
    """

    def __init__(self, words: WordList) -> None:
        self._words = words
        following: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        for word in (*words.guesses, *words.answers):
            for place, letter in enumerate(word):
                following[place, word[max(0, place - _CONTEXT) : place]][letter] += 1
        self._following = {before: (list(counts), list(counts.values())) for before, counts in following.items()}

    def draw(self, rng: random.Random) -> str | None:
        """Draw a string; None if it is listed, or a strict word."""
        return self._drawn(rng, Knowledge((None,) * self._words.word_length, {}, {}, {}, ()))

    def draw_fitting(self, board: Sequence[Turn], secret: str, rng: random.Random) -> str | None:
        """Draw a new string that the marks of a board allow; None if that is the secret, or none was found soon."""
        known, named = knowledge_of(board, self._words.word_length), {turn.guess for turn in board}
        for _ in range(_MOST_FITTING):
            word = self._drawn(rng, known)
            if word is not None and word not in named and not violates_clues(word, board):
                return None if word == secret else word
        return None

    def _drawn(self, rng: random.Random, known: Knowledge) -> str | None:
        # Known letters and places of letters are kept to at once; how often a letter occurs is left to the caller.
        word = ""
        for place, placed in enumerate(known.placed):
            choices = zip(*self._following.get((place, word[max(0, place - _CONTEXT) :]), ((), ())), strict=True)
            allowed = [
                (letter, count)
                for letter, count in choices
                if letter not in known.absent and place not in known.misplaced.get(letter, ())
            ]
            if not (placed or allowed):
                return None
            word += placed or rng.choices(*zip(*allowed, strict=True))[0]
        return None if word in self._words or word in self._words.reserved else word


def invented_words(words: WordList, rng: random.Random) -> Iterator[str]:
    """Draw words by the letter statistics of a list; answers count twice, other words once, and none is drawn itself.

    Examples:
        >>> from wordle_rl.words import load_words
        >>> found = next(invented_words(load_words(), random.Random(0)))
        >>> len(found), found in load_words()
        (5, False)
    """
    spelling = Spelling(words)
    failed = 0
    while failed < _MOST_DRAWN:
        word = spelling.draw(rng)
        failed += 1
        if word is not None:
            failed = 0
            yield word
    raise WordListError(
        f"word list {words.name!r} is too small to invent words that are not in it; set invented_rate to 0"
    )


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MOST_UNTRIED = 3
"""Number of unplayed letters to try; marks cannot distinguish them."""
_MOST_TRIED = 500
"""Most strings to score."""


def pseudo_secret(
    answer: str, guesses: Sequence[str], words: WordList, rng: random.Random, refused: Collection[str] = ()
) -> str | None:
    """Find letters that are not an answer but give the same marks as `answer` for all guesses; None if there are none.

    `guesses` are those before the answer is named, `refused` strings that the game has called no words. `rng` chooses
    among several strings.

    Examples:
        >>> words = WordList("two", ("crane", "slate"), ("crane", "slate"))
        >>> found = pseudo_secret("crane", ["slate"], words, random.Random(0))
        >>> found != "crane" and score_guess(found, "slate") == score_guess("crane", "slate")
        True
    """
    marks = [score_guess(answer, guess) for guess in guesses]
    known = knowledge_of([scored_turn(answer, guess) for guess in guesses], len(answer))
    played = {*"".join(guesses)}
    untried = [letter for letter in _LETTERS if letter not in played]
    untried = rng.sample(untried, min(_MOST_UNTRIED, len(untried)))
    for word in itertools.islice(_fitting(known, untried, rng), _MOST_TRIED):
        is_other = word in words.answer_index or word in words.reserved or word in refused
        if not is_other and all(score_guess(word, guess) == given for guess, given in zip(guesses, marks, strict=True)):
            return word
    return None


def _fitting(known: Knowledge, untried: list[str], rng: random.Random, begun: str = "") -> Iterator[str]:
    # Extend a string letter by letter, in random order, as far as the known marks allow.
    missing = {letter: most - begun.count(letter) for letter, most in known.at_least.items()}
    place, length = len(begun), len(known.placed)
    if sum(max(0, count) for count in missing.values()) > length - place:
        return
    if place == length:
        yield begun
        return
    placed = known.placed[place]
    letters = [placed] if placed else [*untried, *known.at_least]
    for letter in rng.sample(letters, len(letters)):
        full = letter in known.exactly and begun.count(letter) >= known.exactly[letter]
        if letter == placed or not (full or place in known.misplaced.get(letter, ())):
            yield from _fitting(known, untried, rng, begun + letter)
