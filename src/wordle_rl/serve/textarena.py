"""The TextArena protocol, for openenv's `TextArenaEnv` and notebooks written for it.

From the wire inwards: types, one game in TextArena's texts, the signals of a turn, a session, a client. The rules are
those of `WordleEnv`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from openenv.core.rubrics import Rubric
from pydantic import BaseModel, Field

import wordle_rl
from wordle_rl.env import WordleEnv
from wordle_rl.game import Turn
from wordle_rl.prompt import textarena_texts as texts
from wordle_rl.prompt.textarena_texts import ENV_ID
from wordle_rl.serve.environment import read_options
from wordle_rl.serve.metrics import Metrics
from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.tasks import ServedGames


class TextArenaMessage(BaseModel):
    """A message of a history. The whole history of a game is one message of the game."""

    sender_id: int
    """Number of the sender; -1 is the game."""
    content: str
    category: str
    """`MESSAGE`."""


class TextArenaAction(Action):
    """A player's message."""

    message: str
    """The guess in brackets, `[crane]`."""


class TextArenaObservation(Observation):
    """The game as its player sees it. It never holds the secret while the game runs."""

    prompt: str
    """The opening before the first turn, `Wordle-v0` afterwards."""
    messages: list[TextArenaMessage] = Field(default_factory=list)
    """The history so far."""
    current_player_id: int = 0
    """Always 0: there is one player."""
    legal_players: list[int] = Field(default_factory=list)
    """Always the one player."""
    info: dict[str, Any] = Field(default_factory=dict)
    """Always empty; the rubric of the environment has the components of the reward."""


class TextArenaState(State):
    """State of the session."""

    episode_id: str | None = None
    """Name of the game."""
    step_count: int = 0
    """Messages since the reset."""
    env_id: str
    """`Wordle-v0`."""
    num_players: int
    """Always 1."""
    max_turns: int | None = None
    """Guesses a game has."""
    turn: int = 0
    """Guesses used."""
    last_reward: float = 0.0
    """Reward of the last step."""
    last_info: dict[str, Any] = Field(default_factory=dict)
    """Reason why the game ended, once it has."""
    raw_state: dict[str, Any] = Field(default_factory=dict)
    """Board of the game; the secret only once the game is over."""


_BRACKETED = re.compile(r"\[(\w+)\]")


class Reading(StrEnum):
    """How to read a message."""

    STRICT = "strict"
    """One word in brackets after optional thinking, and nothing else."""
    LENIENT = "lenient"
    """Like the original, for comparisons: the first bracketed word anywhere, even in thinking; a message without
    brackets is one word."""


