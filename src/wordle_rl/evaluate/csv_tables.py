"""Evaluations as CSV, one row per game, for spreadsheets. Commands read the JSON beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.records import Evaluation, is_invalid
from wordle_rl.game import Outcome
from wordle_rl.runs import RunError, write_text_atomically
from wordle_rl.words.split import Split

GAME_COLUMNS = ("secret", "split", "won")
"""First columns of the table of an evaluation."""


def save_csv(evaluation: Evaluation, split: Split, path: Path) -> None:
    """Write one row per game, atomically: the game, its counts of turns, and what all games share.

    `won` is empty for an error. In columns with a value per turn, `-` stands for none.
    """
    about = {
        "name": evaluation.name,
        "player": evaluation.player,
        "fingerprint": evaluation.fingerprint,
        "constrain": evaluation.constrain,
        "reward_preset": evaluation.reward_preset,
        **asdict(evaluation.rules),
        **asdict(evaluation.conditions),
    }
    write_rows(path, [_row(record, split) | about for record in evaluation.records])


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], option: str = "--csv") -> None:
    """Write rows with the columns of the first, atomically. `option` is the option that names the file."""
    check_table(path, list(rows[0]), option)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text_atomically(path, text.getvalue())


def check_table(path: Path, columns: Sequence[str], option: str = "--csv") -> None:
    """Refuse a file that may not be overwritten: one that is not empty and has other first three columns."""
    if not path.is_file():
        return
    begins = f"{','.join(columns[:3])},".encode()
    with path.open("rb") as file:
        if file.read(len(begins)) not in (begins, b""):
            raise RunError(f"{path} holds something else than a table of this kind; name another {option}")


def _row(record: GameRecord, split: Split) -> dict[str, Any]:
    turns = record.turns
    regrets = [turn.regret for turn in turns if turn.regret is not None]
    return {
        "secret": record.secret,
        "split": split.part_of(record.secret),
        "won": None if record.failed else str(record.won).lower(),
        "turns_used": record.turns_used,
        "guesses": " ".join(turn.guess or "-" for turn in turns),
        "marks": " ".join(turn.marks or "-" for turn in turns),
        "outcomes": " ".join(turn.outcome.value for turn in turns),
        "regrets": " ".join("-" if turn.regret is None else repr(turn.regret) for turn in turns),
        "invalid_turns": sum(is_invalid(turn) for turn in turns),
        "malformed_turns": sum(turn.outcome is Outcome.MALFORMED for turn in turns),
        "repeated_turns": sum(turn.repeated for turn in turns),
        "clue_violating_turns": sum(turn.violates_clues for turn in turns),
        "mean_regret": sum(regrets) / len(regrets) if regrets else None,
        "stop_reason": record.stop_reason,
        "error": record.error,
    }
