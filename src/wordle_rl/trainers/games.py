"""Games for other trainers' environments: by split and index, rewarded turn by turn.

A row of a trainer's data set names a game by its place in the split (`BoardTask`), never by its secret. So all games of
a row's group share the secret and the prefix guesses, on whatever machine they are played.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

from pydantic import Field, model_validator

from wordle_rl.boards import random_board
from wordle_rl.chat.codec import ChatCodec, opening_length
from wordle_rl.config.base import ConfigError, Section
from wordle_rl.config.context import GameContext
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.config.training import FixedRewardSettings
from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.prompt import Message, Shape
from wordle_rl.reward import RewardBreakdown, TurnRewards
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


class TurnResult(NamedTuple):
    """Result of one reply. `messages` is the feedback, empty once the game is over."""

    messages: tuple[Message, ...]
    reward: float
    terminated: bool
    truncated: bool

    @property
    def done(self) -> bool:
        """True if the game is over."""
        return self.terminated or self.truncated


class LiveGame:
    """One game in play. The rewards of its turns add up to the rubric's; `scoring` is held while one is computed."""

    def __init__(self, env: WordleEnv, rewards: TurnRewards, scoring: threading.Lock) -> None:
        self.env = env
        self.prompt = env.conversation
        self._rewards, self._scoring = rewards, scoring

    def step(self, reply: str, *, num_tokens: int | None = None, overlong: bool = False) -> TurnResult:
        """Play one reply."""
        observation = self.env.step(reply, num_tokens=num_tokens, overlong=overlong)
        with self._scoring:
            reward = self._rewards.next()
        return TurnResult(observation.messages, reward, observation.terminated, observation.truncated)

    def truncate(self) -> float:
        """End a running game that is out of tokens, as a loss. Return the reward this adds or takes back."""
        self.env.truncate(StopReason.TOKEN_BUDGET)
        with self._scoring:
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
        with self._scoring:
            return self._rewards.breakdown()

    @property
    def _has_begun(self) -> bool:
        return not all(turn.is_prefix for turn in self.env.played)

    def summary(self) -> dict[str, float]:
        """Return figures of the finished game for a trainer's logs: won, turns, and each component's value."""
        transcript, breakdown = self.env.transcript(), self.breakdown
        values = breakdown.values if breakdown else {}
        return {"won": float(transcript.won), "turns": float(transcript.turns_used), **values}


class GameSource:
    """What all games of some settings share. Solvers compute nothing until a reward needs them."""

    def __init__(self, settings: LoopSettings) -> None:
        self.settings = settings
        self.context = GameContext.from_settings(settings.words, settings.game)
        self.rubric = settings.rubric()
        # Trainers play in threads, and a solver caches results without a lock of its own.
        self._scoring = threading.Lock()

    def tasks(
        self, split: SplitName = "train", count: int | None = None, *, max_given: int = 0, seed: int = 0
    ) -> list[BoardTask]:
        """Return the first `count` tasks of a split, or all, each with 0 to `max_given` random prefix guesses."""
        rules, words = self.context.prompter.rules, self.context.for_part(split).words
        if max_given >= rules.max_turns:
            raise ConfigError(f"max_given {max_given} leaves none of {rules.max_turns} turns to play; lower it")
        tasks = []
        # The order of a split is random already.
        for index, secret in enumerate(self.context.split.named(split)[:count]):
            rng = random.Random(f"{seed}:{split}:{index}")
            given = random_board(words, secret, rng, max_given, hard_mode=rules.hard_mode) if max_given else ()
            tasks.append(BoardTask(split=split, index=index, given=given))
        return tasks

    def rows(
        self, split: SplitName = "train", count: int | None = None, *, max_given: int = 0, seed: int = 0
    ) -> list[dict[str, Any]]:
        """Return data set rows of `tasks`: the game by its place, and its opening as `prompt`."""
        tasks = self.tasks(split, count, max_given=max_given, seed=seed)
        return [{"prompt": list(self.open(task).prompt), **task.model_dump(mode="json")} for task in tasks]

    def open(self, task: BoardTask) -> LiveGame:
        """Open a task's game."""
        context = self.context.for_part(task.split)
        secrets = context.split.named(task.split)
        if task.index >= len(secrets):
            raise ConfigError(f"split {task.split!r} has tasks 0 to {len(secrets) - 1}, not {task.index}")
        secret = secrets[task.index]
        env = WordleEnv(secret, context.words, context.prompter, task.given)
        return LiveGame(env, TurnRewards(self.rubric, context.solver, secret, env), self._scoring)


