"""The games of a session as an OpenEnv environment."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata
from openenv.core.rubrics import Rubric as OpenEnvRubric
from pydantic import ValidationError

import wordle_rl
from wordle_rl.env import WordleEnv
from wordle_rl.reward import Component, Rubric, TurnRewards
from wordle_rl.serve.metrics import Metrics
from wordle_rl.serve.openenv_client import ResetOptions, WordleAction, WordleObservation, WordleState
from wordle_rl.serve.protocol import Reason, Refusal, refusal_of
from wordle_rl.serve.tasks import NewGame, ServedGames, WordTasks


class ComponentRubric(OpenEnvRubric):
    """A leaf of the tree: the value of a component so far, scaled by its range to 0 to 1."""

    def __init__(self, component: Component) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        ranges = (component.loss_range, component.win_range)
        self._low, self._high = min(low for low, _ in ranges), max(high for _, high in ranges)
        self.value = 0.0

    def forward(self, action: Any, observation: Any) -> float:
        """Return the scaled value."""
        return min(1.0, max(0.0, (self.value - self._low) / (self._high - self._low)))


class GameRubric(OpenEnvRubric):
    """The tree: a leaf for each component; its own score is the reward of the last turn."""

    def __init__(self, rubric: Rubric, rewards: TurnRewards) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        self.weights = rubric.effective_weights
        self._rewards = rewards
        self._leaves = {name: ComponentRubric(component) for name, component in rubric.components.items()}
        for name, leaf in self._leaves.items():
            setattr(self, name, leaf)

    def forward(self, action: Any, observation: Any) -> float:
        """Score every leaf and return the reward of the turn."""
        for name, value in self._rewards.breakdown().values.items():
            leaf = self._leaves[name]
            leaf.value = value
            leaf(action, observation)
        return float(observation.reward)


NAME = "wordle_rl"
"""Name of the environment in OpenEnv's routes."""
ResultT = TypeVar("ResultT")


