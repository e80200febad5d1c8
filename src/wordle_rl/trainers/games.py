"""Games for other trainers' environments: by split and index, rewarded turn by turn.

A row of a trainer's data set names a game by its place in the split (`BoardTask`), never by its secret. So all games of
a row's group share the secret and the prefix guesses, on whatever machine they are played.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from pydantic import Field, model_validator

from wordle_rl.config import ConfigError, FixedRewardSettings, GameSettings, Section, WordSettings
from wordle_rl.config.context import GameContext
from wordle_rl.env import StopReason, Transcript, WordleEnv
from wordle_rl.prompt import Message, Shape
from wordle_rl.reward import RewardBreakdown, TurnRewards
from wordle_rl.train.starts import random_given
from wordle_rl.words.split import SplitName


class LoopSettings(FixedRewardSettings):
    """Words, rules, wording and reward of games that another trainer plays."""

    words: WordSettings = WordSettings()
    """Word list and split."""
    game: GameSettings = GameSettings()
    """Rules and wording. The shape must be a transcript, since trainers keep one growing conversation."""

    @model_validator(mode="after")
    def _can_be_played_elsewhere(self) -> Self:
        if self.game.shape is not Shape.TRANSCRIPT:
            raise ValueError('game.shape: other trainers keep one growing conversation; set it to "transcript"')
        return self


class BoardTask(Section):
    """A game by its place in the split: what a data set row holds and a group shares."""

    split: SplitName = "train"
    """Part of the split."""
    index: int = Field(ge=0)
    """Position of the secret in its part."""
    given: tuple[str, ...] = ()
    """Prefix guesses."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """Result of one reply.

    Attributes:
        messages: The feedback; empty once the game is over.
        reward: Reward of the turn. The rewards of a game add up to the rubric's.
        terminated: True if the rules ended the game.
        truncated: True if something else ended the game.
    """

    messages: tuple[Message, ...]
    reward: float
    terminated: bool
    truncated: bool

    @property
    def done(self) -> bool:
        """True if the game is over."""
        return self.terminated or self.truncated


class LiveGame:
    """One game in play, with its rewards.

    Args:
        env: The game.
        rewards: Scores its turns.
        judging: Lock held while scoring, since games share a solver.
    """

    def __init__(self, env: WordleEnv, rewards: TurnRewards, judging: threading.Lock) -> None:
        self.env = env
        self._rewards, self._judging = rewards, judging
        self.prompt: tuple[Message, ...] = env.conversation

    def step(self, reply: str, *, num_tokens: int | None = None, overlong: bool = False) -> TurnResult:
        """Play one reply.

        Raises:
            RuntimeError: If the game is over.
        """
        observation = self.env.step(reply, num_tokens=num_tokens, overlong=overlong)
        with self._judging:
            reward = self._rewards.next()
        return TurnResult(observation.messages, reward, observation.terminated, observation.truncated)

    def truncate(self) -> float:
        """End a running game that is out of tokens, as a loss. Return the reward this adds or takes back."""
        self.env.truncate(StopReason.TOKEN_BUDGET)
        with self._judging:
            return self._rewards.rest() if self._has_begun else 0.0

    @property
    def over(self) -> bool:
        """True if the game has ended."""
        return self.env.stop_reason is not None

    @property
    def breakdown(self) -> RewardBreakdown | None:
        """Reward so far by component, or None before the first reply."""
        if not self._has_begun:
            return None
        with self._judging:
            return self._rewards.breakdown()

    @property
    def _has_begun(self) -> bool:
        return not all(turn.is_prefix for turn in self.env.played)

    def transcript(self) -> Transcript:
        """Return the record of the finished game.

        Raises:
            RuntimeError: If the game is still running, since the record holds the secret.
        """
        return self.env.transcript()

    def summary(self) -> dict[str, float]:
        """Return figures of the finished game for a trainer's logs: won, turns, and each component's value."""
        transcript = self.transcript()
        breakdown = self.breakdown
        values = breakdown.values if breakdown else {}
        return {"won": float(transcript.won), "turns": float(transcript.turns_used), **values}


class GameSource:
    """What all games of some settings share. Solvers compute nothing until a reward needs them.

    Args:
        settings: Words, rules, wording and reward.

    Raises:
        WordListError: If there is no such word list, or it is too small to split.
    """

    def __init__(self, settings: LoopSettings) -> None:
        self.settings = settings
        self.context = GameContext.from_settings(settings.words, settings.game)
        self.rubric = settings.rubric()
        # Trainers play in threads, and a solver caches results without a lock of its own.
        self._judging = threading.Lock()

    def tasks(
        self, split: SplitName = "train", count: int | None = None, *, max_given: int = 0, seed: int = 0
    ) -> list[BoardTask]:
        """Return the first tasks of a split. The order of a split is random already.

        Args:
            split: Part of the split.
            count: Number of tasks. None: all.
            max_given: Draw 0 to this many random prefix guesses per task.
            seed: Random seed of the prefix guesses.

        Raises:
            ConfigError: If prefix guesses would leave no turn to play.
        """
        rules, words = self.context.prompter.rules, self.context.for_part(split).words
        if max_given >= rules.max_turns:
            raise ConfigError(f"max_given {max_given} leaves none of {rules.max_turns} turns to play; lower it")
        tasks = []
        for index, secret in enumerate(self.context.split.named(split)[:count]):
            rng = random.Random(f"{seed}:{split}:{index}")
            given = random_given(words, secret, rng, max_given, hard_mode=rules.hard_mode) if max_given else ()
            tasks.append(BoardTask(split=split, index=index, given=given))
        return tasks

    def open(self, task: BoardTask) -> LiveGame:
        """Open a task's game.

        Raises:
            ConfigError: If the split has no such index.
            ValueError: If a prefix guess is not allowed.
        """
        context = self.context.for_part(task.split)
        secrets = context.split.named(task.split)
        if task.index >= len(secrets):
            raise ConfigError(f"split {task.split!r} has tasks 0 to {len(secrets) - 1}, not {task.index}")
        secret = secrets[task.index]
        env = WordleEnv(secret, context.words, context.prompter, task.given)
        return LiveGame(env, TurnRewards(self.rubric, context.solver, secret, env), self._judging)


def game_source(settings: LoopSettings | Mapping[str, Any] | None = None) -> GameSource:
    """Return the source of some settings, cached by their values.

    Args:
        settings: Settings, or a trainer's configuration of them. None: the defaults.

    Raises:
        ValidationError: If a setting is unknown or invalid.
    """
    if not isinstance(settings, LoopSettings):
        settings = LoopSettings.model_validate(_plain(settings or {}))
    return _source(settings.model_dump_json())


def task_of(row: Mapping[str, Any]) -> BoardTask:
    """Return the task of a data set row, ignoring other columns.

    Raises:
        ConfigError: If it names no game.
    """
    if "index" not in row:
        raise ConfigError("the row names no game; make rows with GameSource.tasks(), or add the column index")
    named = {name: row[name] for name in BoardTask.model_fields if row.get(name) is not None}
    return BoardTask.model_validate({**named, "given": tuple(map(str, named.get("given", ())))})


def text_of(messages: Sequence[Message]) -> str:
    """Join messages into one text, for interfaces without chat."""
    return "\n\n".join(message["content"] for message in messages)


def _plain(value: Any) -> Any:
    # Trainers pass their own mapping types; make plain dictionaries.
    return {str(key): _plain(part) for key, part in value.items()} if isinstance(value, Mapping) else value


@lru_cache(maxsize=8)
def _source(settings: str) -> GameSource:
    return GameSource(LoopSettings.model_validate_json(settings))
