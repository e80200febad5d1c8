"""Laws of chat as teacher games: word for word, all replies but those of a prompt learnt, nothing held out."""

import json
import re
from pathlib import Path

import pytest
from training_fixtures import compact

from wordle_rl.chat.masks import mask_picture
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.data.dataset import TracesFromFile, instruction_rows
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.data.readers import OddRowError, game_of, games_of, holds_talk, read_row
from wordle_rl.prompt import Prompter, Shape, Thinking
from wordle_rl.runs import write_jsonl
from wordle_rl.train.example import encode_traces
from wordle_rl.words.split import split_secrets


def reply(word: str) -> dict[str, str]:
    return {"role": "assistant", "content": f"<guess>{word}</guess>"}


def chat(*words: str, **fields: str) -> dict[str, object]:
    talk = [{"role": "system", "content": "rules"}]
    for number, word in enumerate(words):
        talk += [{"role": "user", "content": f"turn {number}"}, reply(word)]
    return {"messages": talk, **fields}


@pytest.fixture
def split(small_words):
    return split_secrets(small_words)


@pytest.fixture
def taken(small_words, split, tmp_path: Path):
    """Read rows through a file, as a run does."""

    def run(*rows: object, **settings: object) -> tuple[TracesFromFile, list[GameRecord]]:
        name = "chat.jsonl"
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        (tmp_path / name).write_text("\n".join(lines))
        asked = TraceSettings(file=tmp_path / name, **settings)
        given = TracesFromFile(small_words, split, asked, GameSettings())
        return given, list(given)

    return run


def test_conversations_are_taken_word_for_word_and_read_back(taken, split) -> None:
    a, b = split.train[:2]
    given, games = taken(chat(b, a))
    assert (given.rejected, given.num_otherwise) == ({}, 1)
    assert [*games[0].messages] == chat(b, a)["messages"]
    assert (games[0].secret, [turn.guess for turn in games[0].turns]) == (a, [b, a])
    assert GameRecord.from_row(json.loads(json.dumps(games[0].to_row()))) == games[0]


CHAT = "<|im_start|>system\nrules<|im_end|>\n<|im_start|>user\nplay<|im_end|>\n<|im_start|>assistant\n"


def test_instructions_become_messages(taken, split) -> None:
    guess = f"<guess>{split.train[0]}</guess>"
    said = f"<think>hm</think>\n{guess}"
    longer = f"{CHAT}{guess}<|im_end|>\n{CHAT[CHAT.index('<|im_start|>user') :]}"
    instructions = {"play": f"{said}<|im_end|>\n", CHAT: said, f"{CHAT}Hm.\n<think>": f"hm</think>\n{guess}</s>"}
    rows = [{"instruction": i, "output": o} for i, o in [*instructions.items(), (longer, said)]]
    given, games = taken(*rows)
    assert not given.rejected
    plain = [{"role": "user", "content": "play"}, {"role": "assistant", "content": said}]
    system = {"role": "system", "content": "rules"}
    assert [[*game.messages] for game in games[:3]] == [plain, [system, *plain], [system, *plain]]
    assert [message["role"] for message in games[3].messages] == ["system", *["user", "assistant"] * 2]


@pytest.mark.parametrize("shape", Shape)
def test_replies_in_a_prompt_that_stands_apart_are_not_learnt(small_words, split, codec, taken, shape) -> None:
    first, second = reply(split.train[0]), reply(split.train[1])
    opening = [{"role": "user", "content": "play"}]
    prompt = [*opening, first, {"role": "user", "content": "5x6"}]
    apart = {"prompt": prompt, "completion": [second]}
    written = [*instruction_rows([*prompt, second])]
    for rows, learnt in [
        ([{"messages": [*prompt, second]}], [first, second]),
        ([apart], [second]),
        ([written[1]], [second]),
        (written, [first, second]),
        ([{"prompt": opening, "completion": [*prompt[1:], second]}], [first, second]),
    ]:
        given, games = taken(*rows)
        assert not given.rejected
        made = encode_traces(games, compact(shape), codec, 1000).examples
        pictures = "".join(mask_picture(codec, each.token_ids, each.loss_mask) for each in made)
        assert re.findall("⟦(.*?)<.end.>⟧", pictures) == [each["content"] for each in learnt]
    with pytest.raises(OddRowError, match="missing_field"):
        read_row({"prompt": [*prompt, second], "completion": []})


