"""Read the games of runs from their directories while they grow.

A source is a file of games: `games` (sample games of training), `eval/NAME`, `traces`. Complete lines are read from a
byte offset on, so that a reader that remembers its offset gets only what is new. The id of a game is its offset in a
file of lines, or its number in an evaluation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.strata import STRATA_FILE
from wordle_rl.runs import (
    CHOICE_FILE,
    CONTROLS,
    RunError,
    is_number,
    is_run,
    parse_json,
    read_object,
    stages_at,
)

CHUNK_BYTES = 1 << 20
"""Most bytes of lines to send at once; a longer line is sent alone."""
TAIL_BYTES = 16 << 20
"""Read only this many bytes at the end of a longer file."""
_NUM_METRICS = 200
_METRICS_BYTES = 1 << 18
_LINES = {"games": ("games.jsonl", "sample games of training"), "traces": ("traces.jsonl", "teacher games")}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """A file of games."""

    id: str
    label: str
    path: Path

    @property
    def has_lines(self) -> bool:
        """True for a file that grows line by line."""
        return self.id in _LINES

    def summary(self) -> Json:
        """Describe the file; the result changes when the file does."""
        stat = self.path.stat()
        return {"id": self.id, "label": self.label, "size": stat.st_size, "version": version_of(self.path)}


def find_runs(directory: Path) -> dict[str, Path]:
    """Find run directories by name, newest first: the directory itself if it is a run, otherwise those in it."""
    if _holds_games(directory):
        return {directory.resolve().name: directory}
    if not directory.is_dir():
        return {}
    found = [path for path in directory.iterdir() if path.is_dir() and _holds_games(path)]
    return {path.name: path for path in sorted(found, key=_newest, reverse=True)}


def sources_of(run: Path) -> dict[str, Source]:
    """List the sources of a run by id; evaluations of the last training stage come first."""
    found = [Source(name, label, run / file) for name, (file, label) in _LINES.items() if (run / file).is_file()]
    evaluations = {path.stem: path for path in (run / "eval").glob("*.json")}
    last_first = [name for name in (*reversed(stages_at(run)), "base") if name in evaluations]
    for name in (*last_first, *sorted(set(evaluations) - set(last_first))):
        found.append(Source(f"eval/{name}", f"evaluation of {name}", evaluations[name]))
    return {source.id: source for source in found}


def summary_of(run: Path) -> Json:
    """Summarise a run without reading its games."""
    config = _object_or_empty(run / "config.json")
    manifest = _object_or_empty(run / "manifest.json")
    split = manifest.get("split")
    parts = ("train", "val", "test")
    stages = [str(stage) for stage in config.get("stages", ())]
    return {
        "name": run.resolve().name,
        "stages": stages,
        # Only what plays several games of a secret records groups.
        "has_groups": not stages or any(config.get(stage, {}).get("group_size", 1) > 1 for stage in stages),
        "sources": [source.summary() for source in sources_of(run).values()],
        "max_turns": config.get("game", {}).get("max_turns", 6),
        "split": {part: split.get(part, []) for part in parts} if isinstance(split, dict) else {},
        "metrics": last_metrics(run / "metrics.jsonl"),
        "updated": _newest(run),
        "finished": (run / "results.json").is_file(),
    }


def words_source(run: Path) -> str:
    """Return the word list of a run, as `words.source` names it."""
    return str(_object_or_empty(run / "config.json").get("words", {}).get("source", "default"))


def mark_of(run: Path) -> str:
    """Hash the sizes and times of a run's files."""
    names = ["config.json", "manifest.json", "results.json", "metrics.jsonl", STRATA_FILE]
    names += [f"{stage}/{CHOICE_FILE}" for stage in stages_at(run)]
    paths = [run / name for name in names] + sorted((run / CONTROLS).glob("*.json"))
    paths += [source.path for source in sources_of(run).values()]
    facts = [(path.name, stat.st_size, stat.st_mtime_ns) for path in paths if (stat := _stat(path)) is not None]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:20]