class TextArenaGame:
    """A game, played once.

    Attributes:
        prompt: The opening before the first turn, the name of the game afterwards.
        history: All messages, including the opening and those of the player.
        letters: Letters of the secret.
        max_turns: Guesses of the game.

    Args:
        env: The game, in style `textarena`, before the first turn.
        reading: How to read messages.

    Raises:
        ValueError: If the game has another style, whose grammar would contradict the texts.
    """

    def __init__(self, env: WordleEnv, reading: Reading = Reading.STRICT) -> None:
        if not env.prompter.brackets:
            raise ValueError(f"the game has style {env.prompter.style}; give one with style textarena")
        self._env = env
        self._reading = Reading(reading)
        self.letters, self.max_turns = env.prompter.word_length, env.prompter.rules.max_turns
        self.history = texts.opening(self.letters, self.max_turns)
        for count, turn in enumerate(env.turns, start=1):
            left = self.max_turns - count
            self.history += texts.played(f"[{turn.guess}]", turn, left, repeated=False, letters=self.letters)
        self.prompt = self.history.strip()

    @property
    def done(self) -> bool:
        """True once the game is over."""
        return self._env.stop_reason is not None

    @property
    def won(self) -> bool:
        """True if the secret was found."""
        return self.done and self._env.transcript().won

    @property
    def stop_reason(self) -> str | None:
        """Why the game ended, in one word; None while it runs."""
        return self._env.stop_reason and self._env.stop_reason.value

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns so far."""
        return self._env.turns

    @property
    def board(self) -> dict[str, str]:
        """Marks of each scored guess, in order."""
        return {turn.guess: turn.marks for turn in self.turns if turn.guess is not None and turn.marks is not None}

    @property
    def turns_used(self) -> int:
        """Guesses used."""
        return self.max_turns - self._env.observation.turns_left

    @property
    def secret(self) -> str:
        """The secret.

        Raises:
            RuntimeError: If the game is still running.
        """
        return self._env.transcript().secret

    @property
    def reason(self) -> str:
        """Why the game ended, with the secret.

        Raises:
            RuntimeError: If it is still running.
        """
        marks = next((turn.marks for turn in reversed(self.turns) if turn.marks is not None), "")
        placed = (marks.count("G") + marks.count("Y") / 2) / self.letters
        return texts.won() if self.won else texts.lost(self.secret, round(100 * placed))

    def step(self, message: str) -> Turn:
        """Play one message.

        Raises:
            RuntimeError: If the game is over.
        """
        lenient = self._reading is Reading.LENIENT
        said = _bracketed(message) if lenient else message
        known = self.board
        self._env.step(_first_word(said) if lenient else said)
        turn = self.turns[-1]
        left = self._env.observation.turns_left
        self.history += texts.played(said, turn, left, repeated=turn.guess in known, letters=self.letters)
        self.prompt = texts.ENV_ID
        return turn


def _bracketed(message: str) -> str:
    """Return a message as the original's wrapper passes it on.

    Examples:
        >>> _bracketed("crane"), _bracketed("my guess: [crane]")
        ('[crane]', 'my guess: [crane]')
    """
    return message if "[" in message or "]" in message else f"[{message}]"


def _first_word(message: str) -> str:
    found = _BRACKETED.search(message)
    return f"[{found[1]}]" if found else ""


class SignalRubric(Rubric):
    """A leaf of the tree: one signal of the last turn, 0 to 1."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        self.value = 0.0

    def forward(self, action: Any, observation: Any) -> float:
        """Return the signal."""
        return self.value


class SignalsRubric(Rubric):
    """The tree; its own score is the reward of the turn: 1 for the winning turn, otherwise 0.

    `greens` and `yellows` are fractions of the marks of the last turn, 0 for a repeated guess. `repetitions` is 1 for a
    new guess, 0 for a repeated one or no guess. `correct` is 1 for the secret.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        self.greens, self.yellows, self.repetitions, self.correct = (SignalRubric() for _ in range(4))

    def judge(self, turn: Turn, before: Sequence[Turn]) -> None:
        """Set the signals of a turn, given the turns before it."""
        is_new = turn.guess is not None and all(turn.guess != earlier.guess for earlier in before)
        marks = turn.marks if turn.marks is not None and is_new else ""
        letters = max(len(marks), 1)
        self.greens.value = marks.count("G") / letters
        self.yellows.value = marks.count("Y") / letters
        self.repetitions.value = float(is_new)
        self.correct.value = float(bool(marks) and not marks.strip("G"))

    def forward(self, action: Any, observation: Any) -> float:
        """Score every leaf and return the reward of the turn judged last."""
        for leaf in self.children():
            leaf(action, observation)
        return self.correct.value

    def reset(self) -> None:
        """Forget the last game."""
        for leaf in (self.greens, self.yellows, self.repetitions, self.correct):
            leaf.value, leaf.last_score = 0.0, None
        self.last_score = None


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


class TextArenaEnv(EnvClient[TextArenaAction, TextArenaObservation, TextArenaState]):
    """One session on a server of the TextArena protocol, ours or openenv's.

    `TextArenaEnv(base_url=...)` is asynchronous; `.sync()` returns a synchronous one. A client plays one game at a
    time; `new_session()` opens another.
    """

    def _step_payload(self, action: TextArenaAction) -> dict[str, Any]:
        return {"message": action.message}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TextArenaObservation]:
        observed = {**payload["observation"], "reward": payload.get("reward"), "done": payload.get("done", False)}
        observation = TextArenaObservation.model_validate(observed)
        return StepResult(observation=observation, reward=observation.reward, done=observation.done)

    def _parse_state(self, payload: dict[str, Any]) -> TextArenaState:
        return TextArenaState.model_validate(payload)
