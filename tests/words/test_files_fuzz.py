"""Laws of reading word lists from anybody: whatever the bytes, a sound list or one line that names the file."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refused import refusal

from wordle_rl.words import WordListError
from wordle_rl.words import files as reading
from wordle_rl.words.files import read_word_list

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


def test_a_huge_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 20)
    (tmp_path / "answers.txt").write_text("crane\n")
    (tmp_path / "guesses.txt").write_text("crane\nslate\nabbey\nabide\n")
    with pytest.raises(WordListError, match=r"guesses.txt has 24 bytes"):
        read_word_list(tmp_path)
