"""The rules of Wordle and nothing else: any word length, any number of turns, hard mode."""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


def score_guess(secret: str, guess: str) -> str:
    """Mark each letter of a guess: `G` right place, `Y` elsewhere in the word, `X` no copy left.

    Greens are assigned first; every yellow then uses up one copy of the letter that no green took.

    Examples:
        >>> score_guess("crane", "caper")
        'GYXYY'
        >>> score_guess("abbey", "babes")
        'YYGGX'
        >>> score_guess("abide", "speed")
        'XXYXY'
    """
    if len(secret) != len(guess):
        raise ValueError(f"a guess of {len(guess)} letters cannot be scored against {len(secret)} letters")
    pairs = list(zip(secret, guess, strict=True))
    # Fast path without counting copies. It is wrong only if a letter repeats in the guess and one of its marks is Y.
    marks = "".join(["G" if s == g else "Y" if g in secret else "X" for s, g in pairs])
    if "Y" not in marks or len(set(guess)) == len(guess):
        return marks
    unmatched = [s for s, g in pairs if s != g]  # copies that no green uses
    marks = ""
    for s, g in pairs:
        if s == g:
            marks += "G"
        elif g in unmatched:
            unmatched.remove(g)
            marks += "Y"
        else:
            marks += "X"
    return marks


class Dictionary(StrEnum):
    """How the rules treat a reply that is not a listed guess."""

    STRICT = "strict"
    """It costs the turn and gets no marks. Results are quoted for this setting only."""
    LENIENT = "lenient"
    """Any word of the right length is scored."""
    APP = "app"
    """Any bad reply is refused for free, up to `max_refusals` times a game. After that it costs the turn."""


class Outcome(StrEnum):
    """Outcome of one reply under the rules."""

    SCORED = "scored"
    """A guess that got marks."""
    MALFORMED = "malformed"
    """A reply without a guess."""
    WRONG_LENGTH = "wrong_length"
    """A guess whose length differs from the secret's."""
    UNLISTED = "unlisted"
    """A guess outside the word list."""
    HARD_MODE = "hard_mode"
    """A guess that ignores a revealed letter, in hard mode."""

    @property
    def broke_rules(self) -> bool:
        """True unless the reply was a scored guess."""
        return self is not Outcome.SCORED


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of one game."""

    max_turns: int = 6
    dictionary: Dictionary = Dictionary.STRICT
    hard_mode: bool = False
    max_refusals: int = 10

    def __post_init__(self) -> None:
        # `is` tells the members apart, which a plain string "app" would fail.
        object.__setattr__(self, "dictionary", Dictionary(self.dictionary))
        if self.max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, not {self.max_turns}")
        if self.max_refusals < 0:
            raise ValueError(f"max_refusals must be at least 0, not {self.max_refusals}")

    @property
    def in_effect(self) -> Rules:
        """The same rules with `max_refusals` 0 unless the dictionary is `app`, so that equal rules compare equal."""
        return self if self.dictionary is Dictionary.APP else replace(self, max_refusals=0)

    @property
    def max_replies(self) -> int:
        """The most replies one game can take, free refusals included."""
        return self.max_turns + (self.max_refusals if self.dictionary is Dictionary.APP else 0)


class Turn(NamedTuple):
    """One reply as the rules saw it.

    `guess` is None if nothing could be parsed, `marks` is None if the guess was not scored. `costs_turn` is False only
    for a free refusal of the `app` dictionary.
    """

    guess: str | None
    marks: str | None
    outcome: Outcome
    costs_turn: bool = True


@lru_cache(maxsize=1 << 15)  # games of a group share their secret, and most games their opener
def scored_turn(secret: str, guess: str) -> Turn:
    """Return the turn of a guess that got its marks."""
    return Turn(guess, score_guess(secret, guess), Outcome.SCORED)


def scored_pairs(turns: Iterable[Turn]) -> tuple[tuple[str, str], ...]:
    """Return each guess that got marks, with its marks: what a board tells, without refused replies."""
    return tuple([(turn.guess, turn.marks) for turn in turns if turn.guess is not None and turn.marks is not None])


def turns_used(turns: Iterable[Turn]) -> int:
    """Return the number of turns that replies have cost; a free refusal costs none."""
    return sum([turn.costs_turn for turn in turns])


def violates_clues(guess: str, turns: Sequence[Turn]) -> bool:
    """Return True if the earlier marks rule a guess out as the secret.

    Examples:
        >>> seen = [Turn("crane", "GXXXX", Outcome.SCORED)]
        >>> violates_clues("could", seen), violates_clues("mould", seen)
        (False, True)
    """
    return any(len(past) == len(guess) and score_guess(guess, past) != marks for past, marks in scored_pairs(turns))


def hard_mode_fault(guess: str, turns: Sequence[Turn]) -> str | None:
    """Name the first revealed hint that a guess ignores, or None.

    Hard mode asks for less than consistency. Greens stay in place, and a revealed letter is used again, anywhere, as
    often as it was revealed.
    """
    for past, marks in scored_pairs(turns):
        revealed = ""
        for place, (letter, mark) in enumerate(zip(past, marks, strict=True)):
            if mark == "G" and guess[place : place + 1] != letter:
                return f"letter {place + 1} must be {letter}"
            if mark != "X":
                revealed += letter
        for letter in revealed:
            if guess.count(letter) < revealed.count(letter):
                return f"the guess must contain {letter}"
    return None


class Game:
    """One game: its secret, the turns so far, and the rules that judge the next guess."""

    def __init__(self, secret: str, listed: Container[str], rules: Rules | None = None) -> None:
        self._secret = secret
        self._listed = listed
        self.rules = rules or Rules()
        self.turns: list[Turn] = []
        self.turns_used = 0
        self.refusals = 0
        self.won = False

    @property
    def turns_left(self) -> int:
        """Number of turns left."""
        return self.rules.max_turns - self.turns_used

    @property
    def over(self) -> bool:
        """True if the game was won or no turn is left. A win on the last turn is a win."""
        return self.won or self.turns_used >= self.rules.max_turns

    def play(self, guess: str | None) -> Turn:
        """Play a guess. None stands for a reply without a guess."""
        if self.over:
            raise RuntimeError("the game is over; start a new one")
        outcome = self._outcome(guess)
        if outcome is Outcome.SCORED and guess is not None:
            turn = scored_turn(self._secret, guess)
            self.won = guess == self._secret
        else:
            free = self.rules.dictionary is Dictionary.APP and self.refusals < self.rules.max_refusals
            self.refusals += free
            turn = Turn(guess, None, outcome, costs_turn=not free)
        self.turns.append(turn)
        self.turns_used += turn.costs_turn
        return turn

    def preview(self, guess: str | None) -> Turn:
        """Return the turn that `play` would return, without playing it."""
        twin = copy.copy(self)
        twin.turns = list(self.turns)
        return twin.play(guess)

    def _outcome(self, guess: str | None) -> Outcome:
        # From the plainest fault to the finest, so that each reply has one outcome.
        if guess is None:
            return Outcome.MALFORMED
        if len(guess) != len(self._secret):
            return Outcome.WRONG_LENGTH
        if self.rules.dictionary is not Dictionary.LENIENT and guess not in self._listed:
            return Outcome.UNLISTED
        if self.rules.hard_mode and hard_mode_fault(guess, self.turns) is not None:
            return Outcome.HARD_MODE
        return Outcome.SCORED