def test_the_input_of_an_instruction_is_a_part_of_it(taken, split) -> None:
    guess = f"<guess>{split.train[0]}</guess>"
    board = {"instruction": "Play Wordle.\n", "input": "CRANE -> XXGXG", "output": guess}
    given, games = taken(board, {**board, "input": ""}, {**board, "input": None, "thinking": "vowels"})
    assert not given.rejected
    assert [[message["content"] for message in game.messages] for game in games] == [
        ["Play Wordle.\nCRANE -> XXGXG", guess],
        ["Play Wordle.", guess],
        ["Play Wordle.", f"<think>vowels</think>\n{guess}"],
    ]


def parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


def sharegpt(talk):
    names = {"system": "system", "user": "human", "assistant": "gpt"}
    return {"conversations": [{"from": names[each["role"]], "value": each["content"]} for each in talk]}


@pytest.mark.parametrize(
    "form",
    [
        lambda talk: {"conversations": talk},
        sharegpt,
        lambda talk: {"prompt": talk[:2], "completion": talk[2:]},
        lambda talk: {"messages": [{**each, "content": parts(each["content"])} for each in talk]},
        lambda talk: {"messages": [{**each, "content": parts(*each["content"])} for each in talk]},
    ],
    ids=["conversations", "ShareGPT", "TRL", "parts", "many parts"],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "byte-order mark"])
def test_every_form_of_a_chat_is_read_as_the_same_chat(form, mark, taken, split) -> None:
    talk = chat(*split.train[:2])["messages"]
    given, [game] = taken(mark + json.dumps({**form(talk), "answer": split.train[1]}))
    assert not given.rejected
    assert [*game.messages] == talk
    assert game.secret == split.train[1]


def test_a_prompt_and_its_completion_are_one_reply(taken, split) -> None:
    guess = f"<guess>{split.train[0]}</guess>"
    given, games = taken({"prompt": "play", "completion": f"{guess}<|im_end|>"}, {"prompt": CHAT, "completion": guess})
    assert not given.rejected
    assert [[message["role"] for message in game.messages] for game in games] == [
        ["user", "assistant"],
        ["system", "user", "assistant"],
    ]
    assert all(game.turns[0].reply == guess for game in games)


@pytest.mark.parametrize(
    "row",
    [
        lambda talk: {"conversations": [{"from": "human", "value": "a"}, {"from": "tool", "value": "b"}]},
        lambda talk: {"messages": [talk[0], {"role": "user", "content": [{"type": "image_url"}]}, talk[-1]]},
        lambda talk: {"messages": [talk[0], {"role": "user", "content": []}, talk[-1]]},
    ],
)
def test_a_chat_with_a_part_that_is_no_text_is_counted(row, taken, split) -> None:
    talk = chat(split.train[0])["messages"]
    given, games = taken({"messages": talk}, row(talk))
    assert (len(games), given.rejected) == (1, {"unreadable_messages": 1})


def test_a_file_of_another_form_is_told_by_its_fields(taken) -> None:
    with pytest.raises(ConfigError, match=r"the fields dialogue, label; what is taken: .*conversations.*completion"):
        taken({"dialogue": "…", "label": 1})


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_games_of_ours_are_read_behind_a_byte_order_mark(mark, tmp_path, small_words) -> None:
    secret = small_words.answers[0]
    row = GameRecord(secret, (TurnRecord(secret, "GGGGG"),)).to_row()
    (tmp_path / "traces.jsonl").write_text(mark + json.dumps(row) + "\n" + json.dumps(row), encoding="utf-8")
    assert [game.secret for game in games_of(tmp_path / "traces.jsonl", small_words, Prompter())] == [secret, secret]


@pytest.mark.parametrize(
    "apart",
    [
        {"reasoning_content": "vowels first"},
        {"reasoning": " vowels first\n", "reasoning_content": "vowels first", "tool_calls": []},
        {"thinking": "vowels first", "name": None, "refusal": ""},
    ],
)
def test_thinking_apart_from_a_reply_is_learnt_in_front_of_it(apart, small_words, split) -> None:
    row, prompter = chat(split.train[0]), Prompter(thinking=Thinking.REQUIRED)
    row["messages"][-1] |= apart
    trace = game_of(read_row(row), small_words, prompter)
    said = f"<think>vowels first</think>\n<guess>{split.train[0]}</guess>"
    assert trace.messages[-1] == {"role": "assistant", "content": said}
    assert trace.turns[-1].reply == said


