"""The solver teacher: thousands of games at once, with controlled noise so that boards vary.

Turns to learn from (`taught`) depend on the board and on chance, never on the secret. The teacher plays a possible
answer: the one that splits the possible answers into the most classes or, by noise, any of them. With `plan` "probes"
it also plays a word that cannot be the secret, if that makes two classes more. With `plan` "tree" it plays the exact
tree.

A secret can be outside the answers, or not a word at all. Such a game ends when no answer fits the board. It shows the
policy boards that leave a single answer although no game has that answer as its secret.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wordle_rl.config.teachers import TeacherSettings
from wordle_rl.game import Turn, score_guess, scored_pairs, turns_used, violates_clues
from wordle_rl.solver import Solver, encode_marks, marks_matrix
from wordle_rl.solver.partition import count_split
from wordle_rl.words import WordList, WordListError

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

_CHUNK = 1024
"""Games played together. Each batch has its own seed, so another size would give other games."""

_PROBE_GAIN = 2
"""How many more classes than any possible answer a probe must make."""

_MAX_RIVALS = 128
_MAX_PROBED = 32
_MAX_MEMO = 400_000


@dataclass(frozen=True)
class TeacherGames:
    """Games as arrays of shape (num_games, max_turns); guesses and codes are -1 where no turn was played.

    Attributes:
        secrets: One per game.
        guesses: Indices into the guesses.
        codes: Marks as numbers (see `Solver`).
        taught: Whether to learn from the turn.
        remaining: Number of possible answers before the turn.
        classes: Number of classes that the guess splits them into; 0 if it was not chosen for that.
    """

    secrets: tuple[str, ...]
    guesses: Ints
    codes: Ints
    taught: Flags
    remaining: Ints
    classes: Ints


class Advice(NamedTuple):
    """The teacher's guess on a board, the number of answers that fit, and of classes (0 for an opener)."""

    guess: str
    remaining: int
    classes: int


