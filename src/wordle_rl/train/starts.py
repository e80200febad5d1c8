"""The start boards of a training: its setup, and the initial states that each step draws.

Which secrets, and boards of random answers: `boards.py`. Other prefix guesses come from a player: answers consistent
with the marks so far, or the solver teacher. Their number is uniform from 0 to `max_prefix_guesses`. If a player would
win before, it plays again, so that long prefixes are as frequent as short ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from wordle_rl.boards import InitialState, SecretPicker, draw_numbers, random_board, start_of, with_outside
from wordle_rl.config.context import GameContext
from wordle_rl.config.stages import StartSettings
from wordle_rl.config.teachers import TeacherSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.env import Transcript
from wordle_rl.game import score_guess
from wordle_rl.prompt import Prompter
from wordle_rl.runs import Run
from wordle_rl.runs.distributed import num_processes
from wordle_rl.solver import Solver
from wordle_rl.teachers.made_up_secrets import invented_words
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList


@dataclass(frozen=True)
class GameSetup:
    """Context and secrets of the games of a training.

    Attributes:
        secrets: The secrets to train on.
        validation: Secrets that checkpoint selection plays, with some of `secrets` and `rehearsal`.
        rehearsal: Training secrets of SFT that this training does not use.
        given_starts: Initial states from a file.
        starts_fraction: Fraction of groups that start from one of them.
        sampling: How policies sample; each stage has its own temperature.
    """

    context: GameContext
    secrets: Sequence[str]
    validation: Sequence[str] = ()
    rehearsal: Sequence[str] = ()
    given_starts: Sequence[InitialState] = ()
    starts_fraction: float = 0.0
    sampling: SamplingSettings = field(default_factory=SamplingSettings)

    def sampling_at(self, temperature: float) -> SamplingSettings:
        """Return how a policy samples at a temperature; 0 is greedy."""
        return self.sampling.model_copy(update={"temperature": temperature})

    @property
    def words(self) -> WordList:
        """The word list."""
        return self.context.words

    @property
    def prompter(self) -> Prompter:
        """Wording and rules."""
        return self.context.prompter

    @property
    def solver(self) -> Solver:
        """The solver of the word list."""
        return self.context.solver


class GroupStarts:
    """Draws the initial states of each step.

    Seed and step determine a draw, given the same priorities. `prioritized_fraction` is that of `SecretPicker`; with 0
    secrets take turns (`SecretPicker.next_ones`), with None each step draws anew. `outside_rate` of the secrets are
    listed words outside the answers, `invented_rate` are invented words (teachers/made_up_secrets.py).
    """

    def __init__(
        self,
        setup: GameSetup,
        settings: StartSettings,
        seed: int,
        *,
        prioritized_fraction: float | None = None,
        outside_rate: float = 0.0,
        invented_rate: float = 0.0,
    ) -> None:
        self._setup, self._seed, self._outside_rate, self._invented_rate = setup, seed, outside_rate, invented_rate
        self._take_turns = prioritized_fraction == 0
        hard_mode = setup.prompter.rules.hard_mode
        self._prefixes = PrefixGuesses(setup.words, setup.solver, settings, hard_mode=hard_mode)
        self._given_boards = frozenset(start for start in setup.given_starts if start.prefix_guesses)
        self.picker = SecretPicker(setup.secrets, prioritized_fraction or 0.0, seed)

    def draw(
        self, num_groups: int, step: int, process: int = 0, refill: int = 0, rng: random.Random | None = None
    ) -> list[InitialState]:
        """Draw one start per group.

        Args:
            step: Optimizer step, or round.
            process: Rank of this process; each draws groups of its own.
            refill: 0 for the first draw of a step, then 1, 2, … for redraws.
            rng: Draws outside words and prefix guesses. None: a stream that depends on the seed and the draw.
        """
        if rng is None:
            rng = random.Random(":".join(map(str, (self._seed, *draw_numbers(step, process, refill)))))
        if self._take_turns and not refill:
            secrets = self.picker.next_ones(num_groups, step, process, num_processes())
        else:
            secrets = self.picker.pick(num_groups, step, process, refill)
        starts = [
            InitialState(secret, self._prefixes(secret, rng), invented=invented)
            for secret, invented in self._made_up(secrets, rng)
        ]
        if not self._setup.given_starts:
            return starts
        # A random stream of its own: with or without a file, the other draws are the same.
        rng = random.Random(":".join(map(str, (self._seed, *draw_numbers(step, process, refill), "given"))))
        given = self._setup.given_starts
        places = [place for place in range(len(starts)) if rng.random() < self._setup.starts_fraction]
        draw = rng.choices if len(places) > len(given) else rng.sample
        replaced = dict(zip(places, draw(given, k=len(places)), strict=True))
        return [replaced.get(place, start) for place, start in enumerate(starts)]

    def _made_up(self, secrets: Sequence[str], rng: random.Random) -> list[tuple[str, bool]]:
        # Put invented words and words outside the answers in the place of some secrets; tell which are invented.
        words, rate = self._setup.words, self._invented_rate
        invented = invented_words(words, rng)
        drawn = [next(invented) if rate and rng.random() < rate else None for _ in secrets]
        others = with_outside(secrets, words, self._outside_rate / (1 - rate) if rate < 1 else 0.0, rng)
        return [(word or other, word is not None) for word, other in zip(drawn, others, strict=True)]

    def note(self, transcript: Transcript, reward_std: float) -> None:
        """Record the standard deviation of a group's rewards; `transcript` is any game of the group."""
        # A group that began on a board from a file says nothing about its secret from the empty board.
        if transcript.secret in self.picker and start_of(transcript) not in self._given_boards:
            self.picker.update(transcript.secret, reward_std)


