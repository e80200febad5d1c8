"""The free teacher: solver play for thousands of games at once, with controlled noise so that states vary.

Only the board and chance decide what the teacher says; the secret never does. It names a word that is still possible,
and of those the one that splits the rest into the most classes; where `probe_gain` allows, a word that cannot be the
secret but makes that many classes more. A secret from outside the answers is played alike until no answer fits the
board any more; there the teacher falls silent, which ends the game. Such games show a policy boards that single out
answers which were never anybody's secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from wordle_rl.config import TeacherSettings
from wordle_rl.game import Turn
from wordle_rl.solver import Solver, encode_marks, feedback_matrix
from wordle_rl.solver.partition import count_split
from wordle_rl.words import WordList, WordListError

Ints = npt.NDArray[np.int32]

_MAX_RIVALS = 128
_MAX_PROBED = 32
_MAX_MEMO = 400_000
_CHUNK = 1024


@dataclass(frozen=True)
class TeacherGames:
    """Games as arrays of shape (num_games, max_turns), -1 where no turn was played.

    `guesses` are indices into the guesses, `codes` the marks as numbers (see `Solver`), `taught` marks the
    turns the teacher stands by, `remaining` the number of answers possible before the turn, `classes` into how
    many classes a guess chosen for its split divides them (0: chosen otherwise). `secrets` are indices into
    the guesses, shape (num_games,).
    """

    secrets: Ints
    guesses: Ints
    codes: Ints
    taught: npt.NDArray[np.bool_]
    remaining: Ints
    classes: Ints

    @property
    def num_turns(self) -> Ints:
        """Turns played per game, shape (num_games,)."""
        return np.asarray((self.guesses >= 0).sum(axis=1), dtype=np.int32)

    @property
    def won(self) -> npt.NDArray[np.bool_]:
        """Whether each game found its secret, shape (num_games,)."""
        return np.asarray((self.guesses == self.secrets[:, None]).any(axis=1))

    def take(self, rows: npt.NDArray[np.intp]) -> TeacherGames:
        """The games of these rows, in their order."""
        return TeacherGames(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Advice:
    """What the teacher says on a board.

    `remaining` is the number of answers that fit it, `classes` into how many classes the guess divides them (0: it
    opens the game).
    """

    guess: str
    remaining: int
    classes: int


class SolverTeacher:
    """Plays batches of games for one word list. Costs a full guess-by-guess matrix (about 120 MB)."""

    def __init__(self, solver: Solver) -> None:
        self.words: WordList = solver.words
        self._solver = solver
        guesses, answers = self.words.guesses, self.words.answers
        self._answer_as_guess = np.array([self.words.guess_index[word] for word in answers], dtype=np.int32)
        self._codes = np.ascontiguousarray(feedback_matrix(guesses, guesses))  # (guesses, secrets)
        self._answer_codes = np.ascontiguousarray(self._codes[:, self._answer_as_guess])  # (guesses, answers)
        self._num_codes = 3**self.words.word_length
        self._is_answer = np.zeros(len(guesses), np.bool_)
        self._is_answer[self._answer_as_guess] = True
        self._best: dict[tuple[bytes, int], tuple[int, int]] = {}

    def play(self, secrets: Sequence[str], settings: TeacherSettings, seed: int) -> TeacherGames:
        """Play one game per secret.

        Raises:
            WordListError: If there is no secret, or a secret or the opener is not listed.
        """
        if not secrets:
            raise WordListError("the teacher was given no secrets; give at least one")
        rng = np.random.default_rng(seed)
        indices = np.array([self._listed("secret", secret) for secret in secrets], dtype=np.int32)
        opener = self._listed("opener", settings.opener) if settings.opener else self._best_opener
        chunks = [
            self._play_chunk(indices[start : start + _CHUNK], settings, opener, rng)
            for start in range(0, len(indices), _CHUNK)
        ]
        return TeacherGames(*(np.concatenate(parts) for parts in zip(*chunks, strict=True)))

    def advise(self, boards: Iterable[Sequence[Turn]], settings: TeacherSettings) -> list[Advice | None]:
        """What the teacher, without its noise, says on each board.

        Turns that were not scored are on the board, but rule nothing out. A probe is advised while a guess is left to
        make use of it.

        Args:
            boards: The turns played so far, by whomever.
            settings: The opener, for boards without a scored turn, `probe_gain`, and `max_turns` of the game.

        Returns:
            One advice per board, in order; None where no answer fits.

        Raises:
            WordListError: If the opener is not listed.
        """
        opener = self._listed("opener", settings.opener) if settings.opener else self._best_opener
        said: dict[tuple[tuple[tuple[str, str], ...], bool], Advice | None] = {}
        advices = []
        for board in boards:
            scored = tuple((turn.guess, turn.marks) for turn in board if turn.guess is not None and turn.marks)
            may_probe = sum(turn.costs_turn for turn in board) + 1 < settings.max_turns
            key = (scored, may_probe)
            if key not in said:
                said[key] = self._advice(scored, settings.probe_gain if may_probe else 0, opener)
            advices.append(said[key])
        return advices

    def _advice(self, scored: Sequence[tuple[str, str]], probe_gain: int, opener: int) -> Advice | None:
        fitting = np.ones(len(self.words.answers), np.bool_)
        for guess, marks in scored:
            index = self.words.guess_index.get(guess)
            codes = feedback_matrix((guess,), self.words.answers)[0] if index is None else self._answer_codes[index]
            fitting &= codes == encode_marks(marks)
        remaining = int(fitting.sum())
        if not remaining:
            return None
        if not scored:
            return Advice(self.words.guesses[opener], remaining, 0)
        best, classes = self._best_guess(np.packbits(fitting).tobytes(), fitting, probe_gain)
        return Advice(self.words.guesses[best], remaining, classes)

    def _listed(self, what: str, word: str) -> int:
        index = self.words.guess_index.get(word)
        if index is None:
            raise WordListError(f"{what} {word!r} is not in word list {self.words.name!r}; give a listed word")
        return index

    @cached_property
    def _best_opener(self) -> int:
        """The most informative answer, as an index into the guesses: a word that may yet be the secret."""
        bits = self._solver.information(self._solver.candidates([]))[self._answer_as_guess]
        return int(self._answer_as_guess[np.argmax(bits)])

    def _play_chunk(
        self, secrets: Ints, settings: TeacherSettings, opener: int, rng: np.random.Generator
    ) -> tuple[Ints, Ints, Ints, npt.NDArray[np.bool_], Ints, Ints]:
        shape = (len(secrets), settings.max_turns)
        guesses, codes = np.full(shape, -1, np.int32), np.full(shape, -1, np.int32)
        taught, remaining = np.zeros(shape, np.bool_), np.zeros(shape, np.int32)
        classes = np.zeros(shape, np.int32)
        possible = np.ones((len(secrets), len(self.words.answers)), np.bool_)  # (games, answers)
        active = np.arange(len(secrets))
        noise = np.where(self._is_answer[secrets], settings.noise_rate, settings.outside_noise_rate)
        for turn in range(settings.max_turns):
            remaining[active, turn] = possible[active].sum(axis=1)
            active = active[remaining[active, turn] > 0]
            if not len(active):
                break
            if turn == 0:
                chosen = self._openers(len(active), settings, opener, rng)
                stray = np.zeros(len(active), np.bool_)
            else:
                chosen, stray, classes[active, turn] = self._choose(
                    possible[active], noise[active], settings.stray_rate, settings.probe_gain, rng
                )
            code = self._codes[chosen, secrets[active]]
            guesses[active, turn], codes[active, turn] = chosen, code
            taught[active, turn] = ~stray
            possible[active] &= self._answer_codes[chosen] == code[:, None]
            active = active[chosen != secrets[active]]
        return secrets, guesses, codes, taught, remaining, classes

    def _openers(self, count: int, settings: TeacherSettings, opener: int, rng: np.random.Generator) -> Ints:
        random = rng.choice(self._answer_as_guess, count)
        return np.where(rng.random(count) < settings.random_opener_rate, random, opener).astype(np.int32)

    def _choose(
        self,
        possible: npt.NDArray[np.bool_],
        noise: npt.NDArray[np.float64],
        stray_rate: float,
        probe_gain: int,
        rng: np.random.Generator,
    ) -> tuple[Ints, npt.NDArray[np.bool_], Ints]:
        """One guess per board, whether it is a stray, and its classes; `possible` has shape (boards, answers)."""
        draw = rng.random(len(possible))
        stray = draw < stray_rate
        noisy = ~stray & (draw < stray_rate + noise)
        keys = np.packbits(possible, axis=1)
        chosen, classes = np.empty(len(possible), np.int32), np.zeros(len(possible), np.int32)
        for row in range(len(possible)):
            if stray[row]:
                chosen[row] = rng.integers(len(self.words.guesses))
            elif noisy[row]:
                chosen[row] = self._answer_as_guess[rng.choice(np.flatnonzero(possible[row]))]
            else:
                chosen[row], classes[row] = self._best_guess(keys[row].tobytes(), possible[row], probe_gain)
        return chosen, stray, classes

    def _best_guess(self, key: bytes, possible: npt.NDArray[np.bool_], probe_gain: int) -> tuple[int, int]:
        found = self._best.get((key, probe_gain))
        if found is None:
            if len(self._best) >= _MAX_MEMO:
                self._best.clear()
            candidates = np.flatnonzero(possible)
            found = self._split_best(candidates)
            if probe_gain and found[1] + probe_gain <= len(candidates) <= _MAX_RIVALS:
                found = self._probe(candidates, found, probe_gain)
            self._best[key, probe_gain] = found
        return found

    def _split_best(self, candidates: npt.NDArray[np.intp]) -> tuple[int, int]:
        """The candidate that splits the candidates into the most classes, the first of equals, and their number.

        Among more than `_MAX_RIVALS` candidates only about that many, evenly spread over the alphabet, are weighed.
        """
        if len(candidates) <= 2:
            return int(self._answer_as_guess[candidates[0]]), len(candidates)
        rivals = candidates[:: -(-len(candidates) // _MAX_RIVALS)]
        block = self._answer_codes[np.ix_(self._answer_as_guess[rivals], candidates)]  # (rivals, candidates)
        occurs = np.zeros((len(rivals), self._num_codes), np.bool_)
        occurs[np.arange(len(rivals))[:, None], block] = True
        classes = occurs.sum(axis=1)
        best = int(np.argmax(classes))
        return int(self._answer_as_guess[rivals[best]]), int(classes[best])

    def _probe(self, candidates: npt.NDArray[np.intp], found: tuple[int, int], gain: int) -> tuple[int, int]:
        """The listed word with the most classes if it makes `gain` more than the best candidate, else that one.

        For more than `_MAX_PROBED` candidates only a part of the listed words, evenly spread, is weighed.
        """
        step = -(-len(candidates) // _MAX_PROBED)
        block = np.ascontiguousarray(self._answer_codes[::step, candidates].T)  # (candidates, guesses)
        classes = count_split(block).num_classes
        best = int(np.argmax(classes))
        return (best * step, int(classes[best])) if classes[best] >= found[1] + gain else found
