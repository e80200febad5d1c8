"""Laws of word lists: what is embedded, what is read, what is refused, and how secrets are split."""

import hashlib
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.words import WordList, WordListError, load_words, read_word_list
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


def lines(*words: str) -> str:
    return "".join(f"{word}\n" for word in words)


def refusal(answers: str | bytes, guesses: str | bytes, directory: Path) -> str:
    with pytest.raises(WordListError) as caught:
        read_word_list(write_pair(directory, answers, guesses))
    message = str(caught.value)
    assert "\n" not in message
    return message


# The embedded list


def test_embedded_files_are_pinned() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in DATA.glob("*.txt")}
    assert found == {
        "answers.txt": "38db890fa88138806034513167a21aa855586750c3c28457a968c75391c20291",
        "guesses.txt": "da985c9f9fadef143f5736e6c3e595e354fc4e7462664aec2ee6c9922c8894dd",
        "SCOWL-NOTICE.txt": "1d7c0128f6c72d2270bf1b271b37a3a21267f759161b68c4dc6c501574c0892e",
    }


def test_default_list_has_its_pinned_size_and_fingerprint() -> None:
    words = load_words()
    assert (words.name, words.word_length, words.notes) == ("default", 5, ())
    assert (len(words.answers), len(words.guesses)) == (2734, 10949)
    assert words.fingerprint == "1e9e969c052cdaf32860341fc0fc617c6b22fcfa97b267927bf9659373622529"


def test_embedded_files_are_written_as_they_are_read() -> None:
    words = load_words()
    assert (DATA / "answers.txt").read_bytes() == lines(*words.answers).encode()
    assert (DATA / "guesses.txt").read_bytes() == lines(*words.guesses).encode()


def test_answers_hold_words_but_not_their_inflections() -> None:
    answers = load_words().answer_index
    assert {"crane", "focus", "bleed", "tweed", "glass"} <= answers.keys()
    assert not {"gurus", "boxes", "plies", "upped", "acted", "oases"} & answers.keys()
    assert all(word in load_words() for word in ("gurus", "boxes", "plies", "upped", "acted", "oases"))


def test_no_blocked_word_is_embedded() -> None:
    blocked = (REPOSITORY / "scripts" / "blocked_word_hashes.txt").read_text(encoding="ascii").split("\n")[1:-1]
    assert len(blocked) > 100
    embedded = {hashlib.sha256(word.encode()).hexdigest() for word in load_words().guesses}
    assert not embedded & set(blocked)


def test_notices_name_every_copyright_holder() -> None:
    notice = (DATA / "NOTICE.md").read_text(encoding="utf-8")
    verbatim = (DATA / "SCOWL-NOTICE.txt").read_text(encoding="utf-8")
    for holder in ("Kevin Atkinson", "J Ross Beresford 1993-1999", "Princeton University", "Geoff Kuenning"):
        assert holder in notice
        assert holder in verbatim


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


# Values


def test_word_list_sorts_and_indexes_its_words() -> None:
    words = WordList("toy", ("speed", "crane"), ("zymic", "speed", "crane"))
    assert words.answers == ("crane", "speed")
    assert words.guesses == ("crane", "speed", "zymic")
    assert words.answer_index == {"crane": 0, "speed": 1}
    assert words.guess_index == {"crane": 0, "speed": 1, "zymic": 2}
    assert "zymic" in words
    assert "ZYMIC" not in words
    assert "aback" not in words


def test_hashes_are_those_of_the_documented_bytes() -> None:
    words = WordList("toy", ("speed", "crane"), ("zymic", "speed", "crane"))
    assert words.answers_sha256 == hashlib.sha256(b"crane\nspeed").hexdigest()
    assert words.guesses_sha256 == hashlib.sha256(b"crane\nspeed\nzymic").hexdigest()
    assert words.fingerprint == hashlib.sha256(b"crane\nspeed\n\ncrane\nspeed\nzymic").hexdigest()


@given(st.data(), st.lists(five_letters, unique=True, min_size=2))
def test_fingerprint_ignores_order_and_sees_every_move_between_lists(data: st.DataObject, words: list[str]) -> None:
    split = data.draw(st.integers(1, len(words) - 1))
    base = WordList("a", tuple(words[:split]), tuple(words))
    shuffled = WordList("b", tuple(data.draw(st.permutations(words[:split]))), tuple(data.draw(st.permutations(words))))
    promoted = WordList("a", tuple(words[: split + 1]), tuple(words))
    assert base == shuffled
    assert hash(base) == hash(shuffled)
    assert base != promoted


def test_word_list_equals_only_word_lists() -> None:
    words = WordList("toy", ("crane",), ("crane",))
    assert words != ("crane",)
    assert len({words, WordList("other", ("crane",), ("crane",))}) == 1


