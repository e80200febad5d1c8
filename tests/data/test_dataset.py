"""Laws of datasets: rows as trainers take them, every reject counted, masks drawn as a picture."""

from dataclasses import replace
from pathlib import Path

import pytest
from chat_families import family_tokenizer
from training_fixtures import compact, rows

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.masks import encode_game, mask_picture
from wordle_rl.chat.templates import training_template
from wordle_rl.data.dataset import DatasetLimits, conversation, fault_of, instruction_rows, summarise, write_dataset
from wordle_rl.data.game_record import GameNotes, GameRecord, TurnRecord
from wordle_rl.game import Outcome, score_guess
from wordle_rl.prompt import Prompter, Shape, Thinking
from wordle_rl.train.example import encode_traces


def game(secret: str, *guesses: str, untaught: tuple[int, ...] = (), thinking: str = "") -> GameRecord:
    turns = [TurnRecord(g, score_guess(secret, g), i not in untaught, thinking) for i, g in enumerate(guesses)]
    return GameRecord(secret, tuple(turns), notes=GameNotes("solver", completion_tokens=50))


# Three turns; the second guess contradicts the first one's marks, so the teacher disowns it.
STRAYED = game("crane", "crate", "pesto", "crane", untaught=(1,))


def test_the_picture_of_a_game_is_replies_between_answers(codec) -> None:
    [example] = encode_traces([game("crane", "crate", "crane")], compact(), codec, 1000).examples
    assert mask_picture(codec, example.token_ids, example.loss_mask) == (
        "5x6<|reply|>⟦<guess>crate</guess><|end|>⟧cGrGaGtXeG<|reply|>⟦<guess>crane</guess><|end|>⟧"
    )


def test_state_shape_has_one_example_per_taught_turn_under_the_whole_board(codec) -> None:
    examples = encode_traces([STRAYED], compact(Shape.STATE), codec, 1000).examples
    assert [mask_picture(codec, e.token_ids, e.loss_mask) for e in examples] == [
        "5x6<|reply|>⟦<guess>crate</guess><|end|>⟧",
        "5x6\ncGrGaGtXeG\npXeYsXtXoX<|reply|>⟦<guess>crane</guess><|end|>⟧",
    ]


def test_spoken_shape_has_one_example_per_taught_turn_after_replies_without_thinking(codec) -> None:
    """Also of a conversation that is learnt word for word."""
    prompter = compact(Shape.SPOKEN)
    traced = game("crane", "crate", "pesto", "crane", untaught=(1,), thinking="abbey")
    said = replace(traced, messages=tuple(conversation(traced, compact(Shape.SPOKEN))))
    first, last = (
        "5x6<|reply|>⟦<think>abbey</think><guess>crate</guess><|end|>⟧",
        "5x6<|reply|><guess>crate</guess><|end|>cGrGaGtXeG<|reply|><guess>pesto</guess><|end|>pXeYsXtXoX<|reply|>"
        "⟦<think>abbey</think><guess>crane</guess><|end|>⟧",
    )
    made = [encode_traces([trace], prompter, codec, 1000).examples for trace in (traced, said)]
    pictures = [[mask_picture(codec, e.token_ids, e.loss_mask) for e in examples] for examples in made]
    assert pictures == [[first, last]] * 2


def test_a_game_encodes_as_the_rollout_would_meet_it(codec) -> None:
    """The prompt before the last reply is token for token what a policy with this board is asked."""
    prompter = compact()
    [example] = encode_traces([STRAYED], prompter, codec, 1000).examples
    prompt = codec.prompt_ids(prompter.opening(STRAYED.board(2)))
    assert example.token_ids == prompt + codec.reply_ids("<guess>crane</guess>")


def test_a_sequence_that_is_too_long_is_rejected_not_cut(codec) -> None:
    short, long = game("crane", "crane"), game("crane", "crate", "grape", "crane")
    lengths = [len(e.token_ids) for e in encode_traces([short, long], compact(), codec, 1000).examples]
    encoded = encode_traces([short, long], compact(), codec, lengths[1] - 1)
    assert [len(e.token_ids) for e in encoded.examples] == lengths[:1]
    assert encoded.rejected == {"too_long": 1}
    assert not encode_traces([short, long], compact(), codec, lengths[1]).rejected


