"""Laws of rows made elsewhere: an odd row is told by its reason, no held-out secret comes in, no other file goes."""

import json
from collections import Counter
from pathlib import Path

import pytest
from training_fixtures import rows

from wordle_rl.data.external import chat_traces
from wordle_rl.data.game_record import GameRecord
from wordle_rl.prompt import Prompter
from wordle_rl.runs import write_jsonl
from wordle_rl.words.split import split_secrets


@pytest.fixture
def take(small_words, tmp_path: Path):
    """Convert rows through a file; what was counted and what was left."""

    def run(given: list[object]) -> tuple[Counter[str], list[GameRecord]]:
        write_jsonl(tmp_path / "data.jsonl", given)
        found = list(chat_traces(tmp_path / "data.jsonl", small_words, Prompter()))
        return Counter(one for one in found if isinstance(one, str)), [one for one in found if not isinstance(one, str)]

    return run


@pytest.fixture
def train(small_words) -> tuple[str, ...]:
    return split_secrets(small_words).train


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
    skipped, found = take(given)
    assert not skipped
    plain = [{"role": "user", "content": "play"}, {"role": "assistant", "content": reply}]
    system = {"role": "system", "content": "rules"}
    assert [[*one.messages] for one in found[:3]] == [plain, [system, *plain], [system, *plain]]
    assert [m["role"] for m in found[3].messages] == ["system", "user", "assistant", "user", "assistant"]


def test_odd_instructions_are_counted_by_reason(take, train) -> None:
    good = f"<guess>{train[0]}</guess>"
    odd = {
        "missing_field": [{"output": good}, {"instruction": "i", "output": 3}, {"instruction": " ", "output": good}],
        "output_no_guess": [{"instruction": "i", "output": "crane"}],
        "output_several_guesses": [{"instruction": "i", "output": good * 2}],
        "unlisted_guess": [{"instruction": "i", "output": "<guess>zzzzz</guess>"}],
        "unreadable_instruction": [
            {"instruction": "<|im_start|>tool\nx<|im_end|>", "output": good},
            {"instruction": "<|im_start|>tool\nx<|im_end|>\n<|im_start|>user\nplay<|im_end|>", "output": good},
            {"instruction": "<|im_start|>", "output": good},
            {"instruction": "<|im_start|>user\nx<|endoftext|><|im_end|>", "output": good},
        ],
    }
    sound = {"instruction": "i", "output": good}
    skipped, found = take([*(one for given in odd.values() for one in given), sound])
    assert (len(found), skipped) == (1, {reason: len(given) for reason, given in odd.items()})


@pytest.mark.parametrize(
    "named", [{"secret": "S"}, {"secret": None, "answer": "s"}, {"secret": "", "answer": 7, "word": "s"}]
)
def test_the_first_field_that_names_a_word_is_the_secret(named: dict, take, train) -> None:
    first, other = train[:2]
    fields = {name: {"S": other.upper(), "s": other}.get(value, value) for name, value in named.items()}
    [game] = take([{"instruction": "i", "output": f"<guess>{first}</guess>", **fields}])[1]
    assert game.secret == other


def row(secret: str) -> dict[str, object]:
    return {"secret": secret, "past_guess_history": []}


def test_without_a_usable_row_nothing_is_written(cli, word_directory, split, tmp_path: Path) -> None:
    path, out = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    command = ("dataset", path, "--out", out, "--words", word_directory, "--rows", "grpo")
    for given in ([], [row(split.test[0])] * 2):
        write_jsonl(path, given)
        code, printed, err = cli(*command)
        assert (code, printed, err.count("\n")) == (2, "", 1)
        assert str(path) in err
        assert [*tmp_path.iterdir()] == [path]
    earlier = json.dumps({"secret": "crane", "turns": []})
    out.write_text(earlier)
    assert cli(*command)[0] == 2
    assert out.read_text() == earlier, "earlier rows stay"


@pytest.mark.parametrize("spelling", ["below/../data.jsonl", "link.jsonl"])
def test_the_file_that_is_read_is_never_written(spelling: str, cli, word_directory, split, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    write_jsonl(path, [row(split.train[0])])
    (tmp_path / "below").mkdir()
    (tmp_path / "link.jsonl").symlink_to(path)
    before = path.read_text()
    given = ("dataset", path, "--out", tmp_path / spelling, "--words", word_directory, "--rows", "grpo")
    code, out, err = cli(*given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert path.read_text() == before
    assert (tmp_path / "link.jsonl").is_symlink()


@pytest.mark.parametrize(
    "content", [b"dear diary\n", b'{"secret":"crane","turns":[{"guess":"slate"}]}\n', b"\xff\xfe\x00", b"\n"]
)
def test_rows_replace_earlier_rows_and_nothing_else(content: bytes, cli, word_directory, split, tmp_path: Path) -> None:
    path, out = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    write_jsonl(path, [row(split.train[0])])
    out.write_bytes(content)
    command = ("dataset", path, "--out", out, "--words", word_directory, "--rows", "grpo")
    code, _, err = cli(*command)
    assert (code, err.count("\n")) == (2, 1)
    assert str(out) in err
    assert out.read_bytes() == content
    out.write_bytes(b"")
    assert [cli(*command)[0] for _ in range(2)] == [0, 0]
    assert rows(out) == [{"secret": split.train[0], "turns": []}]
