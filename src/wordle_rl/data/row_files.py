"""Read rows of other people's files (CSV, JSON lines, parquet, plain lists), local or on the Hugging Face hub.

A source is a path, or a hub data set as OWNER/NAME or OWNER/NAME:SPLIT (default: train). Either may end in `[:N]` for
its first N rows.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from wordle_rl.config.base import ConfigError
from wordle_rl.data.trace_files import wide_csv
from wordle_rl.policy.directory import retries_in_one_line
from wordle_rl.runs import parse_json

Row = dict[str, Any]
Rows = Iterator[Row | None]
"""Rows of a file; None for a line that is not a row."""

_LIMIT = re.compile(r"(?P<source>.+)\[:(?P<limit>\d+)\]")
_DATA_SET = re.compile(r"(?P<name>[\w-][\w.-]*/[\w-][\w.-]*)(?::(?P<split>\w+))?", re.ASCII)
_ROWS_AT_ONCE = 1024


def read_rows(source: Path | str) -> Rows:
    """Read the rows of a source, without blank lines. A hub data set is downloaded to the cache of huggingface_hub.

    Raises:
        ConfigError: If the file or data set is missing, damaged or of an unknown kind.
    """
    text, limit = _parts(source)
    path, data_set = Path(text), _DATA_SET.fullmatch(text)
    files: Sequence[Path] = (path,)
    if data_set is not None and is_data_set(source):
        files = _fetch(data_set["name"], data_set["split"] or "train")
    elif not path.is_file():
        raise ConfigError(f"no file {path}; name an existing one")
    elif path.suffix.lower() not in _READERS:
        raise ConfigError(f"{path} is none of {', '.join(_READERS)}; convert it, or correct its suffix")
    return islice((row for file in files for row in _rows_of(file)), limit)


def is_data_set(source: Path | str) -> bool:
    """Return True if a source names a hub data set, not a file."""
    path = Path(_parts(source)[0])
    is_file = path.exists() or path.suffix.lower() in _READERS
    return not is_file and _DATA_SET.fullmatch(str(path)) is not None


def _parts(source: Path | str) -> tuple[str, int | None]:
    limited = None if Path(source).exists() else _LIMIT.fullmatch(str(source))
    return (limited["source"], int(limited["limit"])) if limited else (str(source), None)


def _rows_of(path: Path) -> Rows:
    try:
        yield from _READERS[path.suffix.lower()](path)
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text; convert it") from None


def _csv_rows(path: Path) -> Rows:
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            yield from wide_csv(file)
        except csv.Error as error:
            raise ConfigError(f"{path} is no CSV ({error})") from None


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if text := line.decode("utf-8" if number else "utf-8-sig").strip():
                yield text


def _jsonl_rows(path: Path) -> Rows:
    for line in _lines(path):
        try:
            row = parse_json(line)
        except ValueError:
            row = None
        yield row if isinstance(row, dict) else None


def _json_rows(path: Path) -> Rows:
    # One JSON array; a string in it is a word.
    try:
        rows = parse_json(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error}); name a .jsonl file if it has one object a line") from None
    if not isinstance(rows, list):
        raise ConfigError(f"{path} holds {type(rows).__name__}, expected an array of rows")
    for row in rows:
        yield {"word": row} if isinstance(row, str) else row if isinstance(row, dict) else None


def _parquet_rows(path: Path) -> Rows:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError:
        raise ConfigError('reading parquet needs pyarrow: pip install "wordle-rl[train]"') from None
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise ConfigError(f"{path} is no parquet file ({' '.join(str(error).split())})") from None


_READERS: dict[str, Callable[[Path], Rows]] = {
    ".parquet": _parquet_rows,
    ".jsonl": _jsonl_rows,
    ".csv": _csv_rows,
    ".json": _json_rows,
    ".txt": lambda path: ({"word": line} for line in _lines(path)),  # a plain list, one word per line
}
"""Readers by suffix. If a data set has several kinds of files, the first kind here is read."""


def _fetch(name: str, split: str) -> list[Path]:
    # Download the files of one split of a data set.
    try:
        from huggingface_hub import HfApi, errors
    except ModuleNotFoundError:
        raise ConfigError('a data set of the hub needs huggingface_hub: pip install "wordle-rl[train]"') from None
    api = HfApi()
    try:
        with retries_in_one_line():
            names = _files_of_split(name, split, api.list_repo_files(name, repo_type="dataset"))
            return [Path(api.hf_hub_download(name, file, repo_type="dataset")) for file in names]
    except errors.RepositoryNotFoundError:
        raise ConfigError(
            f"{name} is neither a file here nor a data set of the hub; check the name, or set HF_TOKEN if it is private"
        ) from None
    except (errors.HTTPError, errors.LocalEntryNotFoundError, ConnectionError) as error:  # type: ignore[attr-defined]
        why = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(
            f"{name} is no file here, and the hub could not be read ({why}); check the name or the network"
        ) from None


def _files_of_split(name: str, split: str, files: Sequence[str]) -> list[str]:
    """Return the data files of a split: those whose path names it, or the only one.

    Examples:
        >>> _files_of_split("me/rows", "train", ["README.md", "data/train-0.parquet", "data/test-0.parquet"])
        ['data/train-0.parquet']
    """
    data = [file for file in files if Path(file).suffix.lower() in _READERS and file != "README.txt"]
    named = [file for file in data if split in re.split(r"[^a-zA-Z0-9]+", file.rpartition(".")[0])]
    found = named or (data if len(data) == 1 and split == "train" else [])
    if not found:
        there = f"its files are {', '.join(sorted(data)[:5])}" if data else f"it has none of {', '.join(_READERS)}"
        raise ConfigError(f"data set {name} has no file of split {split!r}; {there}; name a split as {name}:SPLIT")
    kind = next(suffix for suffix in _READERS if any(file.lower().endswith(suffix) for file in found))
    return sorted(file for file in found if file.lower().endswith(kind))
