"""The record of a finished game in every file that holds games: traces, sample games of training, evaluations.

    {"secret": "crane", "won": true, "turns_used": 2, "turns": [{"guess": "slate", "marks": "XXGXG", ...}, ...], ...}

A row leaves out defaults. `GameRecord.to_row` writes it and `GameRecord.from_row` reads it. Rows of games.jsonl and
labels.jsonl also say where in the training a game was played (`PLACE_FIELDS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, PlainSerializer, TypeAdapter, ValidationError

from wordle_rl.env import PlayedTurn, StopReason, Transcript
from wordle_rl.game import Outcome, Turn
from wordle_rl.prompt import Message
from wordle_rl.reward import RewardBreakdown
from wordle_rl.runs import RunError, read_jsonl

UNKNOWN_TEACHER = "unknown"
"""Teacher of a game that names none."""

PLACE_FIELDS = frozenset({"stage", "step", "group", "game", "group_size", "alpha", "occurrence", "boards_taught"})
"""Where a training or an evaluation played the game. Ignored when a game is read."""


@dataclass(frozen=True, slots=True)
class TurnNotes:
    """What is known of a turn beside how it was played.

    Attributes:
        remaining: Answers still possible before a teacher's guess; 0 if not counted.
        finish: Why an endpoint ended the reply, if unusual: `length`, `content_filter`, `refusal`.
        repeated: Evaluation: the game guessed the word before; `violates_clues`: earlier marks rule the guess out.
        regret: Evaluation: expected guesses lost against the solver; None if not measured.
        components: Training: reward components before their weights.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    remaining: int = 0
    finish: str = ""
    repeated: bool = False
    violates_clues: bool = False
    regret: float | None = None
    reward: float | None = None
    components: Mapping[str, float] | None = None
    advantage: float | None = None


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn as it was played. The first fields are those of `game.Turn`.

    Attributes:
        taught: False if nothing trains on the turn: a prefix guess, a stray, a slip, a broken rule.
        reply: Unchanged text of the completion.
        given: True for a prefix guess, on the board before play began.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    guess: str | None
    marks: str | None
    taught: bool = True
    thinking: str = ""
    outcome: Outcome = Outcome.SCORED
    costs_turn: bool = True
    reply: str = ""
    given: bool = False
    notes: TurnNotes = TurnNotes()

    @classmethod
    def of(cls, played: PlayedTurn, **more: Any) -> TurnRecord:
        """Build the record of a transcript's turn, with further fields."""
        turn = played.turn
        said: dict[str, Any] = {"reply": played.reply, "given": played.is_prefix, "taught": not played.is_prefix}
        return cls(turn.guess, turn.marks, outcome=turn.outcome, costs_turn=turn.costs_turn, **(said | more))

    @property
    def turn(self) -> Turn:
        """The turn as the rules saw it."""
        return Turn(self.guess, self.marks, self.outcome, self.costs_turn)

    def noted(self, **known: Any) -> TurnRecord:
        """Return a copy with these notes beside those that it has."""
        return replace(self, notes=replace(self.notes, **known))

    def to_row(self) -> dict[str, Any]:
        """Return the turn as a JSON object."""
        row = {"outcome": self.outcome, **dict(_not_default(self))}
        row.pop("taught", None)
        # What follows from `given` is left out.
        if self.taught is self.given:  # a prefix guess is not taught unless its row says so
            row["taught"] = self.taught
        return row