def test_word_list_survives_pickling_and_keeps_its_repr_short() -> None:
    words = load_words()
    assert "crane" in words
    assert words.answer_index["crane"] >= 0
    assert pickle.loads(pickle.dumps(words)) == words
    assert repr(words) == "WordList(name='default')"


@pytest.mark.parametrize(
    ("answers", "guesses", "expected"),
    [
        ((), ("crane",), "has no answers"),
        (("crane",), (), "has no guesses"),
        (("crane",), ("crane", "cranes"), "'cranes' has 6 letters, the list has 5"),
        (("crane",), ("crane", "crane"), "'crane' appears twice"),
        (("Crane",), ("Crane",), "'Crane' is not in lower case"),
        (("cra-e",), ("cra-e",), "other than the letters"),
        (("",), ("",), "blank"),
        (("crane", "speed"), ("crane",), "add to the guesses the answers ['speed']"),
        (("ab",), ("ab",), "has 2 letters, supported are 3 to 10"),
        (("abcdefghijk",), ("abcdefghijk",), "has 11 letters, supported are 3 to 10"),
    ],
)
def test_faulty_values_are_refused(answers: tuple[str, ...], guesses: tuple[str, ...], expected: str) -> None:
    with pytest.raises(WordListError) as caught:
        WordList("toy", answers, guesses)
    assert expected in str(caught.value)
    assert "'toy'" in str(caught.value)


# Reading files


@given(st.integers(3, 10), st.data())
def test_any_pair_of_any_length_reads_back(length: int, data: st.DataObject) -> None:
    word = st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=length, max_size=length)
    guesses = data.draw(st.lists(word, unique=True, min_size=1, max_size=20))
    answers = data.draw(st.lists(st.sampled_from(guesses), unique=True, min_size=1))
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    mark = data.draw(st.sampled_from(["", "\ufeff"]))
    end = newline * data.draw(st.integers(0, 3))
    with tempfile.TemporaryDirectory() as directory:
        write_pair(Path(directory), mark + newline.join(answers) + end, mark + newline.join(guesses) + end)
        words = read_word_list(Path(directory), "any")
    assert words == WordList("any", tuple(answers), tuple(guesses))
    assert (words.word_length, words.notes, words.name) == (length, (), "any")


def test_directory_name_or_given_name_names_the_list(tmp_path: Path) -> None:
    assert read_word_list(write_pair(tmp_path / "mine", lines(*ANSWERS), lines(*ANSWERS))).name == "mine"
    assert read_word_list(tmp_path / "mine", "given").name == "given"
    assert load_words(str(tmp_path / "mine")) == read_word_list(tmp_path / "mine")


def test_capitals_are_folded_and_noted_by_line(tmp_path: Path) -> None:
    directory = write_pair(tmp_path / "caps", lines("crane", "SPEED"), lines("Crane", "speed"))
    words = read_word_list(directory)
    assert words.answers == ("crane", "speed")
    assert words.notes == (
        f"{directory / 'answers.txt'}:2: 'SPEED' folded to 'speed'",
        f"{directory / 'guesses.txt'}:1: 'Crane' folded to 'crane'",
    )


def test_many_folded_lines_are_counted_after_five(tmp_path: Path) -> None:
    shouted = [f"{letter}RANE" for letter in "ABCDEFG"]
    directory = write_pair(tmp_path / "caps", lines(*shouted), lines(*shouted).lower())
    notes = read_word_list(directory).notes
    assert len(notes) == 6
    assert notes[-1] == f"and 2 more in {directory / 'answers.txt'}"


@pytest.mark.parametrize(
    ("answers", "guesses", "expected"),
    [
        (lines("crane", "abide", "cranes"), lines("crane", "abide"), "answers.txt:3: 'cranes' has 6 letters"),
        (lines("crane"), lines("crane", "cat"), "guesses.txt:2: 'cat' has 3 letters, the list has 5"),
        (lines("crane", "speed", "crane"), lines("crane", "speed"), "answers.txt:3: 'crane' repeats line 1"),
        (lines("crane"), lines("crane", "CRANE"), "guesses.txt:2: 'CRANE' repeats line 1"),
        (lines("crane", "cr4ne"), lines("crane"), "answers.txt:2: 'cr4ne' has characters other than"),
        (lines("crane", "café!"), lines("crane"), "answers.txt:2: 'café!' has characters other than"),
        (lines("crane", " speed"), lines("crane"), "answers.txt:2: ' speed' has characters other than"),
        (lines("crane", "", "speed"), lines("crane", "speed"), "answers.txt:2: '' is a blank line"),
        (lines("crane", "speed"), lines("crane"), "answers.txt:2: 'speed': add to"),
        ("", lines("crane"), "answers.txt:1: the file is empty"),
        (lines("crane"), "\ufeff\r\n\r\n", "guesses.txt:1: the file is empty"),
        (b"crane\nspeed\ncaf\xe9s\n", lines("crane"), "answers.txt:3: not UTF-8"),
        (lines("crane"), "crane\n".encode("utf-16"), "guesses.txt:1: not UTF-8"),
        (lines("ab"), lines("ab"), "answers.txt:1: 'ab' has 2 letters, supported are 3 to 10"),
        (lines("abcdefghijk"), lines("abcdefghijk"), "answers.txt:1: 'abcdefghijk' has 11 letters"),
    ],
)
def test_errors_name_file_and_line(answers: str | bytes, guesses: str | bytes, expected: str, tmp_path: Path) -> None:
    assert f"{tmp_path / 'bad'}/{expected}" in refusal(answers, guesses, tmp_path / "bad")