def test_a_game_without_a_taught_turn_is_rejected(codec) -> None:
    encoded = encode_traces([game("crane", "crate", untaught=(0,))], compact(), codec, 1000)
    assert (encoded.examples, encoded.rejected) == ([], {"nothing_taught": 1})


SOUND = game("crane", "crate", "crane")
FAULTS = {
    "not_won": game("crane", "crate"),
    "too_many_turns": game("crane", "abbey", "civic", "fuzzy", "crane"),
    "unlisted_guess": game("crane", "zzzzz", "crane"),
    "unlisted_secret": game("zzzzz", "zzzzz"),
    "wrong_marks": replace(SOUND, turns=(replace(SOUND.turns[0], marks="GGGYG"), SOUND.turns[1])),
    "violates_clues": game("crane", "crate", "pesto", "crane"),
    "no_turns": GameRecord("crane", ()),
    "error": replace(SOUND, error="down"),
    "malformed_turn": replace(SOUND, turns=(TurnRecord(None, None, outcome=Outcome.MALFORMED), *SOUND.turns)),
    "unlisted_turn": replace(SOUND, turns=(TurnRecord("zzzzz", None, outcome=Outcome.UNLISTED), *SOUND.turns)),
    "too_many_tokens": replace(SOUND, notes=GameNotes(completion_tokens=101)),
    "unknown_tokens": replace(SOUND, notes=GameNotes(completion_tokens=0)),
    "tags_in_thinking": game("crane", "crane", thinking="<guess>crane</guess>"),
    "plays_on_after_win": game("crane", "crane", "crane"),
}
LIMITS = DatasetLimits(max_turns=3, max_tokens=100)


@pytest.mark.parametrize("reason", FAULTS)
def test_each_fault_has_its_reason(reason: str, small_words) -> None:
    assert fault_of(FAULTS[reason], small_words, LIMITS) == reason


def test_a_sound_game_has_no_fault_and_a_disowned_guess_is_none(small_words) -> None:
    assert fault_of(SOUND, small_words, LIMITS) is None
    assert fault_of(STRAYED, small_words, LIMITS) is None


def test_a_free_refusal_is_no_guess(small_words) -> None:
    refused = TurnRecord("zzzzz", None, outcome=Outcome.UNLISTED, costs_turn=False)
    asked_again = replace(SOUND, turns=(refused, refused, *SOUND.turns))
    assert fault_of(asked_again, small_words, LIMITS) == "unlisted_turn", "four turns, two of them guesses"
    charged = replace(asked_again, turns=(replace(refused, costs_turn=True),) * 2 + SOUND.turns)
    assert fault_of(charged, small_words, LIMITS) == "too_many_turns"
    for per_secret in (True, False):
        assert [row["mean_guesses_on_wins"] for row in summarise([asked_again], per_secret=per_secret)] == [2.0]
        assert [row["mean_guesses_on_wins"] for row in summarise([charged], per_secret=per_secret)] == [4.0]


def test_thinking_that_is_required_must_be_there_before_every_taught_guess(small_words) -> None:
    required = replace(LIMITS, thinking=Thinking.REQUIRED)
    thoughtful = game("crane", "crate", "crane", thinking="why")
    assert fault_of(SOUND, small_words, required) == "no_thinking"
    assert fault_of(thoughtful, small_words, required) is None
    first, last = thoughtful.turns
    for blank in ("", " \n"):
        assert fault_of(replace(thoughtful, turns=(first, replace(last, thinking=blank))), small_words, required)
    disowned = replace(first, thinking="", taught=False)
    assert fault_of(replace(thoughtful, turns=(disowned, last)), small_words, required) is None