@pytest.mark.parametrize(
    "row",
    [
        lambda talk: {"messages": [{**talk[0], "name": "x"}, *talk[1:]]},
        lambda talk: {"messages": [*talk[:-1], {**talk[-1], "tool_calls": [{"id": "1"}]}]},
        lambda talk: {"messages": [*talk[:-1], {**talk[-1], "weight": 0}]},
        lambda talk: {"messages": [*talk[:-1], {**talk[-1], "thinking": ["x"]}]},
        lambda talk: {"messages": [*talk[:-1], {**talk[-1], "thinking": "x", "reasoning": "y"}]},
        lambda talk: {"messages": [talk[0], {**talk[1], "reasoning": "x"}, talk[2]]},
        lambda talk: {"messages": talk, "tools": [{"type": "function"}]},
        lambda talk: {"messages": talk[1:], "system": "rules"},
        lambda talk: {"instruction": "play", "output": talk[-1]["content"], "history": [["a", "b"]]},
    ],
)
def test_a_row_is_not_learnt_without_a_part_of_its_conversation(row, taken, split) -> None:
    talk = chat(split.train[0])["messages"]
    given, games = taken({"messages": talk}, row(talk))
    assert len(games) == 1
    assert given.rejected == {"unread_field": 1}


@pytest.mark.parametrize(
    "named", [{"secret": "S"}, {"secret": None, "answer": "s"}, {"secret": "", "answer": 7, "word": "s"}]
)
def test_the_first_field_that_names_a_word_is_the_secret(named: dict, taken, split) -> None:
    first, other = split.train[:2]
    _, [game] = taken(chat(first, **{name: {"S": other.upper(), "s": other}.get(v, v) for name, v in named.items()}))
    assert game.secret == other


def test_odd_rows_are_counted_by_reason_and_the_number_is_bounded(taken, split, small_words) -> None:
    a, b = split.train[:2]
    talk, good = chat(a)["messages"], reply(a)["content"]
    odd = {
        "no_row": ["{"],
        "missing_field": [
            {"text": "x"}, {"instruction": "i"}, {"output": good}, {"instruction": "i", "output": 3},
            {"instruction": " ", "output": good},
        ],
        "unreadable_instruction": [
            {"instruction": text, "output": good}
            for text in (
                "<|im_start|>tool\nx<|im_end|>", "<|im_start|>tool\nx<|im_end|>\n<|im_start|>user\nplay<|im_end|>",
                "<|im_start|>", "<|im_start|>user\nx<|endoftext|><|im_end|>", "Hm. <|im_start|>user\nx<|im_end|>",
            )
        ],
        "unreadable_messages": [
            {"messages": "x"}, {"messages": []}, {"messages": talk[:2]}, {"messages": [*talk, reply(b)]},
            {"messages": [{"role": "tool", "content": "x"}, *talk]}, {"messages": [{"role": "user"}, reply(a)]},
        ],
        "output_no_guess": [{"messages": [*talk[:2], {"role": "assistant", "content": a}]}],
        "output_several_guesses": [{"instruction": "i", "output": good * 2}],
        "unlisted_guess": [chat("zzzzz", a)],
        "unlisted_secret": [chat(a, answer="zzzzz")],
        "val_secret": [chat(split.val[0]), chat(a, word=split.val[0])],
        "test_secret": [chat(a, split.test[0])],
    }  # fmt: skip
    given, games = taken(chat(a), *(row for rows in odd.values() for row in rows), chat(b))
    assert [game.secret for game in games] == [a, b]
    assert given.rejected == {reason: len(rows) for reason, rows in odd.items()}
    assert [game.secret for game in given.of_validation()] == [split.val[0], split.val[0]]
    assert len(taken(chat(a), chat(b), num_games=1)[1]) == 1


def test_unchecked_chat_is_learnt_unless_it_names_a_secret_that_is_held_out(taken, split) -> None:
    sky = {"instruction": "What colour is the sky?", "output": "The sky is blue."}
    given, games = taken(
        sky,
        {**sky, "answer": "blue"},
        chat("zzzzz", split.train[0]),
        {**sky, "answer": split.test[0]},
        chat(split.val[0]),
        {"messages": "x"},
        checked=False,
    )
    assert given.rejected == {"test_secret": 1, "val_secret": 1, "unreadable_messages": 1}
    assert [game.secret for game in games] == ["", "blue", split.train[0]]
    assert [message["content"] for message in games[0].messages] == [*sky.values()]
    assert GameRecord.from_row(json.loads(json.dumps(games[0].to_row()))) == games[0]


def test_only_conversations_may_go_unchecked(taken, split) -> None:
    with pytest.raises(ConfigError, match=r"traces\.checked"):
        taken(GameRecord(split.train[0], (TurnRecord(split.train[0], "GGGGG"),)).to_row(), checked=False)


