"""Many games of a session in one message: the route `/batch`.

Messages are JSON objects as on `/ws`, with lists instead of single values:

    {"type": "reset", "data": {"games": [{"seed": 1}, {"split": "train", "index": 5, "style": "compact"}]}}
    {"type": "step", "data": {"games": [0, 1], "messages": ["<guess>crane</guess>", "<guess>slate</guess>"]}}
    {"type": "close"}

`games` of a reset has the options of each game, as on `/ws`, and replaces all games of the session. `games` of a step
has the numbers of running games, each at most once. Both are answered by `{"type": "observations", "data":
{"observations": […], "rewards": […], "dones": […]}}` in the same order. A step with an invalid number is refused as a
whole, and no game takes a turn.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wordle_rl.serve.environment import facts_of
from wordle_rl.serve.metrics import Metrics
from wordle_rl.serve.openenv_client import ResetOptions
from wordle_rl.serve.protocol import Reason, Refusal, data_of, encode, read_message, refusal_of
from wordle_rl.serve.tasks import NewGame, ServedGames

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)


class BatchReset(BaseModel):
    """Options of the games to begin."""

    model_config = _STRICT

    games: list[ResetOptions] = Field(min_length=1)


class BatchStep(BaseModel):
    """Replies to running games, by number."""

    model_config = _STRICT

    games: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)
    messages: list[str] = Field(min_length=1)


class BatchProtocol:
    """Protocol of a session with many games."""

    def __init__(self, games: ServedGames, metrics: Metrics) -> None:
        self._games, self._metrics = games, metrics
        self._shows_secret = games.settings.reveal_secret
        self._playing: list[NewGame] = []

    async def answer(self, text: str) -> str | None:
        """Answer a message; None if the client closes the session.

        Raises:
            Refusal: If the answer is an error.
        """
        message = read_message(text)
        match message.get("type"):
            case "step":
                return await self._step(data_of(message))
            case "reset":
                return self._reset(data_of(message))
            case "close":
                return None
        raise Refusal(Reason.UNKNOWN_TYPE, "unknown type of message; send reset, step or close")

    def close(self) -> None:
        """Drop the games."""
        self._playing = []

    def _reset(self, data: dict[str, Any]) -> str:
        try:
            asked = BatchReset.model_validate(data).games
        except ValidationError as error:
            raise refusal_of(error, "this reset cannot be done") from None
        most = self._games.settings.max_batch_games
        if len(asked) > most:
            raise Refusal(Reason.BAD_OPTION, f"{len(asked)} games are too many; a session has at most {most}")
        self._playing = [self._games.new_game(options) for options in asked]
        self._metrics.game_begins(len(asked))
        return self._observed(self._playing, [None] * len(asked))

    async def _step(self, data: dict[str, Any]) -> str:
        try:
            step = BatchStep.model_validate(data)
        except ValidationError as error:
            raise refusal_of(error, "this step cannot be done") from None
        played = self._running(step)
        for game, message in zip(played, step.messages, strict=True):
            game.env.step(message)
        if any(game.asks_solver for game in played):
            loop = asyncio.get_running_loop()
            rewards = await loop.run_in_executor(self._games.solver_thread, _rewards_of, played)
        else:
            rewards = _rewards_of(played)
        for game in played:
            turn, stopped = game.env.turns[-1], game.env.stop_reason
            self._metrics.turn(turn.outcome.value, stopped.value if stopped else None)
        return self._observed(played, rewards)

    def _running(self, step: BatchStep) -> list[NewGame]:
        """The games of a step, each of which can take a turn."""
        if len(step.games) != len(step.messages):
            raise Refusal(
                Reason.BAD_MESSAGE, f"{len(step.games)} games and {len(step.messages)} messages; give one for each"
            )
        if len(set(step.games)) < len(step.games):
            raise Refusal(Reason.BAD_MESSAGE, "games names one twice; a game takes one turn a step")
        if not self._playing:
            raise Refusal(Reason.NO_GAME, "no game has begun; send reset first")
        if max(step.games) >= len(self._playing):
            raise Refusal(Reason.BAD_MESSAGE, f"there are games 0 to {len(self._playing) - 1}, not {max(step.games)}")
        played = [self._playing[number] for number in step.games]
        over = [number for number, game in zip(step.games, played, strict=True) if game.env.stop_reason is not None]
        if over:
            raise Refusal(Reason.GAME_OVER, f"game {over[0]} is over; leave it out", games=over[:100])
        return played

    def _observed(self, games: list[NewGame], rewards: list[float] | list[None]) -> str:
        seen = [
            facts_of(game.env, is_new=reward is None, shows_secret=self._shows_secret)
            for game, reward in zip(games, rewards, strict=True)
        ]
        dones = [game.env.stop_reason is not None for game in games]
        return encode({"type": "observations", "data": {"observations": seen, "rewards": rewards, "dones": dones}})


def _rewards_of(games: list[NewGame]) -> list[float]:
    return [game.rewards.next() for game in games]
