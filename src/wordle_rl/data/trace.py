"""Teacher games as traces: how they are stored, and how the solver teacher's are played and put into words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from wordle_rl.game import Outcome, Turn
from wordle_rl.prompt import Message
from wordle_rl.runs import RunError, read_jsonl
from wordle_rl.runs.game_rows import GAME_FIELDS, TURN_FIELDS

UNKNOWN_TEACHER = "unknown"
"""The teacher of a game that names none."""


@dataclass(frozen=True, slots=True)
class TraceTurn:
    """One turn of a teacher's game.

    Attributes:
        guess: Empty if none could be read.
        marks: Empty if the guess was not scored, see `outcome`.
        taught: False for a turn that is not to be trained on: a stray, a slip, or one that broke the rules.
        remaining: Answers possible before the guess; 0: not counted.
        thinking: The teacher's reasoning, if any.
        outcome: What the rules made of the reply.
        costs_turn: False for a refusal that was free.
        reply: A language model's text, unchanged.
        finish: Why the endpoint ended the reply, if that was not an ordinary stop: `length`, `content_filter`,
            `refusal`.
    """

    guess: str
    marks: str
    taught: bool = True
    remaining: int = 0
    thinking: str = ""
    outcome: Outcome = Outcome.SCORED
    costs_turn: bool = True
    reply: str = ""
    finish: str = ""

    def to_row(self) -> dict[str, Any]:
        """The turn as a JSON object; fields that only language models use are left out if they have their default."""
        row = _row_of(self, always=("guess", "marks", "taught", "remaining", "thinking"))
        return {**row, "guess": self.guess or None, "marks": self.marks or None}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> TraceTurn:
        """Read a turn back, from a trace or from any other file of the row form.

        Raises:
            TypeError: If a field is missing, unknown or of the wrong kind.
            ValueError: If the outcome is unknown.
        """
        _check_kinds(row, _TURN_KINDS)
        values: dict[str, Any] = {n: value for n, value in row.items() if n in cls.__slots__ or n not in TURN_FIELDS}
        values |= {name: row[name] or "" for name in ("guess", "marks") if name in row}
        if row.get("given"):
            values.setdefault("taught", False)
        return cls(**{**values, "outcome": Outcome(row.get("outcome", Outcome.SCORED))})


@dataclass(frozen=True, slots=True)
class Trace:
    """One teacher's game, won or not.

    `teacher` is `solver` or a language model's name. `error` is the reason why the game could not be finished; such a
    game is not a loss, and the same command plays it again. Token counts are those the endpoint reports. `messages` is
    the conversation itself, where a row of chat was given instead of a game; it is then trained on word for word, and
    no prompt is made.
    """

    secret: str
    turns: tuple[TraceTurn, ...]
    teacher: str = "solver"
    seed: int = 0
    error: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    messages: tuple[Message, ...] = ()

    @property
    def key(self) -> tuple[str, int, str]:
        """Key of a game: secret, seed and teacher."""
        return self.secret, self.seed, self.teacher

    @property
    def won(self) -> bool:
        """True if the last guess found the secret."""
        return bool(self.turns) and self.turns[-1].guess == self.secret

    @property
    def num_guesses(self) -> int:
        """The turns of the game, without refusals that were free."""
        return sum(turn.costs_turn for turn in self.turns)

    def board(self, turns: int | None = None) -> list[Turn]:
        """The first `turns` turns (all by default) as the rules see them."""
        return board_of(self.turns[:turns])

    def to_row(self) -> dict[str, Any]:
        """The trace as a JSON object."""
        row = _row_of(self, always=("secret", "turns", "teacher", "seed"))
        return {**row, "turns": [turn.to_row() for turn in self.turns]}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Trace:
        """Read a trace back; without a teacher's name its teacher is `UNKNOWN_TEACHER`, not the solver.

        Raises:
            KeyError: If the secret or the turns are missing.
            TypeError: If a field is unknown or of the wrong kind.
            ValueError: If a turn's outcome is unknown.
        """
        _check_kinds(row, _TRACE_KINDS)
        turns = tuple(TraceTurn.from_row(turn) for turn in row["turns"])
        own = {name: value for name, value in row.items() if name in cls.__slots__ or name not in GAME_FIELDS}
        own["messages"] = tuple(own.get("messages", ()))
        return cls(**{"teacher": UNKNOWN_TEACHER, **own, "secret": row["secret"], "turns": turns})


_TURN_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("guess", "marks"), (str, type(None))),
    **dict.fromkeys(("thinking", "outcome", "reply", "finish"), (str,)),
    **dict.fromkeys(("taught", "costs_turn"), (bool,)),
    "remaining": (int,),
}
_TRACE_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("secret", "teacher"), (str,)),
    **dict.fromkeys(("seed", "prompt_tokens", "completion_tokens"), (int,)),
    "error": (str, type(None)),
    **dict.fromkeys(("turns", "messages"), (list,)),
}


def _check_kinds(row: object, kinds: dict[str, tuple[type, ...]]) -> None:
    if not isinstance(row, dict):
        raise TypeError(f"a turn is {row!r}, expected an object")
    for name, value in row.items():
        if type(value) not in kinds.get(name, (type(value),)):  # not isinstance: a bool is no int here
            raise TypeError(f"{name} is {value!r}, expected {' or '.join(kind.__name__ for kind in kinds[name])}")


def _row_of(value: Trace | TraceTurn, always: Sequence[str]) -> dict[str, Any]:
    """The fields named in `always`, and of the others those that differ from their default."""
    found = {field.name: (getattr(value, field.name), field.default) for field in fields(value)}
    return {name: kept for name, (kept, default) in found.items() if name in always or kept != default}


def board_of(turns: Sequence[TraceTurn]) -> list[Turn]:
    """Turns of a trace as turns of the game."""
    return [Turn(turn.guess or None, turn.marks or None, turn.outcome, turn.costs_turn) for turn in turns]


def read_traces(path: Path) -> Iterator[Trace]:
    """Read a traces file.

    Raises:
        RunError: If the file is missing or a line is not a trace; the message names the line.
    """
    for number, row in enumerate(read_jsonl(path), start=1):
        try:
            yield Trace.from_row(row)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path}:{number} is no trace ({error}); make it with `wordle-rl traces`") from None
