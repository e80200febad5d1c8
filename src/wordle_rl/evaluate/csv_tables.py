"""Evaluations as CSV, one row per game, for spreadsheets. Commands read the JSON beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.conditions import EvalConditions
from wordle_rl.evaluate.records import Evaluation, is_invalid
from wordle_rl.game import Outcome, Rules
from wordle_rl.runs import RunError, write_text_atomically
from wordle_rl.words.split import Split

_NOT_ABOUT = ("rules", "records", "conditions", "control")
_ABOUT = tuple(field.name for field in fields(Evaluation) if field.name not in _NOT_ABOUT)
_RULES = tuple(field.name for field in fields(Rules))
_CONDITIONS = tuple(field.name for field in fields(EvalConditions))
_NONE = "-"
GAME_COLUMNS = ("secret", "split", "won")
"""First columns of the table of an evaluation."""


def save_csv(evaluation: Evaluation, split: Split, path: Path) -> None:
    """Write one row per game, atomically.

    Columns: `secret`, `split` (train, val, test), `won` (true or false; empty for an error), `turns_used`; by turn
    `guesses`, `marks`, `outcomes` and `regrets` (`-`: none); how many turns were invalid, malformed, repeated or
    against clues; `mean_regret`, `stop_reason`, `error`; and facts that all games share.

    Raises:
        RunError: If the file holds anything but an earlier table of this kind, or cannot be written.
    """
    about = {name: _plain(getattr(evaluation, name)) for name in _ABOUT}
    about |= {name: _plain(getattr(evaluation.rules, name)) for name in _RULES}
    about |= {name: _plain(getattr(evaluation.conditions, name)) for name in _CONDITIONS}
    if evaluation.conditions.system_prompt == "":  # an empty cell stands for None
        about["system_prompt"] = _NONE
    rows = [{**_row(record), "split": split.part_of(record.secret), **about} for record in evaluation.records]
    write_rows(path, rows)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], option: str = "--csv") -> None:
    """Write rows with the columns of the first, atomically. `option` is the option that names the file.

    Raises:
        RunError: If the file holds anything but an earlier table of this kind, or cannot be written.
    """
    check_table(path, list(rows[0]), option)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text_atomically(path, text.getvalue())


def check_table(path: Path, columns: Sequence[str], option: str = "--csv") -> None:
    """Check that a file may be overwritten by a table: it has the same first three columns, or is empty or missing.

    Raises:
        RunError: If the file holds something else.
    """
    if not path.is_file():
        return
    begins = f"{','.join(columns[:3])},".encode()
    with path.open("rb") as file:
        if file.read(len(begins)) not in (begins, b""):
            raise RunError(f"{path} holds something else than a table of this kind; name another {option}")


def _row(record: GameRecord) -> dict[str, str | int | float]:
    turns = record.turns
    regrets = [turn.regret for turn in turns if turn.regret is not None]
    return {
        "secret": record.secret,
        "split": "",
        "won": "" if record.failed else _plain(record.won),
        "turns_used": record.turns_used,
        "guesses": " ".join(turn.guess or _NONE for turn in turns),
        "marks": " ".join(turn.marks or _NONE for turn in turns),
        "invalid_turns": sum(is_invalid(turn) for turn in turns),
        "malformed_turns": sum(turn.outcome is Outcome.MALFORMED for turn in turns),
        "repeated_turns": sum(turn.repeated for turn in turns),
        "clue_violating_turns": sum(turn.violates_clues for turn in turns),
        "mean_regret": sum(regrets) / len(regrets) if regrets else "",
        "outcomes": " ".join(turn.outcome.value for turn in turns),
        "regrets": " ".join(_NONE if turn.regret is None else repr(turn.regret) for turn in turns),
        "repeats": " ".join(_plain(turn.repeated) for turn in turns),
        "clue_violations": " ".join(_plain(turn.violates_clues) for turn in turns),
        "stop_reason": str(record.stop_reason),
        "error": record.error or "",
    }


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
