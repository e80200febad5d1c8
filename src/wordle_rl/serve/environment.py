"""The games of a session as an OpenEnv environment."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata
from openenv.core.rubrics import Rubric as OpenEnvRubric

import wordle_rl
from wordle_rl.env import WordleEnv
from wordle_rl.reward import Rubric, TurnRewards
from wordle_rl.serve.openenv_client import (
    ActionT,
    ObservationT,
    ResetOptions,
    StateT,
    WordleAction,
    WordleObservation,
    WordleState,
)
from wordle_rl.serve.protocol import Reason, Refusal, checked
from wordle_rl.serve.tasks import NewGame, ServedGames, WordTasks

NAME = "wordle_rl"
"""Name of the environment in OpenEnv's routes."""


class Leaf(OpenEnvRubric):
    """A leaf of a rubric tree: a value, scaled from its range to 0 to 1."""

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        self._low, self._high = low, high
        self.value = 0.0

    def forward(self, action: Any, observation: Any) -> float:
        """Return the scaled value."""
        return min(1.0, max(0.0, (self.value - self._low) / (self._high - self._low)))


class GameRubric(OpenEnvRubric):
    """The tree: a leaf for each component, with its value so far; its own score is the reward of the last turn."""

    def __init__(self, rubric: Rubric, rewards: TurnRewards) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        self.weights = rubric.effective_weights
        self._rewards = rewards
        self._leaves = {}
        for name, component in rubric.components.items():
            lows, highs = zip(component.loss_range, component.win_range, strict=True)
            # OpenEnv's trees take scores of 0 to 1, so a leaf maps the whole range of its component to that.
            self._leaves[name] = Leaf(min(lows), max(highs))
            setattr(self, name, self._leaves[name])

    def forward(self, action: Any, observation: Any) -> float:
        """Score every leaf and return the reward of the turn."""
        for name, value in self._rewards.breakdown().values.items():
            self._leaves[name].value = value
            self._leaves[name](action, observation)
        return float(observation.reward)


