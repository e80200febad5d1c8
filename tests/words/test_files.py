"""Laws of lists in files: one file is answers and guesses, two are each, a CSV says by its header what it holds."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refused import refusal

from wordle_rl.words import WordListError, import_words, load_words, read_word_list

ANSWERS, GUESSES = ("abide", "crane", "speed"), ("aahed", "abide", "crane", "speed", "zymic")
FILES = {
    "words.txt": ("abide\nspeed\nCRANE\n", ANSWERS, ANSWERS),
    "words.csv": ("abide\nspeed\ncrane\n", ANSWERS, ANSWERS),
    "column.csv": ("rank,Word,frequency\n1,abide,0.5\n2,speed,0.25\n3,crane,0.125\n", ANSWERS, ANSWERS),
    "both.csv": ("answer,guess\nabide,aahed\nspeed,abide\ncrane,crane\n,speed\n,zymic\n", ANSWERS, GUESSES),
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


def test_a_file_is_imported_under_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    put(tmp_path, "mine.csv", FILES["both.csv"][0])
    imported = import_words(str(tmp_path / "mine.csv"))
    assert (imported.name, load_words("mine")) == ("mine", imported)


# Whatever the bytes: a sound list, or one line that names the file

PIECES = [
    b"crane", b"SLATE", b"slate\r", b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"\x00", b"\xff\xfe", b"cran\xc3\xa9", b" ",
    b"ab", b"abcdefghijk", b"\xe2\x80\xae", b"\xe2\x80\x8b", b"\xd0\xb0", b"\xc5\xbfabcd", b"\xe2\x84\xaaabcd",
    b"\xef\xbd\x83", b"",
]  # fmt: skip
CONTENT = st.one_of(st.lists(st.sampled_from(PIECES), max_size=12).map(b"\n".join), st.binary(max_size=60))


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
