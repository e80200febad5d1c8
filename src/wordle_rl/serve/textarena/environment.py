"""The TextArena protocol as an openenv environment: one session, one game at a time."""

from __future__ import annotations

import uuid
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

import wordle_rl
from wordle_rl.prompt.textarena_texts import ENV_ID
from wordle_rl.serve.environment import read_options
from wordle_rl.serve.errors import Reason, Refusal
from wordle_rl.serve.games import ServedGames
from wordle_rl.serve.metrics import Metrics
from wordle_rl.serve.textarena.game import Reading, TextArenaGame
from wordle_rl.serve.textarena.models import TextArenaAction, TextArenaMessage, TextArenaObservation, TextArenaState
from wordle_rl.serve.textarena.rubric import SignalsRubric

_GAME_ID = -1
_PLAYER_ID = 0


class TextArenaEnvironment(Environment[TextArenaAction, TextArenaObservation, TextArenaState]):
    """Wordle in TextArena's words; the winning turn earns 1, any other 0.

    A reset has the options of `WordleEnvironment`, except `style` and `reward`, which are fixed. The rubric holds the
    signals of the last turn: `greens`, `yellows`, `repetitions`, `correct`.

    Args:
        games: What the server offers, in style `textarena`.
        metrics: Counts turns and games.
        reading: How to read messages.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_SINGLE_THREAD_EXECUTOR = True

    def __init__(self, games: ServedGames, metrics: Metrics, reading: Reading = Reading.STRICT) -> None:
        self._signals = SignalsRubric()
        super().__init__(rubric=self._signals)
        self._games, self._metrics, self._reading = games, metrics, reading
        self._game: TextArenaGame | None = None
        self._episode_id: str | None = None
        self._step_count = 0
        self._last_reward = 0.0
        self._is_closed = False

    def reset(self, /, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> TextArenaObservation:
        """Begin a game.

        Raises:
            Refusal: If an option is not offered, or the session is closed.
        """
        self._check_open()
        if fixed := kwargs.keys() & {"style", "reward"}:
            raise Refusal(Reason.BAD_OPTION, f"{sorted(fixed)} is fixed here; leave it out, or play at /ws")
        options = read_options({"seed": seed, "episode_id": episode_id, **kwargs})
        self._game = TextArenaGame(self._games.new_game(options).env, self._reading)
        self._episode_id = options.episode_id or str(uuid.uuid4())
        self._step_count, self._last_reward = 0, 0.0
        self._signals.reset()
        self._metrics.game_begins()
        return self._observation(self._game, 0.0)

    async def reset_async(
        self, /, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> TextArenaObservation:
        """Begin a game, in the event loop, since it takes microseconds."""
        return self.reset(seed=seed, episode_id=episode_id, **kwargs)

    def step(self, action: TextArenaAction, timeout_s: float | None = None, **kwargs: Any) -> TextArenaObservation:
        """Play one message.

        Raises:
            Refusal: If there is no running game, or the session is closed.
        """
        self._check_open()
        game = self._game
        if game is None:
            raise Refusal(Reason.NO_GAME, "no game has begun; send reset first")
        if game.done:
            raise Refusal(Reason.GAME_OVER, "the game is over; send reset for another")
        before = game.turns
        turn = game.step(action.message)
        self._step_count += 1
        self._last_reward = float(game.won)
        observation = self._observation(game, self._last_reward)
        self._signals.judge(turn, before)
        self._signals(action, observation)
        self._metrics.turn(turn.outcome.value, game.stop_reason)
        return observation

    async def step_async(
        self, action: TextArenaAction, timeout_s: float | None = None, **kwargs: Any
    ) -> TextArenaObservation:
        """Play one message, in the event loop, since it takes microseconds."""
        return self.step(action)

    @property
    def state(self) -> TextArenaState:
        """Board and counts; the secret only once the game is over.

        Raises:
            Refusal: If the session is closed.
        """
        self._check_open()
        game = self._game
        if game is None:
            return TextArenaState(env_id=ENV_ID, num_players=1)
        shows_secret = game.done and self._games.settings.reveal_secret
        board: dict[str, Any] = {
            "guess_history": [[guess, list(marks)] for guess, marks in game.board.items()],
            "word_length": game.letters,
            "num_guesses": game.max_turns,
            **({"secret_word": game.secret} if shows_secret else {}),
        }
        return TextArenaState(
            episode_id=self._episode_id,
            step_count=self._step_count,
            env_id=ENV_ID,
            num_players=1,
            max_turns=game.max_turns,
            turn=game.turns_used,
            last_reward=self._last_reward,
            last_info={"reason": game.reason} if shows_secret else {},
            raw_state={"turn": game.turns_used, "done": game.done, "game_state": board},
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Name, description and version."""
        return EnvironmentMetadata(
            name=ENV_ID,
            description="Wordle in the words of TextArena",
            version=wordle_rl.__version__,
        )

    def close(self) -> None:
        """End the session; later requests are refused."""
        self._is_closed = True
        self._game = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refusal(Reason.CLOSED, "the session is closed; open another")

    def _observation(self, game: TextArenaGame, reward: float) -> TextArenaObservation:
        return TextArenaObservation(
            prompt=game.prompt,
            messages=[TextArenaMessage(sender_id=_GAME_ID, content=game.history, category="MESSAGE")],
            current_player_id=_PLAYER_ID,
            legal_players=[_PLAYER_ID],
            reward=reward,
            done=game.done,
            metadata={"env_id": ENV_ID, "turn": game.turns_used},
        )