class WordleEnvironment(Environment[WordleAction, WordleObservation, WordleState]):
    """A session: games of Wordle, one after the other.

    Args:
        games: What the server offers.
        metrics: Counts turns and games.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_SINGLE_THREAD_EXECUTOR = True

    def __init__(self, games: ServedGames, metrics: Metrics) -> None:
        self._tree: OpenEnvRubric | None = None
        super().__init__()
        self._games, self._metrics = games, metrics
        self._game: NewGame | None = None
        self._episode_id: str | None = None
        self._step_count = 0
        self._is_closed = False

    def reset(self, /, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> WordleObservation:
        """Begin a game; see `ResetOptions`.

        Raises:
            Refusal: If an option is invalid, or the session is closed.
        """
        self._check_open()
        options = read_options({"seed": seed, "episode_id": episode_id, **kwargs})
        self._game = game = self._games.new_game(options)
        self._episode_id = options.episode_id or str(uuid.uuid4())
        self._step_count = 0
        self._tree = None
        self._metrics.game_begins()
        return self._observation(game.env, None)

    async def reset_async(
        self, /, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> WordleObservation:
        """Begin a game, in the event loop, since it takes microseconds."""
        return self.reset(seed=seed, episode_id=episode_id, **kwargs)

    def step(self, action: WordleAction, timeout_s: float | None = None, **kwargs: Any) -> WordleObservation:
        """Take one reply of the policy.

        Raises:
            Refusal: If there is no running game, or the session is closed.
        """
        game = self._running_game()
        game.env.step(action.message)
        self._step_count += 1
        return self._judged(game, action, game.rewards.next())

    async def step_async(
        self, action: WordleAction, timeout_s: float | None = None, **kwargs: Any
    ) -> WordleObservation:
        """Take one reply of the policy; a reward that needs the solver is computed in the solver's thread."""
        game = self._running_game()
        game.env.step(action.message)
        self._step_count += 1
        if game.asks_solver:
            reward = await self._in_solver_thread(game.rewards.next)
        else:
            reward = game.rewards.next()
        return self._judged(game, action, reward)

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
        """Score another tree after every turn; rewards stay the same."""
        self._tree = value

    @property
    def state(self) -> WordleState:
        """The game as its player knows it.

        Raises:
            Refusal: If the session is closed.
        """
        self._check_open()
        if self._game is None:
            return WordleState()
        env = self._game.env
        return WordleState(
            episode_id=self._episode_id,
            step_count=self._step_count,
            max_turns=env.prompter.rules.max_turns,
            turns_left=env.observation.turns_left,
            stop_reason=env.stop_reason and env.stop_reason.value,
            board=[{"guess": turn.guess, "marks": turn.marks, "outcome": turn.outcome.value} for turn in env.turns],
            task_id=self._game.task_id,
            words=self._game.words,
            hard_mode=env.prompter.rules.hard_mode,
            style=str(env.prompter.style),
            reward=self._game.reward,
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Name, description and version."""
        return EnvironmentMetadata(
            name=NAME,
            description="Wordle for language models: one reply per turn, rewards per turn, secrets in splits",
            version=wordle_rl.__version__,
        )

    def close(self) -> None:
        """End the session; later requests are refused."""
        self._is_closed = True
        self._game = None

    # --- the tasks: OpenEnv's TaskProvider --------------------------------------------------------------------

    def list_splits(self) -> list[dict[str, Any]]:
        """Parts of the answers."""
        return self._tasks.list_splits()

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks of a part, held out or not."""
        return self._tasks.num_tasks(split)

    async def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """All tasks of a part; see `WordTasks.list_tasks`."""
        return await self._in_solver_thread(self._tasks.list_tasks, split)

    async def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One task; see `WordTasks.get_task`."""
        return await self._in_solver_thread(self._tasks.get_task, split, index)

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Tasks `start` to `stop`; see `WordTasks.get_task_range`."""
        return await self._in_solver_thread(self._tasks.get_task_range, split, start, stop)

    @property
    def _tasks(self) -> WordTasks:
        return self._games.offered()

    async def _in_solver_thread(self, function: Callable[..., ResultT], *arguments: Any) -> ResultT:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._games.solver_thread, function, *arguments)

    # ----------------------------------------------------------------------------------------------------------

    def _running_game(self) -> NewGame:
        self._check_open()
        if self._game is None:
            raise Refusal(Reason.NO_GAME, "no game has begun; send reset first")
        if self._game.env.stop_reason is not None:
            raise Refusal(Reason.GAME_OVER, "the game is over; send reset for another")
        return self._game

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refusal(Reason.CLOSED, "the session is closed; open another")

    def _judged(self, game: NewGame, action: WordleAction, reward: float) -> WordleObservation:
        observation = self._observation(game.env, reward)
        if self._tree is not None:
            self._tree(action, observation)
        self._metrics.turn(observation.outcome or "", observation.stop_reason)
        return observation

    def _observation(self, env: WordleEnv, reward: float | None) -> WordleObservation:
        seen = facts_of(env, is_new=reward is None, shows_secret=self._games.settings.reveal_secret)
        return WordleObservation(**seen, reward=reward, done=env.stop_reason is not None)


def facts_of(env: WordleEnv, *, is_new: bool, shows_secret: bool) -> dict[str, Any]:
    """Return the fields of an observation without reward and done.

    Args:
        env: The game.
        is_new: Whether the policy has not played a turn yet.
        shows_secret: Whether to show the secret once the game is over.
    """
    turn = None if is_new else env.turns[-1]
    over = env.stop_reason is not None
    return {
        "messages": list(env.observation.messages),
        "turns_left": env.observation.turns_left,
        "outcome": turn.outcome.value if turn else None,
        "guess": turn.guess if turn else None,
        "marks": turn.marks if turn else None,
        "stop_reason": env.stop_reason.value if env.stop_reason else None,
        "secret": env.transcript().secret if over and shows_secret else None,
    }


def read_options(values: Mapping[str, Any]) -> ResetOptions:
    """Parse the options of a reset.

    Raises:
        Refusal: If a name is unknown or a value is invalid.
    """
    try:
        return ResetOptions.model_validate(values)
    except ValidationError as error:
        raise refusal_of(error, "invalid reset") from None