@pytest.mark.parametrize(("drop", "left"), [(False, "aab"), (True, "ab")])
def test_duplicates_are_counted_and_dropped_on_request(drop, left, taken, split) -> None:
    a, b = split.train[:2]
    games = [GameRecord(word, (TurnRecord(word, "GGGGG"),)).to_row() for word in (a, a, b)]
    for rows in ([chat(a), chat(a), chat(b)], games):
        given, found = taken(*rows, drop_duplicates=drop)
        assert [game.secret for game in found] == [{"a": a, "b": b}[each] for each in left]
        assert (given.num_duplicates, given.rejected["duplicate"]) == ((0, 1) if drop else (1, 0))


def test_a_strict_word_in_any_message_leaves_the_row_out(small_words, tmp_path: Path) -> None:
    split = split_secrets(small_words, strict_fraction=0.1)
    rows = [chat(split.train[0]), chat(split.train[1])]
    rows[1]["messages"][1]["content"] = f"not {split.strict[0].upper()}"
    write_jsonl(tmp_path / "chat.jsonl", rows)
    given = TracesFromFile(small_words, split, TraceSettings(file=tmp_path / "chat.jsonl"), GameSettings())
    assert [game.secret for game in given] == [split.train[0]]
    assert given.rejected == {"strict_word": 1}


def test_every_reply_is_trained_on_and_nothing_else(small_words, split, codec) -> None:
    prompter, (a, b) = compact(), split.train[:2]
    talk = [*prompter.opening(), reply(b), {"role": "user", "content": "XXXXX"}, reply(a)]
    trace = game_of(read_row({"messages": talk}), small_words, prompter)
    (example,) = encode_traces([trace], prompter, codec, 1000).examples
    played = GameRecord(a, (TurnRecord(b, "XXXXX"), TurnRecord(a, "GGGGG")))
    (expected,) = encode_traces([played], prompter, codec, 1000).examples
    assert sum(example.loss_mask) == sum(expected.loss_mask) == 2 * len(codec.reply_ids(f"<guess>{a}</guess>"))


def test_what_the_embedded_model_has_no_tokens_for_is_counted(small_words, split, codec) -> None:
    row = chat(split.train[0])
    row["messages"][0]["content"] = "日本"
    found = encode_traces([game_of(read_row(row), small_words, compact())], compact(), codec, 1000)
    assert (found.examples, found.rejected) == ([], {"unwritable": 1})


@pytest.mark.parametrize(
    ("name", "text", "is_chat"),
    [
        ("a.jsonl", json.dumps({"messages": []}), True),
        ("a.csv", "instruction,output\ni,o\n", True),
        ("a.jsonl", "no row\n" + json.dumps({"instruction": "i", "output": "o"}), True),
        ("a.jsonl", json.dumps({"secret": "crane", "turns": [], "messages": [{}]}), False),
        ("a.jsonl", json.dumps({"secret": "crane", "turns": []}), False),
        ("a.jsonl", "", False),
    ],
)
def test_chat_is_told_from_traces_by_its_fields(name: str, text: str, is_chat: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert holds_talk(tmp_path / name) == is_chat
    assert not holds_talk(tmp_path)
    assert not holds_talk(tmp_path / "nothing.jsonl")


def test_columns_of_other_shapes_may_be_there_and_empty(taken, split) -> None:
    """As in a table whose rows came from several files."""
    talk, word = chat(split.train[0])["messages"], split.train[1]
    none = dict.fromkeys(("messages", "conversations", "prompt", "completion", "instruction", "output", "turns"))
    shapes = [
        {"messages": talk},
        {"conversations": [{"from": "human", "value": "play"}, {"from": "gpt", "value": f"<guess>{word}</guess>"}]},
        {"prompt": [{"role": "user", "content": "play"}], "completion": [reply(word)]},
        {"instruction": "play", "output": f"<guess>{word}</guess>"},
        {"prompt": "play", "completion": f"<guess>{word}</guess>"},
        {},
    ]
    given, games = taken(*(none | shape for shape in shapes))
    assert [game.secret for game in games] == [split.train[0], *[word] * 4]
    assert given.rejected == {"missing_field": 1}
    with pytest.raises(OddRowError, match="unreadable_messages"):
        read_row({"conversations": [{"from": ["x"], "value": "play"}]})


def test_a_file_of_conversations_may_be_read_in_part(small_words, split, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "chat.jsonl", (chat(word) for word in split.train[:5]))
    games = [*games_of(Path(f"{tmp_path / 'chat.jsonl'}[:2]"), small_words, Prompter())]
    assert [game.secret for game in games] == [*split.train[:2]]
