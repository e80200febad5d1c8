"""The TextArena protocol, for openenv's `TextArenaEnv` and notebooks written for it.

From the wire inwards: types, one game in TextArena's texts, the signals of a turn, a session, a client. The rules are
those of `WordleEnv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from openenv.core.rubrics import Rubric
from pydantic import BaseModel, Field

import wordle_rl
from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.game import Turn, scored_pairs
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.prompt import textarena_texts as texts
from wordle_rl.prompt.textarena_texts import ENV_ID
from wordle_rl.serve.environment import GameSession, Leaf
from wordle_rl.serve.openenv_client import MessageClient
from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.tasks import ServedGames


class TextArenaMessage(BaseModel):
    """A message of a history. The whole history of a game is one message of the game."""

    sender_id: int
    """Number of the sender; -1 is the game."""
    content: str
    category: str


class TextArenaAction(Action):
    """A player's message."""

    message: str
    """The guess in brackets, `[crane]`."""


class TextArenaObservation(Observation):
    """The game as its player sees it. It never holds the secret while the game runs."""

    prompt: str
    """The opening before the first turn, `Wordle-v0` afterwards."""
    messages: list[TextArenaMessage] = Field(default_factory=list)
    current_player_id: int = 0
    """Always 0: there is one player."""
    legal_players: list[int] = Field(default_factory=list)
    info: dict[str, Any] = Field(default_factory=dict)
    """Always empty; the rubric of the environment has the components of the reward."""


class TextArenaState(State):
    """State of the session."""

    env_id: str
    num_players: int
    max_turns: int | None = None
    turn: int = 0
    last_reward: float = 0.0
    last_info: dict[str, Any] = Field(default_factory=dict)
    """Reason why the game ended, once it has."""
    raw_state: dict[str, Any] = Field(default_factory=dict)
    """Board of the game; the secret only once the game is over."""


class TextArenaGame:
    """A game in TextArena's texts, played once.

    `prompt` is the opening before the first turn, the name of the game afterwards. `history` has all messages, the
    opening and those of the player included.

    Args:
        env: The game, in style `textarena`, before the first turn.
    """

    def __init__(self, env: WordleEnv) -> None:
        self.env = env
        self.letters, self.max_turns = env.prompter.word_length, env.prompter.rules.max_turns
        self.history = texts.opening(self.letters, self.max_turns)
        # Guesses that the board begins with look like moves of the player: TextArena knows no others.
        for count, turn in enumerate(env.turns, start=1):
            left = self.max_turns - count
            self.history += texts.played(f"[{turn.guess}]", turn, left, repeated=False, letters=self.letters)
        self.prompt = self.history.strip()

    @property
    def won(self) -> bool:
        """True if the secret was found."""
        return self.env.stop_reason is StopReason.SOLVED

    @property
    def board(self) -> dict[str, str]:
        """Marks of each scored guess, in order."""
        return dict(scored_pairs(self.env.turns))

    @property
    def turns_used(self) -> int:
        """Guesses used."""
        return self.max_turns - self.env.observation.turns_left

    @property
    def reason(self) -> str:
        """Why the game ended, with the secret; a `RuntimeError` while it runs."""
        secret = self.env.transcript().secret
        marks = next((turn.marks for turn in reversed(self.env.turns) if turn.marks is not None), "")
        # TextArena's own measure of a lost game: a yellow letter counts half.
        placed = (marks.count("G") + marks.count("Y") / 2) / self.letters
        return texts.won() if self.won else texts.lost(secret, round(100 * placed))

    def step(self, message: str, *, overlong: bool = False) -> None:
        """Play one message: one word in brackets after optional thinking. An overlong one was cut."""
        # Taken before the step, which adds the guess itself.
        known = self.board
        self.env.step(message, overlong=overlong)
        turn, left = self.env.turns[-1], self.env.observation.turns_left
        self.history += texts.played(message, turn, left, repeated=turn.guess in known, letters=self.letters)
        self.prompt = texts.ENV_ID