def game_source(settings: LoopSettings | Mapping[str, Any] | None = None) -> GameSource:
    """Return the source of some settings, or of a trainer's mapping of them, cached by their values."""
    if not isinstance(settings, LoopSettings):
        settings = LoopSettings.model_validate(_plain(settings or {}))
    return _source(settings.model_dump_json())


def _plain(value: Any) -> Any:
    # Trainers pass their own mapping types, which pydantic does not take for a section.
    return {str(key): _plain(part) for key, part in value.items()} if isinstance(value, Mapping) else value


@lru_cache(maxsize=8)
def _source(settings: str) -> GameSource:
    return GameSource(LoopSettings.model_validate_json(settings))


def task_of(row: Mapping[str, Any]) -> BoardTask:
    """Return the task of a data set row, ignoring other columns."""
    if "index" not in row:
        raise ConfigError("the row names no game; make rows with GameSource.tasks(), or add the column index")
    named = {name: row[name] for name in BoardTask.model_fields if row.get(name) is not None}
    return BoardTask.model_validate({**named, "given": tuple(map(str, named.get("given", ())))})


def text_of(messages: Sequence[Mapping[str, object]]) -> str:
    """Join messages into one text, for interfaces without chat."""
    return "\n\n".join(str(message["content"]) for message in messages)


# --- over token ids, for trainers that sample tokens themselves ---


class TokenStep(NamedTuple):
    """Result of one completion. `next_ids` is everything so far and the feedback; empty once the game is over."""

    reward: float
    done: bool
    next_ids: tuple[int, ...] = ()


class TokenEnv:
    """One game over token ids. Prompts grow by concatenation, so sampled tokens are never re-encoded.

    `initial_ids` is the first prompt, `stop_ids` ends a completion. A game whose next prompt would exceed
    `max_prompt_tokens` is truncated, as a loss.
    """

    def __init__(self, game: LiveGame, codec: ChatCodec, max_prompt_tokens: int | None = None) -> None:
        self.game = game
        self.stop_ids = tuple(sorted(codec.stop_ids))
        self._codec = codec
        self._max_prompt_tokens = max_prompt_tokens
        # Prefix guesses are concatenated turn by turn, as in play.
        opening = codec.prompt_ids(game.prompt[: opening_length(game.prompt)])
        self._ids = opening + codec.prompt_ids(game.prompt, game.env.prompter.kept_thinking)[len(opening) :]
        self.initial_ids = tuple(self._ids)

    def step(self, completion: Sequence[int]) -> TokenStep:
        """Play one completion exactly as sampled, with its closing token if there was one."""
        overlong = not completion or completion[-1] not in self._codec.stop_ids
        result = self.game.step(self._codec.text_of(completion), num_tokens=len(completion), overlong=overlong)
        if result.done:
            return TokenStep(result.reward, done=True)
        feedback = self._codec.bridge_ids(result.messages[0])
        self._ids += [*completion, *self._codec.closed(completion), *feedback]
        if self._max_prompt_tokens is not None and len(self._ids) > self._max_prompt_tokens:
            return TokenStep(result.reward + self.game.truncate(), done=True)
        return TokenStep(result.reward, done=False, next_ids=tuple(self._ids))
