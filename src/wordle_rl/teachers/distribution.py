"""What the solver says at any board, whoever played it: one guess, or a distribution over words.

    q(word | board)  ~  exp(-regret(word) / temperature)

Regret is in expected guesses, so a temperature of 0.1 makes a word that costs a tenth of a guess e times rarer. It is
the quick one (`Solver.quick_regrets`): all listed words of a new board cost a pass over the table of marks, a few
milliseconds, where the exact search takes that long for one word.

Not every listed word gets a chance. There are thousands, each of them bad at most boards, and together they would
outweigh the few good ones. Considered are the words that may be the secret, and the best guesses of all, as many as the
solver's search looks at. For the last guess, or in hard mode, only those that may be the secret are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from wordle_rl.config import TraceSettings
from wordle_rl.data.game_record import TurnRecord
from wordle_rl.game import Rules, Turn, violates_clues
from wordle_rl.prompt import Prompter, Thinking
from wordle_rl.solver import Solver
from wordle_rl.solver.exact import DEFAULT_BEAM
from wordle_rl.teachers.games import narration
from wordle_rl.teachers.solver import SolverTeacher, listed_guess

_LEAST = 1e-4
"""Words that are less likely are left out: they teach nothing and make targets long."""
_MAX_BOARDS = 20_000


@dataclass(frozen=True, slots=True)
class WordDistribution:
    """Words, the chance of each, which sum to 1, and the thinking that leads to them."""

    words: tuple[str, ...]
    chances: tuple[float, ...]
    thinking: str = ""

    @property
    def entropy(self) -> float:
        """In nats."""
        return -sum(chance * math.log(chance) for chance in self.chances)

    def is_likeliest(self, word: str | None) -> bool:
        """True if no other word is likelier."""
        return word in self.words and self.chances[self.words.index(word)] == max(self.chances)

    def draw(self, rng: random.Random) -> int:
        """The place of a word drawn by chance."""
        return rng.choices(range(len(self.words)), self.chances)[0]


class BoardTeacher(Protocol):
    """Says what to play at boards that others came to."""

    def __call__(self, board: Sequence[Turn]) -> WordDistribution | None:
        """What to play; None where no answer fits. Turns without marks rule nothing out."""


class SolverGuess:
    """The guess of the solver teacher.

    Args:
        solver: Of the word list.
        traces: How the teacher plays, without its noise, and whether it writes its thinking.
        prompter: Rules, and whether there may be thinking.

    Raises:
        WordListError: If the opener is not listed.
    """

    def __init__(self, solver: Solver, traces: TraceSettings, prompter: Prompter) -> None:
        self._teacher, self._words = SolverTeacher(solver), solver.words
        self._settings, self._max_turns = traces.teacher, prompter.rules.max_turns
        self._narrates = traces.narrate and prompter.thinking is not Thinking.OFF
        self._teacher.advise([()], self._settings)  # refuses the opener now, before a game is played

    def __call__(self, board: Sequence[Turn]) -> WordDistribution | None:
        """See `BoardTeacher`."""
        [advice] = self._teacher.advise([board], self._settings, self._max_turns)
        if advice is None:
            return None
        thinking = ""
        if self._narrates:
            scored = [TurnRecord(turn.guess, turn.marks) for turn in board if turn.guess and turn.marks]
            probe = advice.guess not in self._words.answer_index or violates_clues(advice.guess, board)
            thinking = narration(scored, advice.guess, advice.remaining, advice.classes, probe=probe)
        return WordDistribution((advice.guess,), (1.0,), thinking)


class SolverDistribution:
    """The solver's distribution over words by their regret.

    Args:
        solver: Of the word list.
        temperature: In expected guesses, above 0.
        rules: Turns of a game; hard mode.
        opener: The only word of a board without marks; None: openers are weighed as other words are.

    Raises:
        WordListError: If the opener is not listed.
    """

    def __init__(self, solver: Solver, temperature: float, rules: Rules, opener: str | None = None) -> None:
        if opener is not None:
            listed_guess(solver.words, "opener", opener)
        self._solver, self._temperature, self._rules, self._opener = solver, temperature, rules, opener
        self._guess_of_answer = np.array([solver.words.guess_index[word] for word in solver.words.answers])
        self._at = lru_cache(_MAX_BOARDS)(self._distribution)

    def __call__(self, board: Sequence[Turn]) -> WordDistribution | None:
        """See `BoardTeacher`."""
        scored = tuple((turn.guess, turn.marks) for turn in board if turn.guess is not None and turn.marks)
        if self._opener is not None and not scored:
            return WordDistribution((self._opener,), (1.0,))
        return self._at(scored, sum(turn.costs_turn for turn in board) + 1 >= self._rules.max_turns)

    def _distribution(self, scored: tuple[tuple[str, str], ...], is_last: bool) -> WordDistribution | None:
        candidates = self._solver.candidates(scored)
        if not len(candidates):
            return None
        considered = self._guess_of_answer[candidates]  # (n,): guesses that may be the secret
        if is_last:
            # What a guess tells is of no use any more, and each of these is the secret with the same chance.
            weights = np.ones(len(considered))
        else:
            regrets = self._solver.quick_regrets(candidates)  # (num_guesses,)
            if not self._rules.hard_mode:
                best = np.argsort(regrets, kind="stable")[:DEFAULT_BEAM]
                codes = self._solver.matrix[np.ix_(best, candidates)]  # (beam, n)
                tells = (codes != codes[:, :1]).any(axis=1)  # a word that was played tells nothing
                considered = np.union1d(considered, best[tells])
            weights = np.exp((regrets[considered].min() - regrets[considered]) / self._temperature)
        kept = weights >= _LEAST * weights.sum()
        words = tuple(self._solver.words.guesses[index] for index in considered[kept])
        return WordDistribution(words, tuple((weights[kept] / weights[kept].sum()).tolist()))
