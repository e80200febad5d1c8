"""Laws of word lists: what is embedded, what is read, what is refused, and how secrets are split."""

import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.words import PROMPT_WORDS, WordList, WordListError, load_words, read_word_list
from wordle_rl.words.split import Split, split_secrets

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "src" / "wordle_rl" / "words" / "embedded"
SCOWL = Path("/usr/share/dict/scowl")

ANSWERS = ("abide", "crane", "speed")

five_letters = st.text(alphabet="abcdez", min_size=5, max_size=5)


def write_pair(directory: Path, answers: str | bytes, guesses: str | bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (("answers.txt", answers), ("guesses.txt", guesses)):
        (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def test_default_list_has_its_pinned_size_and_fingerprint() -> None:
    words = load_words()
    assert (words.name, words.word_length) == ("default", 5)
    assert (len(words.answers), len(words.guesses)) == (2734, 10949)
    assert words.fingerprint == "1e9e969c052cdaf32860341fc0fc617c6b22fcfa97b267927bf9659373622529"


@pytest.mark.skipif(not SCOWL.is_dir(), reason="the Debian package scowl is not installed")
def test_build_script_reproduces_the_embedded_files(tmp_path: Path) -> None:
    notice = Path("/usr/share/doc/scowl/copyright")
    # Slim images install packages without their documents.
    notice = notice if notice.is_file() else DATA / "SCOWL-NOTICE.txt"
    script = REPOSITORY / "scripts" / "build_wordlist.py"
    command = [sys.executable, str(script), "--out", str(tmp_path / "out"), "--copyright", str(notice)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert result.stdout.startswith("2734 answers, 10949 guesses")
    for path in (tmp_path / "out").iterdir():
        assert path.read_bytes() == (DATA / path.name).read_bytes()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in DATA.glob("*.txt")}


@given(st.data(), st.lists(five_letters, unique=True, min_size=2))
def test_fingerprint_ignores_order_and_sees_every_move_between_lists(data: st.DataObject, words: list[str]) -> None:
    split = data.draw(st.integers(1, len(words) - 1))
    base = WordList("a", tuple(words[:split]), tuple(words))
    shuffled = WordList("b", tuple(data.draw(st.permutations(words[:split]))), tuple(data.draw(st.permutations(words))))
    promoted = WordList("a", tuple(words[: split + 1]), tuple(words))
    assert base == shuffled != promoted
    assert hash(base) == hash(shuffled)


@pytest.mark.parametrize(
    ("answers", "guesses", "named"),
    [
        ((), ("crane",), ""),
        (("crane",), ("crane", "cranes"), "'cranes'"),
        (("crane",), ("crane", "crane"), "'crane'"),
        (("Crane",), ("Crane",), "'Crane'"),
        (("cra-e",), ("cra-e",), "'cra-e'"),
        (("crane", "speed"), ("crane",), "'speed'"),
        (("ab",), ("ab",), "'ab'"),
    ],
)
def test_faulty_values_are_refused(answers: tuple[str, ...], guesses: tuple[str, ...], named: str) -> None:
    with pytest.raises(WordListError, match=f"'toy'.*{named}"):
        WordList("toy", answers, guesses)


@given(st.integers(3, 10), st.data())
def test_any_pair_of_any_length_reads_back(length: int, data: st.DataObject) -> None:
    word = st.text(alphabet=ascii_lowercase, min_size=length, max_size=length)
    guesses = data.draw(st.lists(word, unique=True, min_size=1, max_size=20))
    answers = data.draw(st.lists(st.sampled_from(guesses), unique=True, min_size=1))
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    mark = data.draw(st.sampled_from(["", "\ufeff"]))
    end = newline * data.draw(st.integers(0, 3))
    with tempfile.TemporaryDirectory() as directory:
        write_pair(Path(directory), mark + newline.join(answers) + end, mark + newline.join(guesses) + end)
        words = read_word_list(Path(directory), "any")
    assert words == WordList("any", tuple(answers), tuple(guesses))
    assert (words.word_length, words.name) == (length, "any")


def test_directory_name_or_given_name_names_the_list(tmp_path: Path) -> None:
    assert read_word_list(write_pair(tmp_path / "mine", "crane\nspeed", "crane\nspeed")).name == "mine"
    assert read_word_list(tmp_path / "mine", "given").name == "given"
    assert load_words(str(tmp_path / "mine")) == read_word_list(tmp_path / "mine")


@pytest.mark.parametrize(
    ("answers", "guesses", "place"),
    [
        ("crane\nabide\ncranes", "crane\nabide", "answers.txt:3: 'cranes'"),
        ("crane", "crane\ncat", "guesses.txt:2: 'cat'"),
        ("crane\nspeed\ncrane", "crane\nspeed", "answers.txt:3: 'crane' repeats line 1"),
        ("crane\ncr4ne", "crane", "answers.txt:2: 'cr4ne'"),
        ("crane\n\nspeed", "crane\nspeed", "answers.txt:2: ''"),
        ("crane", "\ufeff\r\n\r\n", "guesses.txt:1: "),
        (b"crane\nspeed\ncaf\xe9s\n", "crane", "answers.txt:3: "),
        ("ab", "ab", "answers.txt:1: 'ab'"),
    ],
)
def test_errors_name_file_and_line(answers: str | bytes, guesses: str, place: str, tmp_path: Path) -> None:
    with pytest.raises(WordListError) as refused:
        read_word_list(write_pair(tmp_path / "bad", answers, guesses))
    assert f"{tmp_path / 'bad'}/{place}" in str(refused.value)
    assert "\n" not in str(refused.value)


def assert_deals_all(split: Split, words: WordList) -> None:
    assert sorted(split.train + split.val + split.test) == sorted(words.answers)
    assert min(len(split.train), len(split.val), len(split.test)) >= 1


@given(st.lists(five_letters, unique=True, min_size=3), st.integers())
def test_split_parts_are_disjoint_and_cover_the_answers(words: list[str], seed: int) -> None:
    word_list = WordList("toy", tuple(words), tuple(words))
    split = split_secrets(word_list, seed)
    assert_deals_all(split, word_list)
    assert split == split_secrets(WordList("again", tuple(reversed(words)), tuple(words)), seed)
    assert (split.seed, split.fingerprint) == (seed, word_list.fingerprint)


def test_every_word_has_one_part_and_a_reason_where_it_is_held_out() -> None:
    split = split_secrets(WordList("toy", ANSWERS, (*ANSWERS, "aahed")), val_size=1, test_size=1)
    parts = {word: split.part_of(word) for word in (*split.train, *split.val, *split.test, "aahed")}
    assert list(parts.values()) == ["train", "val", "test", "outside"]
    assert [split.held_out_reason(word) for word in parts] == [None, "val_secret", "test_secret", None]


def test_default_split_is_pinned_and_holds_out_at_least_300() -> None:
    split = split_secrets(load_words())
    assert_deals_all(split, load_words())
    assert (len(split.train), len(split.val), len(split.test)) == (2298, 136, 300)
    assert split.test[:5] == ("berry", "bebop", "shady", "pygmy", "whisk")
    assert split.val[:3] == ("music", "rupee", "issue")
    assert split.train[:3] == ("least", "abode", "death")


def test_test_secrets_do_not_depend_on_val_size() -> None:
    words = load_words()
    assert split_secrets(words, val_size=10).test == split_secrets(words, val_size=500).test


@pytest.mark.parametrize(("total", "test_size"), [(3, 1), (100, 11), (1499, 164), (1500, 300), (4000, 440)])
def test_default_test_size_is_a_share_below_1500_answers_and_at_least_300_above(total: int, test_size: int) -> None:
    words = tuple(map("".join, islice(product(ascii_lowercase, repeat=3), total)))
    assert len(split_secrets(WordList("toy", words, words)).test) == test_size


# Strict words: some of the test secrets, drawn apart, so that no part of a split changes for them


@pytest.mark.parametrize("seed", [0, 7])
def test_strict_words_change_no_part_of_a_split(default_words, seed: int) -> None:
    plain, strict = split_secrets(default_words, seed), split_secrets(default_words, seed, strict_fraction=0.0366)
    assert replace(strict, strict=()) == plain
    assert plain.strict == ()
    assert len(strict.strict) == 100
    assert set(strict.strict) <= set(strict.test) - PROMPT_WORDS


def test_more_strict_words_hold_the_fewer_and_are_a_fair_sample(default_words) -> None:
    few, many = (split_secrets(default_words, strict_fraction=fraction) for fraction in (0.02, 0.05))
    assert many.strict[: len(few.strict)] == few.strict
    assert many.test[: len(many.strict)] != many.strict, "an order of their own, not the beginning of the test secrets"
    assert split_secrets(default_words, 1, strict_fraction=0.02).strict != few.strict


def test_strict_words_are_found_in_any_text(default_words) -> None:
    split = split_secrets(default_words, strict_fraction=0.01)
    word, other = split.strict[:2]
    text = f"Perhaps {word.upper()}, or <guess>{other}</guess>?"
    assert split.strict_words_in(None, text, split.train[0]) == {word, other}
    assert split.strict_words_in(f"x{word}x", split.train[0]) == frozenset()
    assert split_secrets(default_words).strict_words_in(word) == frozenset()


def test_a_reserved_word_is_listed_but_no_answer_and_not_outside() -> None:
    words = WordList("four", ("abide", "crane", "speed", "trace"), ("abide", "aahed", "crane", "speed", "trace"))
    training = words.reserving(["crane"])
    assert training.answers == ("abide", "speed", "trace")
    assert training.guesses == words.guesses
    assert training.outside == words.outside == ("aahed",)
    assert "crane" in training
    assert training.named.guesses == ("aahed", "abide", "speed", "trace")
    assert training.named.reserved == {"crane"}
    assert words.reserving([]) is words
    assert words.named is words