def test_every_file_has_its_format(sixty, split, traces, tmp_path: Path) -> None:
    prompter = compact()
    traces = [  # of two games in three the teacher disowns the first guess
        replace(trace, turns=(replace(trace.turns[0], taught=False, thinking=""), *trace.turns[1:])) if n % 3 else trace
        for n, trace in enumerate(traces)
    ]
    extra = [game(split.val[0], split.val[0]), game(split.test[0], split.test[0]), game("crane", "crate")]
    counts = write_dataset([*traces, *extra], sixty, split, prompter, DatasetLimits(), tmp_path / "set")
    found = {name: rows(tmp_path / f"set_{name}.jsonl") for name in counts["rows"]}
    assert {name: len(lines) for name, lines in found.items()} == counts["rows"]
    won = [trace for trace in traces if trace.won and all(turn.taught for turn in trace.turns)]
    # Whoever trains on a conversation learns all of its replies, so games with a disowned one are left out.
    assert found["sft_train"] == [{"messages": conversation(trace, prompter)} for trace in won]
    assert counts["rows"]["sft_val"] == 1
    assert counts["rejected"]["test_secret"] == 1
    assert counts["rejected"]["untaught_turn"] > 0
    assert sum(counts["rejected"].values()) == len(traces) + 2 - len(won)
    for part, secrets in (("rl_train", split.train), ("rl_val", split.val)):
        assert [row["answer"] for row in found[part]] == list(secrets)
        assert all(set(row) == {"prompt", "answer"} and row["prompt"] == prompter.opening() for row in found[part])
    states, longer = found["rl_start_states"], [trace for trace in won if len(trace.turns) > 1]
    assert [row["secret"] for row in states] == [trace.secret for trace in longer]
    for row, trace in zip(states, longer, strict=True):
        assert set(row) == {"secret", "turns"}
        assert all(set(turn) == {"guess", "marks", "given"} for turn in row["turns"])
        assert [turn["guess"] for turn in row["turns"]] == [turn.guess for turn in trace.turns[:-1]]
        assert all(turn["marks"] == score_guess(row["secret"], turn["guess"]) for turn in row["turns"])


def test_no_row_to_train_on_holds_a_held_out_secret_as_its_answer(sixty, split, traces, tmp_path: Path) -> None:
    held_out = {*split.val, *split.test}
    extra = [game(secret, secret) for secret in held_out]
    write_dataset([*traces, *extra], sixty, split, compact(), DatasetLimits(), tmp_path / "set")
    assert not held_out & {row["answer"] for row in rows(tmp_path / "set_rl_train.jsonl")}
    assert not held_out & {row["secret"] for row in rows(tmp_path / "set_rl_start_states.jsonl")}
    last = [row["messages"][-1]["content"] for row in rows(tmp_path / "set_sft_train.jsonl")]
    assert not {f"<guess>{secret}</guess>" for secret in held_out} & set(last)
    assert not set(split.test) & {row["answer"] for row in rows(tmp_path / "set_rl_val.jsonl")}


def test_summaries_count_by_hand_and_put_the_hardest_first() -> None:
    games = [game("crane", "crane"), game("crane", "crate", "crane"), game("abbey", "crane"), game("civic", "civic")]
    names = ("secret", "num_games", "num_wins", "mean_guesses_on_wins", "win_rate")
    assert [tuple(row[name] for name in names) for row in summarise(games, per_secret=True)] == [
        ("abbey", 1, 0, None, 0.0),
        ("crane", 2, 2, 1.5, 1.0),
        ("civic", 1, 1, 1.0, 1.0),
    ]


@pytest.mark.parametrize("family", ["llama3", "gemma3", "gpt-oss"])
def test_instruction_rows_are_what_a_model_of_its_template_reads_and_writes(family: str) -> None:
    tokenizer = family_tokenizer(family)
    tokenizer.chat_template = training_template(tokenizer)
    codec = ChatCodec(tokenizer)
    messages = conversation(game("crane", "slate", "crane"), Prompter())
    ids, loss_mask = encode_game(codec, messages)
    found = list(instruction_rows(messages, codec))
    assert len(found) == 2
    last = codec.encode(found[-1]["instruction"]) + codec.encode(found[-1]["output"])
    assert last == ids
    assert len(codec.encode(found[-1]["output"])) == loss_mask[::-1].index(0)