class SignalsRubric(Rubric):
    """The tree; its own score is the reward of the turn: 1 for the winning turn, otherwise 0.

    `greens` and `yellows` are fractions of the marks of the last turn, 0 for a repeated guess. `repetitions` is 1 for a
    new guess, 0 for a repeated one or no guess. `correct` is 1 for the secret.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        self.greens, self.yellows, self.repetitions, self.correct = (Leaf() for _ in range(4))

    def judge(self, turns: Sequence[Turn]) -> None:
        """Set the signals of the last of these turns."""
        *before, turn = turns
        # A repeated guess would earn its greens again, so TextArena's signals ignore it.
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


_GAME_ID = -1
_PLAYER_ID = 0


class TextArenaEnvironment(GameSession[TextArenaAction, TextArenaObservation, TextArenaState]):
    """Wordle in TextArena's words; the winning turn earns 1, any other 0.

    A reset has the options of `WordleEnvironment`, except `style` and `reward`, which are fixed. The rubric of the last
    game holds the signals of its last turn.
    """

    about = EnvironmentMetadata(
        name=ENV_ID, description="Wordle in the words of TextArena", version=wordle_rl.__version__
    )
    wording = MappingProxyType(
        {
            "style": Style.TEXTARENA,
            "shape": Shape.TRANSCRIPT,
            "thinking": Thinking.OPTIONAL,
            "system_prompt": None,
        }
    )
    _shown: TextArenaGame | None = None

    def __init__(self, games: ServedGames) -> None:
        super().__init__(games)
        self.rubric = self._signals = SignalsRubric()

    def reset(self, /, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> TextArenaObservation:
        """Begin a game; see `ResetOptions`."""
        if fixed := kwargs.keys() & {"style", "reward"}:
            raise Refusal(Reason.BAD_OPTION, f"{sorted(fixed)} is fixed here; leave it out, or play at /ws")
        game = self._begin(seed=seed, episode_id=episode_id, **kwargs)
        self._shown = TextArenaGame(game.env)
        self.rubric = self._signals = SignalsRubric()
        return self._observation(self._shown)

    def step(self, action: TextArenaAction, timeout_s: float | None = None, **kwargs: Any) -> TextArenaObservation:
        """Play one message."""
        env, shown = self._running().env, self._shown
        assert shown is not None
        message, overlong = self._read(action.message)
        shown.step(message, overlong=overlong)
        self._episode["step_count"] += 1
        observation = self._observation(shown)
        self._signals.judge(env.turns)
        self._signals(action, observation)
        return observation

    @property
    def state(self) -> TextArenaState:
        """Board and counts; the secret only once the game is over."""
        game = self._shown
        if game is None:
            return TextArenaState(env_id=ENV_ID, num_players=1)
        done = game.env.stop_reason is not None
        board: dict[str, Any] = {
            "guess_history": [[guess, list(marks)] for guess, marks in game.board.items()],
            "word_length": game.letters,
            "num_guesses": game.max_turns,
        }
        info = {}
        # Both name the secret.
        if self._shows_secret(game.env):
            board["secret_word"], info["reason"] = game.env.transcript().secret, game.reason
        return TextArenaState(
            **self._episode,
            env_id=ENV_ID,
            num_players=1,
            max_turns=game.max_turns,
            turn=game.turns_used,
            last_reward=float(game.won),
            last_info=info,
            raw_state={"turn": game.turns_used, "done": done, "game_state": board},
        )

    def _observation(self, game: TextArenaGame) -> TextArenaObservation:
        return TextArenaObservation(
            prompt=game.prompt,
            messages=[TextArenaMessage(sender_id=_GAME_ID, content=game.history, category="MESSAGE")],
            current_player_id=_PLAYER_ID,
            legal_players=[_PLAYER_ID],
            reward=float(game.won),
            done=game.env.stop_reason is not None,
            metadata={"env_id": ENV_ID, "turn": game.turns_used},
        )


class TextArenaEnv(MessageClient[TextArenaAction, TextArenaObservation, TextArenaState]):
    """One session on a server of the TextArena protocol, ours or openenv's.

    `TextArenaEnv(base_url=...)` is asynchronous; `.sync()` returns a synchronous one. A client plays one game at a
    time; `new_session()` opens another.
    """

    types = TextArenaObservation, TextArenaState
