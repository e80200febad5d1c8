"""Laws of imported data: every board is marked again, every odd row is counted, no held-out secret comes in."""

import json
from pathlib import Path

import pytest
from training_fixtures import rows

from wordle_rl.data.external import import_rows
from wordle_rl.game import score_guess
from wordle_rl.prompt import Prompter
from wordle_rl.words.split import split_secrets

SIGNS = {"G": "✓", "Y": "-", "X": "x"}


def written(secret: str, *guesses: str) -> str:
    """A history as the published data set writes it."""
    history = []
    for guess in guesses:
        signs = zip(guess.upper(), score_guess(secret, guess), strict=True)
        history.append([guess.upper(), " ".join(f"{letter}({SIGNS[mark]})" for letter, mark in signs)])
    return repr(history)


@pytest.fixture
def take(small_words, tmp_path: Path):
    """Import rows, given as dicts, through a file of some kind; what was counted and what was written."""
    split = split_secrets(small_words)

    def run(given: list[object], form: str, name: str = "data.jsonl") -> tuple[dict, list[dict]]:
        path = tmp_path / name
        if path.suffix == ".jsonl":
            path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in given))
        elif path.suffix == ".csv":
            import csv

            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, fieldnames=list(given[0]))
                writer.writeheader()
                writer.writerows(given)
        else:
            from pyarrow import Table
            from pyarrow.parquet import write_table

            write_table(Table.from_pylist(given), path)
        counts = import_rows(path, tmp_path / "out.jsonl", form, small_words, split, Prompter())
        return counts, rows(tmp_path / "out.jsonl")

    return run


@pytest.fixture
def train(small_words) -> tuple[str, ...]:
    return split_secrets(small_words).train


def row(secret: str, history: object) -> dict[str, object]:
    return {"prompt": "p", "word_list": "w", "past_guess_history": history, "secret": secret.upper()}


def state(secret: str, *guesses: str) -> dict[str, object]:
    return {"secret": secret, "turns": [{"guess": g, "marks": score_guess(secret, g), "given": True} for g in guesses]}


@pytest.mark.parametrize("name", ["data.jsonl", "data.csv", "data.parquet"])
def test_boards_come_in_from_every_kind_of_file(name: str, take, train) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    a, b, c = train[:3]
    given = [row(a, written(a, b, c)), row(b, written(b)), row(c, written(c, a))]
    counts, found = take(given, "grpo", name)
    assert found == [state(a, b, c), state(b), state(c, a)]
    assert (counts["rows"], counts["skipped"]) == (3, {})


def test_histories_are_taken_however_they_are_written(take, train) -> None:
    a, b = train[:2]
    marks = score_guess(a, b)
    histories = [
        [[b, marks]],
        [{"guess": b, "feedback": marks}],
        [{"guess": b, "marks": " ".join(marks.lower())}],
        json.dumps([[b, marks]]),
        repr([(b, marks)]),
        [[b, "".join({"G": "🟩", "Y": "🟨", "X": "⬜"}[mark] for mark in marks)]],
    ]
    counts, found = take([row(a, history) for history in histories], "grpo")
    assert counts["skipped"] == {}
    assert found == [state(a, b)] * len(histories)
    assert take([row(a, ""), row(a, "[]"), row(a, [])], "grpo")[1] == [state(a)] * 3


def test_odd_rows_are_counted_by_reason(take, train, small_words) -> None:
    a, b, c = train[:3]
    split = split_secrets(small_words)
    wrong = "".join("X" if mark == "G" else "G" for mark in score_guess(a, b))
    odd = {
        "no_row": ["{", "[1]"],
        "missing_field": [{"secret": a}, {"past_guess_history": []}, row("b4d", [])],
        "unlisted_secret": [row("zzzzz", []), row("word", [])],
        "val_secret": [row(split.val[0], [])],
        "test_secret": [row(split.test[0], [])],
        "unreadable_history": [
            row(a, "[["), row(a, "__import__('os')"), row(a, "7"), row(a, "{[]: 1}"), row(a, ["x"]), row(a, [[b]]),
            row(a, "[" * 5000), row(a, "-" * 3000 + "1"), row(a, None), row(a, [[b, None]]),
        ],
        "unlisted_guess": [row(a, [["zzzzz", "XXXXX"]]), row(a, [["", ""]])],
        "unreadable_marks": [row(a, [[b, "GGGG"]]), row(a, [[b, "G(?)"]]), row(a, [[b, "good"]])],
        "wrong_marks": [row(a, [[b, wrong]])],
        "plays_on_after_win": [row(a, [[a, "GGGGG"], [b, score_guess(a, b)]])],
        "too_many_turns": [row(a, written(a, *[b, c] * 3))],
    }  # fmt: skip
    counts, found = take([row(a, []), *(one for given in odd.values() for one in given)], "grpo")
    assert found == [state(a)]
    assert counts["skipped"] == {reason: len(given) for reason, given in odd.items()}
    assert list(counts["skipped"]) == sorted(odd)


CHAT = "<|im_start|>system\nrules<|im_end|>\n<|im_start|>user\nplay<|im_end|>\n<|im_start|>assistant\n"


