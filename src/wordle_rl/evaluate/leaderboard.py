"""The board: win rates of players, each with what it was measured under, in a JSON file that others can add to."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from wordle_rl.evaluate.figures import PART_NAMES
from wordle_rl.evaluate.records import Evaluation, EvaluationError
from wordle_rl.runs import read_object, write_json
from wordle_rl.runs.progress import in_percent
from wordle_rl.runs.provenance import hardware

COLUMNS = (
    "player", "words", "fingerprint", "split", "games", "wins", "win_rate", "low", "high", "dictionary", "turns",
    "hard_mode", "play", "boards", "command", "hardware", "date", "source",
)  # fmt: skip
"""Fields of a row, all of them in each."""


def row_of(evaluation: Evaluation, words: str, split: str) -> dict[str, Any]:
    """Return the row of an evaluation that was made by this call of the command, today and on this machine."""
    figures, rules, machine = evaluation.figures(), evaluation.rules, hardware()
    temperature = evaluation.conditions.temperature
    play = ["greedy" if not temperature else f"T = {temperature:g}"] if temperature is not None else []
    play += ["listed words"] if evaluation.constrain != "none" else []
    play += ["lenient reading"] if evaluation.conditions.lenient else []
    named = [machine.get("accelerator"), machine["processor"], f"{machine['cores']} cores"]
    values = (
        evaluation.name, words, evaluation.fingerprint, split, figures.num_games,
        sum(record.won for record in evaluation.records), figures.win_rate, figures.win_rate_low,
        figures.win_rate_high, str(rules.dictionary), rules.max_turns, rules.hard_mode, ", ".join(play),
        evaluation.conditions.boards, shlex.join(["wordle-rl", *sys.argv[1:]]),
        ", ".join(str(part) for part in named if part), f"{date.today()}", None,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def read_board(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a board; none if there is no such file."""
    if not path.exists():
        return []
    rows = read_object(path).get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) and {*row} == {*COLUMNS} for row in rows):
        raise EvaluationError(f"{path} is no board (rows of {', '.join(COLUMNS)}); name another file")
    return rows


def add_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append a row to a board. The same player under the same conditions by the same command is measured anew."""
    new = {"games", "wins", "win_rate", "low", "high", "hardware", "date", "source"}

    def asked(each: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in each.items() if name not in new}

    write_json(path, {"rows": [*(each for each in read_board(path) if asked(each) != asked(row)), dict(row)]})


def table_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a table in Markdown for each list and part of its split, best first."""
    for words, split in dict.fromkeys((row["words"], row["split"]) for row in rows):
        yield from (f"### {PART_NAMES.get(split, split).capitalize()} of the list {words}", "")
        yield "| player | wins, % (95 %) | games | play | rules | measured by | on |"
        yield "|---|---|---|---|---|---|---|"
        chosen = [row for row in rows if (row["words"], row["split"]) == (words, split)]
        for row in sorted(chosen, key=lambda each: -each["win_rate"]):
            interval = f"{in_percent(row['low'])} to {in_percent(row['high'])}"
            rules = [row["dictionary"], f"{row['turns']} turns", *(["hard mode"] if row["hard_mode"] else [])]
            rules += [row["boards"]] if row["boards"] else []
            source = f"; [record]({row['source']})" if row["source"] else ""
            cells = (
                row["player"], f"{in_percent(row['win_rate'])} ({interval})", f"{row['games']:,}", row["play"] or "–",
                ", ".join(rules), f"`{row['command']}`{source}", f"{row['hardware']}, {row['date']}",
            )  # fmt: skip
            yield f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
        yield ""