class SolverTeacher:
    """Play batches of games for one word list, by the solver's table of marks."""

    def __init__(self, solver: Solver) -> None:
        self.words: WordList = solver.words
        self._solver = solver
        self._answer_as_guess = np.array([self.words.guess_index[word] for word in self.words.answers], dtype=np.int32)
        self._codes = np.ascontiguousarray(solver.matrix)  # (guesses, answers); whole rows are read
        self._best: dict[tuple[bytes, int], tuple[int, int]] = {}
        self._trees: dict[tuple[int, int], dict[bytes, tuple[int, int]]] = {}

    def play(self, secrets: Sequence[str], settings: TeacherSettings, seed: int, max_turns: int = 6) -> TeacherGames:
        """Play one game per secret: words of the list, or other letters of the same length."""
        if not secrets:
            raise WordListError("secrets is empty; give the teacher at least one")
        if strict := self.words.reserved.intersection(secrets):
            raise WordListError(f"secret {min(strict)!r} is a strict word, which training never names; give another")
        length = self.words.word_length
        if odd := [secret for secret in secrets if len(secret) != length]:
            raise WordListError(f"secret {odd[0]!r} does not have {length} letters; give another")
        opener = listed_guess(self.words, "opener", settings.opener) if settings.opener else self._best_opener
        chunks = [
            self._play_chunk(secrets[start : start + _CHUNK], settings, opener, (seed, start), max_turns)
            for start in range(0, len(secrets), _CHUNK)
        ]
        names = [field.name for field in fields(TeacherGames)[1:]]
        return TeacherGames(tuple(secrets), **{n: np.concatenate([getattr(c, n) for c in chunks]) for n in names})

    def advise(self, board: Sequence[Turn], settings: TeacherSettings, max_turns: int = 6) -> Advice | None:
        """Return the teacher's guess on any player's board, without noise; None if no answer fits.

        Turns without marks are ignored. A word that cannot be the secret is advised only if another guess follows.
        """
        opener = listed_guess(self.words, "opener", settings.opener) if settings.opener else self._best_opener
        scored, last = scored_pairs(board), turns_used(board) + 1 >= max_turns
        fitting = np.ones(len(self.words.answers), np.bool_)
        for guess, marks in scored:
            index = self.words.guess_index.get(guess)
            codes = marks_matrix((guess,), self.words.answers)[0] if index is None else self._codes[index]
            fitting &= codes == encode_marks(marks)
        remaining = int(fitting.sum())
        if not remaining:
            return None
        if not scored and self._may_open(opener, last):
            return Advice(self.words.guesses[opener], remaining, 0)
        play = _plan(settings, last), opener, max_turns
        best, classes = self._best_play(np.packbits(fitting).tobytes(), fitting, *play)
        return Advice(self.words.guesses[best], remaining, classes)

    @cached_property
    def _best_opener(self) -> int:
        # The most informative answer, as an index into the guesses.
        bits = self._solver.information(self._solver.candidates([]))[self._answer_as_guess]
        return int(self._answer_as_guess[np.argmax(bits)])

    def _may_open(self, opener: int, last: bool) -> bool:
        # Like a probe, an opener that is no answer needs a turn to follow.
        return not last or self.words.guesses[opener] in self.words.answer_index

    def _play_chunk(
        self, chunk: Sequence[str], settings: TeacherSettings, opener: int, seed: tuple[int, int], max_turns: int
    ) -> TeacherGames:
        secrets = np.array([self.words.guess_index.get(secret, -1) for secret in chunk], dtype=np.int32)
        answers = np.array([self.words.answer_index.get(secret, -1) for secret in chunk], dtype=np.int32)
        rng = np.random.default_rng(seed)
        shape = (len(secrets), max_turns)
        guesses, codes = np.full(shape, -1, np.int32), np.full(shape, -1, np.int32)
        taught, remaining = np.zeros(shape, np.bool_), np.zeros(shape, np.int32)
        classes = np.zeros(shape, np.int32)
        possible = np.ones((len(secrets), len(self.words.answers)), np.bool_)  # (games, answers)
        active = np.arange(len(secrets))
        for turn in range(max_turns):
            remaining[active, turn] = possible[active].sum(axis=1)
            active = active[remaining[active, turn] > 0]
            if not len(active):
                break
            last = turn == max_turns - 1
            if turn == 0 and self._may_open(opener, last):
                chosen = self._openers(len(active), settings, opener, rng)
            else:
                play = _plan(settings, last), opener, max_turns
                chosen, classes[active, turn] = self._choose(possible[active], *play, rng)
            code = self._codes[chosen, answers[active]]
            for place in np.flatnonzero(answers[active] < 0):  # the table has no marks of other secrets
                guess = self.words.guesses[chosen[place]]
                code[place] = encode_marks(score_guess(chunk[active[place]], guess))
            guesses[active, turn], codes[active, turn] = chosen, code
            taught[active, turn] = True
            possible[active] &= self._codes[chosen] == code[:, None]
            active = active[chosen != secrets[active]]
        return TeacherGames(tuple(chunk), guesses, codes, taught, remaining, classes)

    def _openers(self, count: int, settings: TeacherSettings, opener: int, rng: np.random.Generator) -> Ints:
        random = rng.choice(self._answer_as_guess, count)
        return np.where(rng.random(count) < settings.random_opener_rate, random, opener).astype(np.int32)

    def _choose(
        self, possible: Flags, settings: TeacherSettings, opener: int, max_turns: int, rng: np.random.Generator
    ) -> tuple[Ints, Ints]:
        # `possible` has shape (boards, answers)
        noisy = rng.random(len(possible)) < settings.noise_rate
        keys = np.packbits(possible, axis=1)
        chosen, classes = np.empty(len(possible), np.int32), np.zeros(len(possible), np.int32)
        for row in range(len(possible)):
            if noisy[row]:
                chosen[row] = self._answer_as_guess[rng.choice(np.flatnonzero(possible[row]))]
            else:
                best = self._best_play(keys[row].tobytes(), possible[row], settings, opener, max_turns)
                chosen[row], classes[row] = best
        return chosen, classes

    def _best_play(
        self, key: bytes, possible: Flags, settings: TeacherSettings, opener: int, max_turns: int
    ) -> tuple[int, int]:
        # The index of the guess and its number of classes. `key` is `possible`, (answers,), packed into bits.
        if settings.plan == "tree" and (planned := self._planned(opener, max_turns).get(key)):
            return planned
        gain = _PROBE_GAIN if settings.plan == "probes" else 0
        if (key, gain) not in self._best:
            if len(self._best) >= _MAX_MEMO:
                self._best.clear()
            candidates = np.flatnonzero(possible)
            found = self._best_candidate(candidates)
            if gain and found[1] + gain <= len(candidates) <= _MAX_RIVALS:
                # Probe; for many candidates, with only some of the listed words.
                step = -(-len(candidates) // _MAX_PROBED)
                classes = count_split(np.ascontiguousarray(self._solver.matrix.T[candidates, ::step])).num_classes
                probe = int(np.argmax(classes))
                if classes[probe] >= found[1] + gain:
                    found = probe * step, int(classes[probe])
            self._best[key, gain] = found
        return self._best[key, gain]

    def _best_candidate(self, candidates: npt.NDArray[np.intp]) -> tuple[int, int]:
        if len(candidates) <= 2:
            return int(self._answer_as_guess[candidates[0]]), len(candidates)
        rivals = candidates[:: -(-len(candidates) // _MAX_RIVALS)]  # of many, try a sample spread over the alphabet
        block = self._codes[np.ix_(self._answer_as_guess[rivals], candidates)]  # (rivals, candidates)
        occurs = np.zeros((len(rivals), 3**self.words.word_length), np.bool_)
        occurs[np.arange(len(rivals))[:, None], block] = True
        classes = occurs.sum(axis=1)
        best = int(np.argmax(classes))
        return int(self._answer_as_guess[rivals[best]]), int(classes[best])

    def _planned(self, opener: int, max_turns: int) -> dict[bytes, tuple[int, int]]:
        # The decisions of the opener's exact tree, by the set of answers that are possible there, as bits.
        if (opener, max_turns) not in self._trees:
            boards: dict[tuple[str, ...], tuple[str, list[int]]] = {}
            for secret, path in self._solver.tree(self.words.guesses[opener], max_turns=max_turns).paths.items():
                marks: tuple[str, ...] = ()
                for guess in path:
                    boards.setdefault(marks, (guess, []))[1].append(self.words.answer_index[secret])
                    marks = (*marks, score_guess(secret, guess))
            planned = {}
            for guess, possible in boards.values():
                fitting = np.zeros(len(self.words.answers), np.bool_)
                fitting[possible] = True
                index = self.words.guess_index[guess]
                classes = len(np.unique(self._codes[index, possible]))
                planned[np.packbits(fitting).tobytes()] = (index, classes)
            self._trees[opener, max_turns] = planned
        return self._trees[opener, max_turns]


def _plan(settings: TeacherSettings, last: bool) -> TeacherSettings:
    # On the last turn a word that cannot be the secret would lose for sure.
    return settings.model_copy(update={"plan": "classes"}) if last else settings


def listed_guess(words: WordList, what: str, word: str) -> int:
    """Return the index of a word among the guesses; `what` names it in errors."""
    index = words.guess_index.get(word)
    if index is None and word in words.reserved:
        raise WordListError(f"{what} {word!r} is a strict word, which training never names; give another")
    if index is None:
        raise WordListError(f"{what} {word!r} is not in word list {words.name!r}; give a listed word")
    return index


_TRIES = 20
_SECOND_LETTER_RATE = 0.2


def misspelt(word: str, board: Sequence[Turn], words: WordList, rng: random.Random) -> str | None:
    """Return an unlisted word, one or two letters off, that fits the board and is not on it; None if none was found.

    New letters come from the same place in listed words, so they have the same frequencies.
    """
    played = {turn.guess for turn in board}
    for _ in range(_TRIES):
        letters = list(word)
        for place in rng.sample(range(len(word)), 1 + (rng.random() < _SECOND_LETTER_RATE)):
            letters[place] = rng.choice(words.guesses)[place]
        slip = "".join(letters)
        listed = slip in words.guess_index or slip in words.reserved
        if not listed and slip not in played and not violates_clues(slip, board):
            return slip
    return None