def test_instructions_become_messages(take, train) -> None:
    a = train[0]
    reply = f"<think>hm</think>\n<guess>{a}</guess>"
    given = [
        {"instruction": "play", "output": f"{reply}<|im_end|>\n"},
        {"instruction": CHAT, "output": reply},
        {"instruction": CHAT + "Let me think.\n<think>", "output": f"hm</think>\n<guess>{a}</guess></s>"},
        {"instruction": CHAT + f"<guess>{a}</guess><|im_end|>\n" + CHAT[CHAT.index("<|im_start|>user") :],
         "output": reply},
    ]  # fmt: skip
    counts, found = take(given, "instruction")
    assert counts["skipped"] == {}
    plain = [{"role": "user", "content": "play"}, {"role": "assistant", "content": reply}]
    system = {"role": "system", "content": "rules"}
    assert [one["messages"] for one in found[:3]] == [plain, [system, *plain], [system, *plain]]
    assert [m["role"] for m in found[3]["messages"]] == ["system", "user", "assistant", "user", "assistant"]


def test_odd_instructions_are_counted_by_reason(take, train, small_words) -> None:
    split = split_secrets(small_words)
    good = f"<guess>{train[0]}</guess>"
    odd = {
        "missing_field": [{"output": good}, {"instruction": "i", "output": 3}, {"instruction": " ", "output": good}],
        "output_no_guess": [{"instruction": "i", "output": "crane"}],
        "output_several_guesses": [{"instruction": "i", "output": good * 2}],
        "unlisted_guess": [{"instruction": "i", "output": "<guess>zzzzz</guess>"}],
        "test_secret": [
            {"instruction": "i", "output": f"<guess>{split.test[0]}</guess>"},
            {"instruction": "i", "output": good, "secret": split.test[0]},
            {"instruction": "i", "output": good, "secret": None, "answer": split.test[0]},
            {"instruction": "i", "output": good, "secret": "", "answer": 7, "word": split.test[0]},
        ],
        "val_secret": [{"instruction": "i", "output": good, "answer": split.val[0].upper()}],
        "unreadable_instruction": [
            {"instruction": "<|im_start|>tool\nx<|im_end|>", "output": good},
            {"instruction": "<|im_start|>tool\nx<|im_end|>\n<|im_start|>user\nplay<|im_end|>", "output": good},
            {"instruction": "<|im_start|>", "output": good},
            {"instruction": "<|im_start|>user\nx<|endoftext|><|im_end|>", "output": good},
        ],
    }
    sound = {"instruction": "i", "output": good}
    counts, found = take([*(one for given in odd.values() for one in given), sound], "instruction")
    assert (len(found), counts["skipped"]) == (1, {reason: len(given) for reason, given in sorted(odd.items())})


@pytest.mark.parametrize("given", [[], [{"secret": "crane"}, {"secret": "crane"}]])
def test_without_a_usable_row_nothing_is_written(given, cli, word_directory, tmp_path: Path) -> None:
    path, out = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in given))
    command = ("dataset", path, "--out", out, "--words", word_directory, "--rows", "grpo")
    why = "2 missing_field" if given else "it is empty"
    code, printed, err = cli(*command)
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert f"{path} has no usable row ({why})" in err
    assert [*tmp_path.iterdir()] == [path]
    out.write_text(json.dumps({"messages": []}))
    assert cli(*command)[0] == 2
    assert out.read_text() == json.dumps({"messages": []}), "earlier rows stay"


@pytest.mark.parametrize("spelling", ["data.jsonl", "below/../data.jsonl", "link.jsonl"])
def test_the_file_that_is_read_is_never_written(spelling: str, cli, word_directory, split, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(row(split.train[0], [])))
    (tmp_path / "below").mkdir()
    (tmp_path / "link.jsonl").symlink_to(path)
    before = path.read_text()
    given = ("dataset", path, "--out", tmp_path / spelling, "--words", word_directory, "--rows", "grpo")
    code, out, err = cli(*given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(tmp_path / spelling) in err
    assert path.read_text() == before
    assert (tmp_path / "link.jsonl").is_symlink()


@pytest.mark.parametrize(
    "content", [b"dear diary\n", b'{"secret":"crane","turns":[{"guess":"slate"}]}\n', b"\xff\xfe\x00", b"\n"]
)
def test_rows_replace_earlier_rows_and_nothing_else(content: bytes, cli, word_directory, split, tmp_path: Path) -> None:
    path, out = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    path.write_text(
        json.dumps(row(split.train[0], []) | {"instruction": "i", "output": f"<guess>{split.train[0]}</guess>"})
    )
    out.write_bytes(content)
    command = ("dataset", path, "--out", out, "--words", word_directory, "--rows")
    code, _, err = cli(*command, "grpo")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{out} holds something else than rows of this kind; name another --out" in err
    assert out.read_bytes() == content
    out.write_bytes(b"")
    assert [cli(*command, form)[0] for form in ("grpo", "instruction", "grpo")] == [0, 0, 0]
    assert rows(out) == [state(split.train[0])]
