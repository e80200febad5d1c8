"""One record of a finished game, for all that keep games: traces, sample games of training, evaluations.

    {"secret": "crane", "won": true, "turns_used": 2, "turns": [{"guess": "slate", "marks": "XXGXG", ...}, ...], ...}

A row leaves out what has its default. `GameRecord.to_row` writes it and `GameRecord.from_row` reads it, wherever it
stands; rows of games.jsonl and labels.jsonl also name their place in the training (`PLACE_FIELDS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, PlainSerializer, TypeAdapter, ValidationError

from wordle_rl.env import PlayedTurn, StopReason, Transcript
from wordle_rl.game import Outcome, Turn
from wordle_rl.prompt import Message
from wordle_rl.reward import RewardBreakdown
from wordle_rl.runs import RunError, read_jsonl

UNKNOWN_TEACHER = "unknown"
"""The teacher of a game that names none."""

PLACE_FIELDS = frozenset({"stage", "step", "group", "game", "group_size", "alpha", "occurrence", "boards_taught"})
"""Where a training or an evaluation played the game; passed over when it is read."""

OTHER_NAMES = MappingProxyType({"word": "secret", "feedback": "marks"})
"""Names that other projects' rows have for the same; they are read and never written."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn. Its first fields are those of `game.Turn`.

    Attributes:
        guess: The word played; None: none was read.
        marks: G right place, Y elsewhere, X no copy left; None: the guess was not scored, see `outcome`.
        taught: False for a turn that is not to be trained on: a prefix guess, a stray, a slip, a broken rule.
        remaining: Answers possible before a teacher's guess; 0: not counted.
        thinking: A teacher's reasoning.
        outcome: What the rules made of the reply.
        costs_turn: False for a refusal that was free.
        reply: Text of the completion, unchanged.
        finish: Why an endpoint ended the reply, if unusual: `length`, `content_filter`, `refusal`.
        given: True for a prefix guess, on the board when play began.
        reward: In training, the reward of the turn.
        components: In training, its components before their weights.
        advantage: In training, the advantage of the turn's tokens within its group.
        repeated: In evaluations, the word was guessed before in the game.
        violates_clues: In evaluations, the guess contradicts earlier marks, whether it was scored or not.
        regret: In evaluations, expected guesses given away against the solver; None: not measured.
        leniently: In evaluations, only the lenient reading found a guess in the reply.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    guess: str | None
    marks: str | None
    taught: bool = True
    remaining: int = 0
    thinking: str = ""
    outcome: Outcome = Outcome.SCORED
    costs_turn: bool = True
    reply: str = ""
    finish: str = ""
    given: bool = False
    reward: float | None = None
    components: Mapping[str, float] | None = None
    advantage: float | None = None
    repeated: bool = False
    violates_clues: bool = False
    regret: float | None = None
    leniently: bool = False

    @classmethod
    def of(cls, played: PlayedTurn, **more: Any) -> TurnRecord:
        """The record of a turn of a transcript, with further fields."""
        turn = played.turn
        said: dict[str, Any] = {"reply": played.reply, "given": played.is_prefix, "taught": not played.is_prefix}
        return cls(turn.guess, turn.marks, outcome=turn.outcome, costs_turn=turn.costs_turn, **(said | more))

    @property
    def turn(self) -> Turn:
        """The turn as the rules saw it."""
        return Turn(self.guess, self.marks, self.outcome, self.costs_turn)

    def to_row(self) -> dict[str, Any]:
        """The turn as a JSON object."""
        row = {name: value for name, value in _not_default(self, _TURN_DEFAULTS) if name != "taught"}
        if self.taught is self.given:  # a prefix guess is not taught unless its row says so
            row["taught"] = self.taught
        return row


