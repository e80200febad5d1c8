"""The solver's label for any board: one guess, or a distribution over words.

    q(word | board)  ~  exp(-regret(word) / temperature)

Regret is in expected guesses: at a temperature of 0.1, a word that costs a tenth of a guess is e times rarer. It is the
quick regret (`Solver.quick_regrets`): one pass over the table of marks, a few milliseconds for all words of a new
board. The exact search takes that long for a single word.

Only some words get probability. There are thousands of listed words, each bad on most boards, and together they would
outweigh the few good ones. So q covers the words that can be the secret and the best guesses overall, as many as the
beam of the solver. For the last guess, and in hard mode, it covers only words that can be the secret.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wordle_rl.config.teachers import TraceSettings
from wordle_rl.data.game_record import TurnRecord
from wordle_rl.game import Rules, Turn, scored_pairs, turns_used, violates_clues
from wordle_rl.prompt import Prompter, Thinking
from wordle_rl.solver import Solver
from wordle_rl.solver.solver import DEFAULT_BEAM, MAX_BOARDS
from wordle_rl.teachers.games import narration
from wordle_rl.teachers.solver import SolverTeacher, listed_guess

_LEAST = 1e-4
"""Drop words that are less likely: they teach nothing and make targets long."""


@dataclass(frozen=True, slots=True)
class WordDistribution:
    """Words, their probabilities, which sum to 1, and the thinking that leads to them."""

    words: tuple[str, ...]
    chances: tuple[float, ...]
    thinking: str = ""

    @property
    def entropy(self) -> float:
        """Entropy in nats."""
        return -sum(chance * math.log(chance) for chance in self.chances)

    def is_likeliest(self, word: str | None) -> bool:
        """True if no other word is likelier."""
        return word in self.words and self.chances[self.words.index(word)] == max(self.chances)

    def draw(self, rng: random.Random) -> int:
        """Draw the index of a word."""
        return rng.choices(range(len(self.words)), self.chances)[0]


BoardTeacher = Callable[[Sequence[Turn]], WordDistribution | None]
"""Labels boards that any player reached; None if no answer fits. Turns without marks are ignored."""


class SolverGuess:
    """Label boards with the solver teacher's guess; noise is ignored, thinking is written if `traces.narrate`."""

    def __init__(self, solver: Solver, traces: TraceSettings, prompter: Prompter) -> None:
        self._teacher, self._words = SolverTeacher(solver), solver.words
        self._settings, self._max_turns = traces.teacher, prompter.rules.max_turns
        self._narrates = traces.narrate and prompter.thinking is not Thinking.OFF
        self._teacher.advise((), self._settings)  # raises for a wrong opener now, before any game is played

    def __call__(self, board: Sequence[Turn]) -> WordDistribution | None:
        """See `BoardTeacher`."""
        advice = self._teacher.advise(board, self._settings, self._max_turns)
        if advice is None:
            return None
        thinking = ""
        if self._narrates:
            scored = [TurnRecord(turn.guess, turn.marks) for turn in board if turn.guess and turn.marks]
            probe = advice.guess not in self._words.answer_index or violates_clues(advice.guess, board)
            thinking = narration(scored, advice.guess, advice.remaining, advice.classes, probe=probe)
        return WordDistribution((advice.guess,), (1.0,), thinking)


class SolverDistribution:
    """Label boards with a distribution over words by regret, at a temperature in expected guesses.

    `opener` is the only word for a board without marks. None: weigh openers like other words.
    """

    def __init__(self, solver: Solver, temperature: float, rules: Rules, opener: str | None = None) -> None:
        if opener is not None:
            listed_guess(solver.words, "opener", opener)
        self._solver, self._temperature, self._rules, self._opener = solver, temperature, rules, opener
        self._guess_of_answer = np.array([solver.words.guess_index[word] for word in solver.words.answers])
        self._at = lru_cache(MAX_BOARDS)(self._distribution)

    def __call__(self, board: Sequence[Turn]) -> WordDistribution | None:
        """See `BoardTeacher`."""
        scored, is_last = scored_pairs(board), turns_used(board) + 1 >= self._rules.max_turns
        opener = self._opener
        if opener is not None and not scored and (not is_last or opener in self._solver.words.answer_index):
            return WordDistribution((opener,), (1.0,))
        return self._at(scored, is_last)

    def _distribution(self, scored: tuple[tuple[str, str], ...], is_last: bool) -> WordDistribution | None:
        candidates = self._solver.candidates(scored)
        if not len(candidates):
            return None
        considered = self._guess_of_answer[candidates]  # (n,): guesses that can be the secret
        if is_last:
            # Information is useless now, and each candidate is the secret with the same probability.
            weights = np.ones(len(considered))
        else:
            regrets = self._solver.quick_regrets(candidates)  # (num_guesses,)
            if not self._rules.hard_mode:
                best = np.argsort(regrets, kind="stable")[:DEFAULT_BEAM]
                codes = self._solver.matrix[np.ix_(best, candidates)]  # (beam, n)
                tells = (codes != codes[:, :1]).any(axis=1)  # drop words without information, such as those played
                considered = np.union1d(considered, best[tells])
            weights = np.exp((regrets[considered].min() - regrets[considered]) / self._temperature)
        kept = weights >= _LEAST * weights.sum()
        words = tuple(self._solver.words.guesses[index] for index in considered[kept])
        return WordDistribution(words, tuple((weights[kept] / weights[kept].sum()).tolist()))