class GameSession(Environment[ActionT, ObservationT, StateT]):
    """A session of one game after the other, whatever its messages look like."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_SINGLE_THREAD_EXECUTOR = True
    about = EnvironmentMetadata(name="", description="")
    wording: Mapping[str, Any] = MappingProxyType({})
    """Settings of the game that this protocol fixes."""

    def __init__(self, games: ServedGames) -> None:
        super().__init__()
        self._games = games
        self._game: NewGame | None = None
        self._episode: dict[str, Any] = {}  # what openenv's `State` tells of it

    def _begin(self, /, **asked: Any) -> NewGame:
        options = checked(ResetOptions, asked)
        # A refused reset raises here, and leaves the game under way to be played on.
        self._game = self._games.new_game(options, self.wording)
        self._episode = {"episode_id": options.episode_id or str(uuid.uuid4()), "step_count": 0}
        return self._game

    def _running(self) -> NewGame:
        """Return the game, in which a turn can be played."""
        if self._game is None:
            raise Refusal(Reason.NO_GAME, "no game has begun; send reset first")
        if self._game.env.stop_reason is not None:
            raise Refusal(Reason.GAME_OVER, "the game is over; send reset for another")
        return self._game

    def _read(self, reply: str) -> tuple[str, bool]:
        """Return what is read and kept of a reply, and whether more was said."""
        most = self._games.settings.max_reply_characters
        # Cut instead of refused, and treated as a reply that was cut at its token limit.
        return reply[:most], len(reply) > most

    def _shows_secret(self, env: WordleEnv) -> bool:
        return env.stop_reason is not None and self._games.settings.reveal_secret

    def get_metadata(self) -> EnvironmentMetadata:
        """Name, description and version."""
        return self.about


class WordleEnvironment(GameSession[WordleAction, WordleObservation, WordleState]):
    """Games of Wordle in our own messages."""

    about = EnvironmentMetadata(
        name=NAME,
        description="Wordle for language models: one reply per turn, rewards per turn, secrets in splits",
        version=wordle_rl.__version__,
    )
    _tree: OpenEnvRubric | None = None
    _own_tree: OpenEnvRubric | None = None

    def reset(self, /, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> WordleObservation:
        """Begin a game; see `ResetOptions`."""
        game, self._tree = self._begin(seed=seed, episode_id=episode_id, **kwargs), self._own_tree
        if self._own_tree is not None:
            self._own_tree.reset()
        return self._observation(game, None)

    def step(self, action: WordleAction, timeout_s: float | None = None, **kwargs: Any) -> WordleObservation:
        """Take one reply of the policy."""
        game = self._played(action)
        return self._judged(game, action, game.rewards.next())

    async def step_async(
        self, action: WordleAction, timeout_s: float | None = None, **kwargs: Any
    ) -> WordleObservation:
        """Take one reply of the policy; a reward that needs the solver is computed in the solver's thread."""
        game = self._played(action)
        # Others are arithmetic, and a change of threads would take longer than they do.
        if game.rubric.asks_solver:
            return self._judged(game, action, await self._games.in_solver_thread(game.rewards.next))
        return self._judged(game, action, game.rewards.next())

    def _played(self, action: WordleAction) -> NewGame:
        game = self._running()
        reply, overlong = self._read(action.message)
        game.env.step(reply, overlong=overlong)
        self._episode["step_count"] += 1
        return game

    def _judged(self, game: NewGame, action: WordleAction, reward: float) -> WordleObservation:
        observation = self._observation(game, reward)
        if self._tree is not None:
            self._tree(action, observation)
        return observation

    def _observation(self, game: NewGame, reward: float | None) -> WordleObservation:
        # Without a reward the game is new: no turn on the board is the policy's.
        env, turn = game.env, None if reward is None else game.env.turns[-1]
        return WordleObservation(
            messages=list(env.observation.messages),
            turns_left=env.observation.turns_left,
            outcome=turn and turn.outcome.value,
            guess=turn and turn.guess,
            marks=turn and turn.marks,
            stop_reason=env.stop_reason and env.stop_reason.value,
            secret=env.transcript().secret if self._shows_secret(env) else None,
            reward=reward,
            done=env.stop_reason is not None,
        )

    @property
    def rubric(self) -> OpenEnvRubric | None:
        """The rubric tree of the game, or None without a game.

        It is scored after every turn from the first access on, so a session over the network does not pay for it.
        """
        if self._tree is None and self._game is not None:
            self._tree = GameRubric(self._game.rubric, self._game.rewards)
        return self._tree

    @rubric.setter
    def rubric(self, value: OpenEnvRubric | None) -> None:
        """Score another tree after every turn of this game and of later ones; rewards stay the same."""
        self._tree = self._own_tree = value

    @property
    def state(self) -> WordleState:
        """The game as its player knows it."""
        if self._game is None:
            return WordleState()
        env = self._game.env
        return WordleState(
            **self._episode,
            max_turns=env.prompter.rules.max_turns,
            turns_left=env.observation.turns_left,
            stop_reason=env.stop_reason and env.stop_reason.value,
            board=[{"guess": turn.guess, "marks": turn.marks, "outcome": turn.outcome.value} for turn in env.turns],
            task_id=self._game.task_id if self._shows_secret(env) else None,
            words=self._game.words,
            hard_mode=env.prompter.rules.hard_mode,
            style=str(env.prompter.style),
            thinking=env.prompter.thinking.value,
            reward=self._game.reward,
        )

    # --- the tasks: OpenEnv's TaskProvider --------------------------------------------------------------------

    def list_splits(self) -> list[dict[str, Any]]:
        """Parts of the answers."""
        return self._tasks.list_splits()

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks of a part, held out or not."""
        return self._tasks.num_tasks(split)

    async def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """All tasks of a part."""
        return await self.get_task_range(split)

    async def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One task."""
        return await self._games.in_solver_thread(self._tasks.described, self._tasks.pick(split, index, 0))

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Tasks `start` to `stop`, as a slice takes them."""
        return await self._games.in_solver_thread(self._tasks.tasks, split, start, stop)

    @property
    def _tasks(self) -> WordTasks:
        return self._games.offered()