@dataclass(frozen=True, slots=True)
class GameRecord:
    """One finished game, won or not.

    Attributes:
        secret: The word to find.
        turns: Every turn, prefix guesses first.
        teacher: Who played a teacher game: `solver`, the name of a language model or of a teacher of yours.
        seed: A teacher game's seed.
        error: Reason why it could not be played to its end; it is then neither won nor lost.
        prompt_tokens: Tokens of all prompts, as an endpoint counts them; 0: not known.
        completion_tokens: The same of all completions.
        messages: The conversation of a game that was given as one; it is trained on word for word.
        stop_reason: Reason why it ended; None: not on record.
        reward: Its reward in training, or under an evaluation's `reward_preset`; None: there is none.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    secret: str
    turns: tuple[TurnRecord, ...]
    teacher: str = UNKNOWN_TEACHER
    seed: int = 0
    error: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    messages: tuple[Message, ...] = ()
    stop_reason: StopReason | None = None
    reward: float | None = None

    @classmethod
    def of(
        cls,
        transcript: Transcript,
        reward: RewardBreakdown | None = None,
        advantages: Sequence[float] = (),
    ) -> GameRecord:
        """The record of a played game.

        Args:
            transcript: The game.
            reward: What it earned, by own turn.
            advantages: Of each own turn; else they are not recorded (with candidates there is one for each of these).
        """
        turns = []
        own = 0
        for played in transcript.turns:
            more: dict[str, Any] = {}
            if not played.is_prefix:
                if reward is not None:
                    more["reward"] = round(reward.turn_rewards[own], 4)
                    more["components"] = {name: round(share[own], 4) for name, share in reward.components.items()}
                if len(advantages) == len(transcript.own_turns):
                    more["advantage"] = round(advantages[own], 4)
                own += 1
            turns.append(TurnRecord.of(played, **more))
        total = None if reward is None else round(reward.total, 4)
        return cls(transcript.secret, tuple(turns), stop_reason=transcript.stop_reason, reward=total)

    @property
    def key(self) -> tuple[str, int, str]:
        """Key of a teacher game: secret, seed and teacher."""
        return self.secret, self.seed, self.teacher

    @property
    def won(self) -> bool:
        """True if the last guess found the secret."""
        last = self.turns[-1] if self.turns else None
        return last is not None and last.guess == self.secret and last.outcome is Outcome.SCORED

    @property
    def turns_used(self) -> int:
        """Turns that the game cost, prefix guesses included, without refusals that were free."""
        return sum(turn.costs_turn for turn in self.turns)

    @property
    def own_turns(self) -> tuple[TurnRecord, ...]:
        """The turns that the player played, without prefix guesses."""
        return self.turns[self.num_prefix :]

    @property
    def num_prefix(self) -> int:
        """How many turns were on the board before the player's first."""
        return sum(turn.given for turn in self.turns)

    @property
    def failed(self) -> bool:
        """True if the game is an error and counts in no figure."""
        return self.error is not None or self.stop_reason is StopReason.REQUEST_FAILED

    def board(self, turns: int | None = None) -> list[Turn]:
        """The first `turns` turns (all by default) as the rules see them."""
        return [turn.turn for turn in self.turns[:turns]]

    def to_row(self) -> dict[str, Any]:
        """The game as a JSON object."""
        row: dict[str, Any] = {"secret": self.secret, "won": self.won, "turns_used": self.turns_used}
        return {**row, **dict(_not_default(self, _GAME_DEFAULTS)), "turns": [turn.to_row() for turn in self.turns]}

    @classmethod
    def from_row(cls, row: object) -> GameRecord:
        """Read a game back.

        Raises:
            ValueError: If a field is missing, unknown or of the wrong kind; the message names it.
        """
        try:
            return _STORED.validate_python(row)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the row'}: {first['msg']}") from None


_TURN_DEFAULTS = {field.name: field.default for field in fields(TurnRecord)} | {"outcome": MISSING}
_GAME_DEFAULTS = {field.name: field.default for field in fields(GameRecord)}


def _not_default(record: TurnRecord | GameRecord, defaults: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(record, name)) for name in defaults if getattr(record, name) != defaults[name])


def _without_place(row: object) -> object:
    """The fields of a row that are stored: neither place nor what follows from the turns."""
    if not isinstance(row, dict) or not isinstance(row.get("turns"), list):
        return row
    turns = [
        {"taught": False, **turn} if isinstance(turn, dict) and turn.get("given") else turn for turn in row["turns"]
    ]
    passed_over = PLACE_FIELDS | {"won", "turns_used"}
    return {name: value for name, value in row.items() if name not in passed_over} | {"turns": turns}


StoredGame = Annotated[GameRecord, BeforeValidator(_without_place), PlainSerializer(GameRecord.to_row)]
"""A game as a field of a stored pydantic value."""
_STORED = TypeAdapter(StoredGame)


def read_traces(path: Path) -> Iterator[GameRecord]:
    """Read the games of a file of rows.

    Raises:
        RunError: If the file is missing or a line is no game; the message names the line.
    """
    for number, row in enumerate(read_jsonl(path), start=1):
        try:
            yield GameRecord.from_row(row)
        except ValueError as error:
            raise RunError(f"{path}:{number} is no trace ({error}); make it with `wordle-rl traces`") from None


def board_row(secret: str, turns: Iterable[tuple[str | None, str | None]]) -> dict[str, Any]:
    """A board to continue from: the secret, and the guesses played with their marks."""
    return {"secret": secret, "turns": [{"guess": guess, "marks": marks, "given": True} for guess, marks in turns]}


def in_our_names(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with OTHER_NAMES replaced by ours, where ours are not there as well.

    Examples:
        >>> in_our_names({"word": "crane", "turns": []})
        {'secret': 'crane', 'turns': []}
    """
    return {OTHER_NAMES.get(name, name) if OTHER_NAMES.get(name) not in row else name: row[name] for name in row}