@dataclass(frozen=True, slots=True)
class GameNotes:
    """What is known of a game beside how it was played.

    Attributes:
        teacher: Who played a teacher game: `solver`, a language model, or your own teacher.
        prompt_tokens: As counted by an endpoint, like `completion_tokens`; 0 if unknown.
        reward: Reward in training, or under an evaluation's `reward_preset`, or None.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    teacher: str = UNKNOWN_TEACHER
    seed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reward: float | None = None


@dataclass(frozen=True, slots=True)
class GameRecord:
    """One finished game, won or not.

    Attributes:
        turns: Every turn, prefix guesses first.
        error: Why the game could not be finished. It then counts as neither won nor lost.
        messages: Conversation of a game that came as one. Trained on word for word.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    secret: str
    turns: tuple[TurnRecord, ...]
    error: str | None = None
    messages: tuple[Message, ...] = ()
    stop_reason: StopReason | None = None
    notes: GameNotes = GameNotes()

    @classmethod
    def of(
        cls,
        transcript: Transcript,
        reward: RewardBreakdown | None = None,
        advantages: Sequence[float] = (),
    ) -> GameRecord:
        """Build the record of a played game. Advantages are kept if there is one per own turn, not per candidate."""
        turns = []
        own = 0
        for played in transcript.turns:
            known: dict[str, Any] = {}
            if not played.is_prefix:  # rewards and advantages are those of own turns
                if reward is not None:
                    known["reward"] = round(reward.turn_rewards[own], 4)
                    known["components"] = {name: round(share[own], 4) for name, share in reward.components.items()}
                if len(advantages) == len(transcript.own_turns):
                    known["advantage"] = round(advantages[own], 4)
                own += 1
            turns.append(TurnRecord.of(played, notes=TurnNotes(**known)))
        total = None if reward is None else round(reward.total, 4)
        return cls(transcript.secret, tuple(turns), stop_reason=transcript.stop_reason, notes=GameNotes(reward=total))

    @property
    def key(self) -> tuple[str, int, str]:
        """Key of a teacher game: secret, seed and teacher."""
        return self.secret, self.notes.seed, self.notes.teacher

    @property
    def lesson(self) -> tuple[object, ...]:
        """What is learnt from the game, equal for duplicates: its messages, or its secret, guesses and thoughts; and
        which turns.
        """
        if self.messages:
            talk = tuple((message["role"], message["content"]) for message in self.messages)
            return talk, tuple(turn.taught for turn in self.turns)
        return self.secret, tuple((turn.guess, turn.marks, turn.thinking, turn.taught) for turn in self.turns)

    @property
    def won(self) -> bool:
        """True if the last guess found the secret."""
        # By the outcome too: an invented secret is outside the list, and may have been refused.
        last = self.turns[-1] if self.turns else None
        return last is not None and last.guess == self.secret and last.outcome is Outcome.SCORED

    @property
    def turns_used(self) -> int:
        """Number of turns used, prefix guesses included, free refusals not."""
        return sum(turn.costs_turn for turn in self.turns)

    @property
    def own_turns(self) -> tuple[TurnRecord, ...]:
        """Turns of the player, without prefix guesses."""
        return self.turns[self.num_prefix :]

    @property
    def num_prefix(self) -> int:
        """Number of prefix guesses."""
        return sum(turn.given for turn in self.turns)

    @property
    def failed(self) -> bool:
        """True if the game is an error and counts in no figure."""
        return self.error is not None or self.stop_reason is StopReason.REQUEST_FAILED

    def board(self, turns: int | None = None) -> list[Turn]:
        """Return the first `turns` turns (default: all) as the rules see them."""
        return [turn.turn for turn in self.turns[:turns]]

    def to_row(self) -> dict[str, Any]:
        """Return the game as a JSON object."""
        row: dict[str, Any] = {"secret": self.secret, "won": self.won, "turns_used": self.turns_used}
        return {**row, **dict(_not_default(self)), "turns": [turn.to_row() for turn in self.turns]}

    @classmethod
    def from_row(cls, row: object) -> GameRecord:
        """Read a game back.

        Raises:
            ValueError: If a field is missing, unknown or of the wrong kind; the message names it.
        """
        try:
            return _STORED.validate_python(row)
        except ValidationError as error:
            first = error.errors()[0]  # one line names one fault
            raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the row'}: {first['msg']}") from None


def _not_default(record: TurnRecord | GameRecord) -> Iterator[tuple[str, Any]]:
    # A row is flat: what is known stands beside what was played.
    for part in (record, record.notes):
        for field in fields(part):
            if field.name != "notes" and (value := getattr(part, field.name)) != field.default:
                yield field.name, value


def _as_stored(row: object) -> object:
    # Drop the place of the game, and what follows from its turns; gather what is known.
    if not isinstance(row, dict) or not isinstance(row.get("turns"), list):
        return row
    turns = [
        _gathered({"taught": not turn.get("given"), **turn}, _TURN_NOTES) if isinstance(turn, dict) else turn
        for turn in row["turns"]
    ]
    kept = {name: value for name, value in row.items() if name not in _PASSED_OVER}
    return _gathered(kept, _GAME_NOTES) | {"turns": turns}


_PASSED_OVER = PLACE_FIELDS | {"won", "turns_used"}
_TURN_NOTES, _GAME_NOTES = (frozenset(field.name for field in fields(kind)) for kind in (TurnNotes, GameNotes))


def _gathered(row: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    # Move what is known of a row's turn or game into its notes, in place: an export reads a hundred thousand turns.
    if "notes" in row:
        raise ValueError("notes: no field of a row")
    row["notes"] = {name: row.pop(name) for name in known & row.keys()}
    return row


StoredGame = Annotated[GameRecord, BeforeValidator(_as_stored), PlainSerializer(GameRecord.to_row)]
"""A game as a field of a stored pydantic value."""
_STORED = TypeAdapter(StoredGame)


def read_traces(path: Path) -> Iterator[GameRecord]:
    """Read the games of a file of rows.

    Raises:
        RunError: If the file is missing or a line is not a game; the message names the line.
    """
    for number, row in enumerate(read_jsonl(path), start=1):
        try:
            yield GameRecord.from_row(row)
        except ValueError as error:
            raise RunError(f"{path}:{number} is no trace ({error}); make it with `wordle-rl traces`") from None


def board_row(secret: str, turns: Iterable[tuple[str | None, str | None]]) -> dict[str, Any]:
    """Return the row of an initial state: the secret, and the guesses played with their marks."""
    return {"secret": secret, "turns": [{"guess": guess, "marks": marks, "given": True} for guess, marks in turns]}