def version_of(path: Path) -> str:
    """Return a mark that stays the same while a file of lines grows, and changes if it is replaced."""
    with path.open("rb") as file:
        # The first line never changes while lines are added; a new file in its place has another inode.
        first = file.read(512).partition(b"\n")[0]
    return hashlib.sha256(first + str(path.stat().st_ino).encode()).hexdigest()[:16]


def read_lines(path: Path, after: int) -> Json:
    """Read games from a file of lines, from an offset on; 0: the newest TAIL_BYTES.

    Return `{"games", "next", "size", "skipped", "faults"}`: rows with their `id`, the next offset, size of the file,
    the bytes skipped at its beginning, and messages about invalid lines.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        skipped = 0
        if not after and size > TAIL_BYTES:
            file.seek(size - TAIL_BYTES)
            # The tail begins inside a line; the rest of it is skipped with the bytes before.
            skipped = size - TAIL_BYTES + len(file.readline())
        file.seek(min(max(after, skipped), size))
        offset = file.tell()
        games: list[Json] = []
        faults: list[str] = []
        start = offset
        # A last line without a newline is still being written: the next call reads it whole.
        while offset - start < CHUNK_BYTES and (line := file.readline()).endswith(b"\n"):
            try:
                # NaN is no JSON, and the browser's parser would refuse the whole answer for it.
                row = json.loads(line.decode(), parse_constant=lambda _: None)
                games.append({"id": offset, **_checked(row)})
            except RecursionError:
                faults.append(f"{path.name}, byte {offset}: is nested too deeply")
            except ValueError as error:
                faults.append(f"{path.name}, byte {offset}: {error}")
            offset += len(line)
    return {"games": games, "next": offset, "size": size, "skipped": skipped, "faults": faults}


def read_evaluation(path: Path) -> Json:
    """Read all games of an evaluation, in the form of `read_lines` with a `player`."""
    stored = read_object(path)
    records = stored.get("records")
    if not isinstance(records, list):
        raise RunError(f"{path} is not an evaluation: it has no records; evaluate again")
    games: list[Json] = []
    faults: list[str] = []
    for number, record in enumerate(records):
        try:
            games.append({"id": number, **_checked(record)})
        except ValueError as error:
            faults.append(f"{path.name}, game {number}: {error}")
    return {
        "games": games, "next": 0, "size": 0, "skipped": 0, "faults": faults, "player": str(stored.get("player", "")),
    }  # fmt: skip


def games_of(source: Source, after: int = 0) -> Json:
    """Read games of a source; `after` is an offset in a file of lines."""
    return read_lines(source.path, after) if source.has_lines else read_evaluation(source.path)


def every_game(source: Source) -> Iterator[Json]:
    """Yield all games of a source, within TAIL_BYTES."""
    after, ended = 0, False
    while not ended:
        chunk = games_of(source, after)
        yield from chunk["games"]
        ended = not source.has_lines or chunk["next"] == after
        after = chunk["next"]


def _checked(row: object) -> Json:
    # The row of a game, as the page relies on it.
    GameRecord.from_row(row)
    assert isinstance(row, dict)
    return row


def last_metrics(path: Path) -> list[Json]:
    """Read the numbers in the last rows of metrics.jsonl, which can be incomplete while it is being written."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _METRICS_BYTES))
        lines = file.read().split(b"\n")
    rows = []
    for line in lines[-_NUM_METRICS - 1 : -1]:
        try:
            row = parse_json(line)
        except ValueError:  # the first line can begin in the middle; the report names damaged lines
            continue
        if isinstance(row, dict):
            rows.append({name: value for name, value in row.items() if name == "stage" or is_number(value)})
    return rows


def _object_or_empty(path: Path) -> Json:
    return read_object(path) if path.is_file() else {}


def _holds_games(path: Path) -> bool:
    return is_run(path) or (path / "games.jsonl").is_file() or any((path / "eval").glob("*.json"))


def _newest(run: Path) -> float:
    paths = (run / "metrics.jsonl", run / "games.jsonl", run / "results.json", run / "config.json", run / "eval")
    return max((stat.st_mtime for path in paths if (stat := _stat(path)) is not None), default=0.0)


def _stat(path: Path) -> Any:
    return path.stat() if path.exists() else None
