"""Files beside traces: a record of the settings of games that cost money, and one CSV per secret."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from wordle_rl.config.base import ConfigError
from wordle_rl.data.game_record import GameNotes, GameRecord, TurnNotes, TurnRecord, read_traces
from wordle_rl.game import Outcome
from wordle_rl.runs import RunError, read_object, write_json, write_text_atomically
from wordle_rl.runs.foreign_text import spreadsheet_cell, without_quote

COLUMNS = (
    "word", "seed", "model", "won", "turn", "reply", "thinking", "guess", "marks", "outcome", "costs_turn", "finish",
    "prompt_tokens", "completion_tokens", "taught",
)  # fmt: skip
"""Columns of `wordle_data_<WORD>.csv`, one row per turn of every finished game. Each row holds the tokens of the whole
game; 0 or a missing column means unknown. Without `taught`, turns that kept the rules are."""
_TOKENS, _OPTIONAL = COLUMNS[-3:-1], COLUMNS[-3:]


class SettingsFile:
    """Settings behind the games of a traces file, by model. Stored as JSON beside it, without address and key."""

    def __init__(self, traces: Path) -> None:
        self.traces = traces
        self.path = traces.with_name(f"{traces.name}.settings.json")
        self._by_model: dict[str, dict[str, Any]] = {}
        if self.path.is_file():
            try:
                self._by_model = {model: dict(asked) for model, asked in read_object(self.path).items()}
            except (ValueError, TypeError):
                raise RunError(f"{self.path} is no record of settings; move it away") from None

    def check(self, model: str, asked: Mapping[str, Any]) -> None:
        """Check that a model's new games have the settings of its stored ones. Games without a record are accepted."""
        before = self._by_model.get(model, {})
        other = [name for name in asked if name in before and before[name] != asked[name]]
        if other:
            pairs = ", ".join(f"{name} {before[name]} there, {asked[name]} here" for name in other)
            raise ConfigError(f"{self.traces} holds games of {model} by other settings ({pairs}); name another --out")

    def game_turns(self) -> int | None:
        """Return the turns that the rules allowed (`game.max_turns`), or None if not recorded."""
        recorded = (asked.get("game.max_turns") for asked in self._by_model.values())
        found = sorted({turns for turns in recorded if isinstance(turns, int) and turns > 0})
        if len(found) > 1:
            either = " or ".join(map(str, found))
            raise ConfigError(
                f"{self.path} records games of {either} guesses; choose what the prompts state with --game-turns"
            )
        return found[0] if found else None

    def keep(self, model: str, asked: Mapping[str, Any]) -> None:
        """Store the settings of a model's games."""
        if self._by_model.get(model) != asked:
            self._by_model[model] = dict(asked)
            write_json(self.path, self._by_model)


def read_games(path: Path) -> Iterator[GameRecord]:
    """Read teacher games from a traces file, or from a directory of `wordle_data_<WORD>.csv`.

    Raises:
        RunError: If there are none, or a line is not a trace; the message names file and line.
    """
    if not path.is_dir():
        yield from read_traces(path)
        return
    files = sorted(path.glob("wordle_data_*.csv"))
    if not files:
        own = path / "traces.jsonl"
        fix = f"name {own}" if own.is_file() else "name a traces file, or a directory made with --csv"
        raise RunError(f"{path} holds no wordle_data_<WORD>.csv; {fix}")
    for file in files:
        yield from _read_csv(file)


def write_csv_files(path: Path, directory: Path) -> int:
    """Write `wordle_data_<WORD>.csv` for every secret of a traces file. Return their number."""
    games: dict[str, list[GameRecord]] = defaultdict(list)
    for trace in read_traces(path) if path.is_file() else ():
        if trace.error is None:
            games[trace.secret].append(trace)
    for word, traces in games.items():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)  # unquoted, a lone \r would end a row
        writer.writerow(COLUMNS)
        for trace in sorted(traces, key=lambda trace: (trace.notes.teacher, trace.notes.seed)):
            writer.writerows(map(spreadsheet_cell, row) for row in _csv_rows(trace))
        write_text_atomically(directory / f"wordle_data_{word.upper()}.csv", text.getvalue())
    return len(games)


def _csv_rows(trace: GameRecord) -> Iterator[tuple[Any, ...]]:
    notes = trace.notes
    for number, turn in enumerate(trace.turns, start=1):
        game = (trace.secret, notes.seed, notes.teacher, int(trace.won), number)
        said = (turn.reply, turn.thinking, turn.guess, turn.marks)
        tokens = (notes.prompt_tokens, notes.completion_tokens)
        yield (*game, *said, turn.outcome.value, int(turn.costs_turn), turn.notes.finish, *tokens, int(turn.taught))


MAX_FIELD_CHARACTERS = 16 << 20
"""A longer CSV field is refused."""


def wide_csv(file: TextIO) -> csv.DictReader[str]:
    """Read a CSV whose fields may hold whole conversations, up to `MAX_FIELD_CHARACTERS`."""
    csv.field_size_limit(MAX_FIELD_CHARACTERS)
    return csv.DictReader(file)


def _read_csv(path: Path) -> Iterator[GameRecord]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = wide_csv(file)
        try:
            if missing := [name for name in COLUMNS if name not in (*_OPTIONAL, *(reader.fieldnames or ()))]:
                raise RunError(f"{path} lacks the column {missing[0]!r}; make it with `wordle-rl traces --csv`")
            plain = ({name: without_quote(cell) for name, cell in row.items()} for row in reader)
            for turns in _games_of(plain):
                first = turns[0]
                prompt, completion = (int(first.get(name) or 0) for name in _TOKENS)
                board = tuple(_turn_of(row) for row in turns)
                notes = GameNotes(first["model"], int(first["seed"]), prompt, completion)
                yield GameRecord(first["word"], board, notes=notes)
        except RunError:  # a ValueError too, but it names file and fix already
            raise
        except (ValueError, TypeError, csv.Error) as error:
            raise RunError(f"{path}:{reader.line_num} is no turn of a game ({error})") from None


def _games_of(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    # Turn 1 starts a new game, even with the word, seed and model of the last one.
    game: list[dict[str, Any]] = []
    for row in rows:
        if game and (int(row["turn"]) == 1 or any(row[name] != game[0][name] for name in ("word", "seed", "model"))):
            yield game
            game = []
        game.append(row)
    if game:
        yield game


def _turn_of(row: dict[str, Any]) -> TurnRecord:
    outcome = Outcome(row["outcome"])
    return TurnRecord(
        row["guess"] or None,
        row["marks"] or None,
        bool(int(row.get("taught") or not outcome.broke_rules)),
        outcome=outcome,
        costs_turn=bool(int(row["costs_turn"])),
        thinking=row["thinking"],
        reply=row["reply"],
        notes=TurnNotes(finish=row["finish"]),
    )
