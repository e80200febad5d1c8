"""Laws of lists in files: one file is answers and guesses, two are each, a CSV says by its header what it holds."""

from pathlib import Path

import pytest

from wordle_rl.words import WordListError, import_words, load_words

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


def test_two_files_are_a_list_and_what_is_folded_or_completed_is_noted(tmp_path: Path) -> None:
    put(tmp_path, "solutions.txt", "Abide\nspeed\ncrane\n")
    put(tmp_path, "allowed.csv", "id,word\n1,aahed\n2,zymic\n")
    words = load_words(f"{tmp_path}/solutions.txt,{tmp_path}/allowed.csv")
    assert (words.answers, words.guesses, words.name) == (ANSWERS, GUESSES, "solutions")
    assert [note.partition(": ")[2] for note in words.notes] == [
        "'Abide' folded to 'abide'",
        "added 3 missing answers",
    ]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("faulty.txt", "abide\ncran\n", r"faulty\.txt:2: 'cran' has 4 letters"),
        ("twice.csv", "word\nabide\nabide\n", r"twice\.csv:3: 'abide' repeats line 2"),
        ("columns.csv", "1,abide\n2,speed\n", r"columns\.csv "),
        ("empty.csv", "word\n", r"empty\.csv: "),
        ("gap.csv", "word,rank\nabide,1\n,2\n", r"gap\.csv:3: '' is a blank line"),
        ("nothing.txt", "", r"nothing\.txt:1: the file is empty"),
    ],
)
def test_a_fault_names_file_and_line_once(name: str, text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(WordListError, match=told) as refused:
        load_words(str(put(tmp_path, name, text)))
    assert str(refused.value).count("gap.csv:3") <= 1


def test_a_file_is_imported_under_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    put(tmp_path, "mine.csv", FILES["both.csv"][0])
    imported = import_words(str(tmp_path / "mine.csv"))
    assert (imported.name, load_words("mine")) == ("mine", imported)


def test_every_command_takes_a_file(cli, tmp_path: Path) -> None:
    path = put(tmp_path, "words.txt", "\n".join(ANSWERS))
    code, out, err = cli("solve", "--words", path, "--secret", "crane", "--json")
    assert (code, err) == (0, "")
    assert '"words": "words"' in out