def record_secrets(run: Run, stage: str, step: int, process: int, secrets: Sequence[str]) -> None:
    """Append the secrets that are played to secrets.jsonl, for the audit."""
    run.append("secrets.jsonl", {"stage": stage, "step": step, "process": process, "secrets": list(secrets)})


_TRIES = 24
"""Games that a player may try to reach the wanted number of guesses; after that the longest is taken."""
_TEACHER_GAMES = 16
"""Games that the teacher plays together as one try."""
_NOISE = (0.25, 0.25, 0.5, 0.75)
"""Noise rate of the teacher in its first tries; 1 in later ones, so that long games exist for every secret."""


class PrefixGuesses:
    """Draws the prefix guesses of a group. In hard mode each guess follows the hints of those before it."""

    def __init__(self, words: WordList, solver: Solver, settings: StartSettings, *, hard_mode: bool = False) -> None:
        self._words, self._solver, self._hard_mode = words, solver, hard_mode
        self._most, self._num_openers = settings.max_prefix_guesses, settings.num_openers
        self._kind = settings.player.partition(":")[0]

    def __call__(self, secret: str, rng: random.Random) -> tuple[str, ...]:
        """Draw prefix guesses, none of which is the secret."""
        if self._kind == "random" and not self._num_openers:
            return random_board(self._words, secret, rng, self._most, hard_mode=self._hard_mode)
        wanted = rng.randint(0, self._most)
        if not wanted:
            return ()
        players: dict[str, Callable[[str, str | None, int, random.Random, int], tuple[str, ...]]] = {
            "random": self._random,
            "consistent": self._consistent,
            "teacher": self._teacher,
        }
        openers = [opener for opener in self._openers if opener != secret]
        longest: tuple[str, ...] = ()
        for number in range(_TRIES):
            opener = rng.choice(openers) if openers else None
            found = players[self._kind](secret, opener, wanted, rng, number)
            longest = max(longest, found, key=len)
            if len(longest) == wanted:
                break
        return longest

    @cached_property
    def _openers(self) -> list[str]:
        return [scored.guess for scored in self._solver.best_openers(self._num_openers)] if self._num_openers else []

    def _random(self, secret: str, opener: str | None, wanted: int, rng: random.Random, _: int) -> tuple[str, ...]:
        first = (opener,) if opener is not None else ()
        more = random_board(self._words, secret, rng, wanted, hard_mode=self._hard_mode, before=first, exactly=True)
        return first + more

    def _consistent(self, secret: str, opener: str | None, wanted: int, rng: random.Random, _: int) -> tuple[str, ...]:
        answers, candidates = self._solver.words.answers, self._solver.candidates(())
        guesses: list[str] = []
        while len(guesses) < wanted:
            fitting = [answers[place] for place in candidates if answers[place] != secret]
            if not fitting:
                break
            guess = opener if opener is not None and not guesses else rng.choice(fitting)
            guesses.append(guess)
            candidates = self._solver.narrow(candidates, guess, score_guess(secret, guess))
        return tuple(guesses)

    def _teacher(
        self, secret: str, opener: str | None, wanted: int, rng: random.Random, number: int
    ) -> tuple[str, ...]:
        # Noise replaces the best guess by any candidate. The more of it, the longer games last.
        noise = _NOISE[number] if number < len(_NOISE) else 1.0
        settings = TeacherSettings(noise_rate=noise)
        if opener is not None:
            settings = settings.model_copy(update={"opener": opener, "random_opener_rate": 0.0})
        # The game goes on after these guesses, so none of them is played as a last one.
        games = self._solver_teacher.play([secret] * _TEACHER_GAMES, settings, rng.getrandbits(31), wanted + 1)
        words, begun = self._solver_teacher.words.guesses, games.guesses[:, :wanted].tolist()
        played = ((words[guess] for guess in row if guess >= 0) for row in begun)  # -1: game over
        return max((tuple(guess for guess in game if guess != secret) for game in played), key=len)

    @cached_property
    def _solver_teacher(self) -> SolverTeacher:
        return SolverTeacher(self._solver)