def test_one_message_shows_five_problems_and_counts_the_rest(tmp_path: Path) -> None:
    message = refusal(lines("crane", "speed", "a", "b"), lines("crane", "speed", *"cdefg"), tmp_path / "bad")
    assert message.count("has 1 letters") == 5
    assert "and 2 more problems" in message


def test_a_directory_without_both_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text("crane\n", encoding="utf-8")
    with pytest.raises(WordListError, match=r"does not hold both answers\.txt and guesses\.txt"):
        read_word_list(tmp_path)


@pytest.mark.parametrize("source", ["no-such-list", "../words", "\N{SNOWMAN}", "~no-such-user/lists"])
def test_unknown_sources_are_refused_with_the_choices(source: str) -> None:
    with pytest.raises(WordListError, match="give default, original, nyt, a directory"):
        load_words(source)


# Splits


def assert_deals_all(split: Split, words: WordList) -> None:
    dealt = split.train + split.val + split.test
    assert len(dealt) == len(set(dealt)) == len(words.answers)
    assert set(dealt) == set(words.answers)
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


def test_split_order_is_that_of_the_documented_hash() -> None:
    words = load_words()
    split = split_secrets(words, 7)

    def rank(word: str) -> int:
        return int(hashlib.sha256(f"{words.fingerprint}:7:{word}".encode()).hexdigest(), 16)

    ranks = [rank(word) for word in split.test + split.val + split.train]
    assert ranks == sorted(ranks)


def test_another_seed_or_list_gives_another_split() -> None:
    words = load_words()
    fewer_guesses = WordList("other", words.answers, words.answers)
    assert set(split_secrets(words, 0).test) != set(split_secrets(words, 1).test)
    assert set(split_secrets(words, 0).test) != set(split_secrets(fewer_guesses, 0).test)


def test_test_secrets_do_not_depend_on_val_size() -> None:
    words = load_words()
    assert split_secrets(words, val_size=10).test == split_secrets(words, val_size=500).test


def test_asked_sizes_are_given() -> None:
    split = split_secrets(load_words(), val_size=7, test_size=11)
    assert (len(split.val), len(split.test)) == (7, 11)


@pytest.mark.parametrize(("total", "test_size"), [(3, 1), (100, 11), (1499, 164), (1500, 300), (4000, 440)])
def test_default_test_size_is_proportional_below_1500_answers_and_at_least_300_above(
    total: int, test_size: int
) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = tuple(f"{letters[n // 676]}{letters[n // 26 % 26]}{letters[n % 26]}" for n in range(total))
    assert len(split_secrets(WordList("toy", words, words)).test) == test_size


@pytest.mark.parametrize(
    "sizes",
    [{"test_size": 0}, {"val_size": 0}, {"val_size": -1}, {"test_size": 2, "val_size": 1}, {"test_size": 99}],
)
def test_a_split_with_an_empty_part_is_refused(sizes: dict[str, int]) -> None:
    words = WordList("toy", ANSWERS, ANSWERS)
    with pytest.raises(WordListError, match="3 answers cannot give"):
        split_secrets(words, **sizes)
    with pytest.raises(WordListError, match="2 answers cannot give 1 test, 1 val"):
        split_secrets(WordList("toy", ANSWERS[:2], ANSWERS))


def test_parts_are_found_by_name() -> None:
    split = split_secrets(load_words())
    assert split.named("held_out") == split.named("test") == split.test
    assert (split.named("train"), split.named("val")) == (split.train, split.val)
    assert split.named("all") == load_words().answers
    with pytest.raises(WordListError, match="no split part 'dev'"):
        split.named("dev")  # type: ignore[arg-type]  # the point of the test: a name from outside the closed set


def test_so_many_secrets_of_each_part() -> None:
    split = split_secrets(load_words())
    assert split.of_each_part(0) == [*split.train, *split.val, *split.test]
    assert split.of_each_part(2) == [*split.train[:2], *split.val[:2], *split.test[:2]]
