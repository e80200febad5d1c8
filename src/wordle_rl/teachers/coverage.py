"""Selection of games with outside secrets: those whose boards single out the answers shown least so far.

A model learns to name a word from boards on which few others are possible. Games of a training secret have such boards.
For any other answer, they occur only if a word from outside the answers happens to give the same marks, which for some
answers is a hundred times rarer than for others. So more games are played than are kept. All answers are treated alike:
the count is how often each was shown, never which of them may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wordle_rl.config import TeacherSettings
from wordle_rl.teachers.solver import SolverTeacher, TeacherGames

_BATCHES = 16
"""Parts in which the games to keep are picked."""
_STRAYED = 0.3
"""Weight of a showing after a turn that is not taught."""

Shown = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.float64]]
"""Row of the game, answer, and weight of a showing (1 / words then possible). Three arrays of equal length."""


class Coverage:
    """Plays teacher games so that all answers are shown about equally often.

    An answer is shown when the teacher names it after the first turn, which counts 1 / (number of words then possible).
    It counts less after a turn that is not taught, since a player trained on these games seldom reaches such boards.
    Costs a matrix of outside words by answers (90 MB for the default list).

    Args:
        teacher: The solver teacher.
        choice: Games with outside secrets played for each that is kept.
    """

    def __init__(self, teacher: SolverTeacher, choice: int) -> None:
        self._teacher, self._choice = teacher, choice
        words = teacher.words
        self._outside_index = np.full(len(words.guesses), -1)
        self._outside_index[[words.guess_index[word] for word in words.outside]] = np.arange(len(words.outside))
        self._answer_index = np.array([words.answer_index.get(word, -1) for word in words.guesses])
        self._shown_by = np.zeros((len(words.outside), len(words.answers)), np.float32)
        self._played = np.zeros(len(words.outside))
        self.shown = np.zeros(len(words.answers))

    def play(self, secrets: Sequence[str], settings: TeacherSettings, seed: int) -> TeacherGames:
        """Play one game per secret; a secret from outside the answers may be replaced by another such word.

        Args:
            secrets: Listed words.
            settings: How the teacher plays.
            seed: Seed of its noise and of the further words drawn.

        Raises:
            WordListError: If there is no secret or one is not listed.
        """
        rows = np.array([i for i, secret in enumerate(secrets) if secret not in self._teacher.words.answer_index], int)
        more = self._draw(len(rows) * (self._choice - 1), np.random.default_rng((seed, 1))) if len(rows) else []
        games = self._teacher.play([*secrets, *more], settings, seed, self._rarity())
        row, answer, share = shown = self._shown(games)
        candidate = np.arange(len(secrets) + len(more)) >= len(secrets)
        candidate[rows] = True
        self._record(games.secrets, candidate, shown)
        inside = ~candidate[row]
        np.add.at(self.shown, answer[inside], share[inside])
        order = np.arange(len(secrets))
        order[rows] = self._pick(candidate, shown, len(rows))
        return games.take(order)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Everything counted so far, as arrays by name; of the matrix, what is not zero."""
        rows, columns = np.nonzero(self._shown_by)
        return {
            "shown": self.shown,
            "played": self._played,
            "rows": rows,
            "columns": columns,
            "shown_by": self._shown_by[rows, columns],
        }

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Resume from what `state` gave."""
        self.shown, self._played = state["shown"].copy(), state["played"].copy()
        self._shown_by[:] = 0
        self._shown_by[state["rows"], state["columns"]] = state["shown_by"]

    def _shown(self, games: TeacherGames) -> Shown:
        row, turn = np.nonzero(games.taught & (games.guesses >= 0))
        answer = self._answer_index[games.guesses[row, turn]]
        counts = (turn > 0) & (answer >= 0)
        row, turn, answer = row[counts], turn[counts], answer[counts]
        strayed = np.logical_or.accumulate(~games.taught & (games.guesses >= 0), axis=1)[row, turn]
        return row, answer, np.where(strayed, _STRAYED, 1.0) / games.remaining[row, turn]

    def _rarity(self) -> npt.NDArray[np.float64]:
        """Usefulness of showing each answer once more, shape (answers,)."""
        return np.asarray((1.0 + self.shown) ** -2)

    def _draw(self, count: int, rng: np.random.Generator) -> list[str]:
        """Outside words, more likely those that showed rare answers before; words not yet played count as average."""
        usefulness = self._shown_by @ self._rarity().astype(np.float32)
        usefulness = (usefulness + usefulness.sum() / max(self._played.sum(), 1)) / (self._played + 1)
        chances = usefulness / usefulness.sum() if usefulness.any() else None
        outside = self._teacher.words.outside
        return [outside[i] for i in rng.choice(len(outside), count, p=chances)]

    def _record(self, secrets: npt.NDArray[np.int32], candidate: npt.NDArray[np.bool_], shown: Shown) -> None:
        """Record what each outside word shows, whether its game is kept or not."""
        row, answer, share = shown
        np.add.at(self._played, self._outside_index[secrets[candidate]], 1)
        of_outside = candidate[row]
        words = self._outside_index[secrets[row[of_outside]]]
        np.add.at(self._shown_by, (words, answer[of_outside]), share[of_outside].astype(np.float32))

    def _pick(self, candidate: npt.NDArray[np.bool_], shown: Shown, count: int) -> npt.NDArray[np.intp]:
        """Rows of the `count` games kept, a part at a time, so that later parts show what earlier ones did not."""
        row, answer, share = shown
        free, picked = candidate.copy(), np.empty(0, np.intp)
        while len(picked) < count:
            usefulness = np.bincount(row, share * self._rarity()[answer], len(free))
            size = min(-(-count // _BATCHES), count - len(picked))
            part = np.argsort(np.where(free, -usefulness, np.inf), kind="stable")[:size]
            free[part] = False
            chosen = np.zeros(len(free), np.bool_)
            chosen[part] = True
            np.add.at(self.shown, answer[chosen[row]], share[chosen[row]])
            picked = np.concatenate([picked, part])
        return picked
