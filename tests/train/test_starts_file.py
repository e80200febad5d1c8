"""Laws of boards from a file: only those on which a training game may go on, each other row counted."""

import json
from pathlib import Path

import pytest

from wordle_rl.config import ConfigError, DistillTraining, DPOTraining, ExpertIterationTraining, GRPOTraining
from wordle_rl.data.dataset import DatasetLimits, write_dataset
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.game import Dictionary, Rules, score_guess
from wordle_rl.prompt import Prompter
from wordle_rl.rollout import InitialState
from wordle_rl.runs import RunError, write_jsonl
from wordle_rl.train.starts_file import StartBoards, read_start_boards
from wordle_rl.words import WordList
from wordle_rl.words.split import split_secrets


@pytest.fixture
def split(small_words):
    return split_secrets(small_words)


@pytest.fixture
def read(small_words, split, tmp_path: Path):
    """Read rows through a file."""

    def run(*rows: dict, rules: Rules | None = None, outside: bool = True) -> StartBoards:
        write_jsonl(tmp_path / "starts.jsonl", rows)
        return read_start_boards(tmp_path / "starts.jsonl", small_words, split, rules or Rules(), outside=outside)

    return run


def board(secret: str, *guesses: str) -> dict[str, object]:
    return {"word": secret, "turns": [{"guess": guess} for guess in guesses]}


def test_boards_written_as_rows_are_read(small_words, split, tmp_path: Path) -> None:
    a, b = split.train[:2]
    data = tmp_path / "data.jsonl"
    write_jsonl(data, [{"secret": a, "past_guess_history": [[b, score_guess(a, b)]]}])
    first = read_start_boards(data, small_words, split, Rules(), outside=True)
    write_jsonl(tmp_path / "starts.jsonl", first.rows())
    found = read_start_boards(tmp_path / "starts.jsonl", small_words, split, Rules(), outside=True)
    assert (found.starts, found.rejected) == ((InitialState(a, (b,)),), {})


def test_the_start_states_of_a_data_set_are_read(small_words, split, tmp_path: Path) -> None:
    a, b, c = split.train[:3]
    game = GameRecord(a, tuple(TurnRecord(word, score_guess(a, word)) for word in (b, c, a)))
    limits = DatasetLimits(consistent_only=False)
    write_dataset([game], small_words, split, Prompter(), limits, tmp_path / "data")
    found = read_start_boards(tmp_path / "data_rl_start_states.jsonl", small_words, split, Rules(), outside=True)
    assert (found.starts, found.rejected) == ((InitialState(a, (b, c)),), {})
    found = read_start_boards(tmp_path / "data_rl_train.jsonl", small_words, split, Rules(), outside=True)
    assert (found.secrets, found.names_secrets) == (split.train, True)
    with pytest.raises(RunError, match=r"data_sft_train\.jsonl:1 "):
        read_start_boards(tmp_path / "data_sft_train.jsonl", small_words, split, Rules(), outside=True)


SECRETS = {
    "prompts.jsonl": lambda words: "\n".join(json.dumps({"prompt": "play", "answer": word}) for word in words),
    "words.jsonl": lambda words: "\n".join(json.dumps({"word": word}) for word in words),
    "words.txt": "\n".join,
    "words.json": json.dumps,
    "words.csv": lambda words: "\n".join(["prompt,answer", *(f"play,{word.upper()}" for word in words)]),
    "histories.jsonl": lambda words: "\n".join(
        json.dumps({"prompt": "p", "secret": word, "past_guess_history": "[]"}) for word in words
    ),
}


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_read_however_they_are_listed(name: str, small_words, split, tmp_path: Path) -> None:
    (tmp_path / name).write_text(SECRETS[name]((*split.train[:5], split.train[0], split.test[0])))
    found = read_start_boards(tmp_path / name, small_words, split, Rules(), outside=True)
    assert (found.secrets, found.names_secrets, found.rejected) == (split.train[:5], True, {"test_secret": 1})
    assert (found.fraction(), found.limited(2).secrets) == (1.0, split.train[:2])
    first = read_start_boards(Path(f"{tmp_path / name}[:3]"), small_words, split, Rules(), outside=True)
    assert first.secrets == split.train[:3]


def test_a_game_that_is_over_names_its_secret_and_one_that_is_not_is_a_board(read, split) -> None:
    a, b, c = split.train[:3]
    found = read(board(a, b, a), board(b, a), board(c, *[a, b] * 3))
    assert found.starts == (InitialState(a), InitialState(b, (a,)), InitialState(c))
    assert list(found.notes.values()) == [2]
    assert all(note in found.counted() for note in (str(found.path), ": 3;", *found.notes))
    assert (found.names_secrets, found.fraction()) == (False, 0.5)
    assert found.limited(2).starts == (InitialState(a), InitialState(b, (a,)))


def test_histories_of_other_projects_are_boards(read, split) -> None:
    a, b = split.train[:2]
    found = read({"secret": a, "prompt": "p", "past_guess_history": repr([[b.upper(), "whatever"]])})
    assert found.starts == (InitialState(a, (b,)),)
    with pytest.raises(RunError, match=r"starts\.jsonl:1 "):
        read({"secret": a, "past_guess_history": "[["})


def test_marks_in_a_file_count_for_nothing(read, split) -> None:
    a, b = split.train[:2]
    found = read({"word": a.upper(), "turns": [{"guess": b.upper(), "feedback": "GGGGG"}], "more": 1})
    assert found.starts == (InitialState(a, (b,)),)
    assert list(found.rows()) == [{"secret": a, "turns": [{"guess": b, "marks": score_guess(a, b), "given": True}]}]


def test_boards_on_which_no_training_game_may_go_on_are_counted_by_reason(read, split) -> None:
    a, b, c = split.train[:3]
    odd = {
        "unlisted_secret": [board("zzzzz"), board("word"), board("")],
        "val_secret": [board(split.val[0]), board(split.val[0], a)],
        "test_secret": [board(split.test[0], a)],
        "already_won": [board(a, a, b, a), board(a, a, b), board(a, *[b] * 6, a)],
        "too_many_turns": [board(a, *[b, c] * 3, b), board(a, *[b, c] * 4)],
        "unlisted_guess": [board(a, "zzzzz")],
        "wrong_length_guess": [board(a, "word"), board(a, "letters")],
        "malformed_guess": [board(a, "<gu>x"), board(a, ""), board(a, "crène")],
    }
    sound = board(a, *[b, c] * 2, c)
    found = read(*(row for rows in odd.values() for row in rows), sound)
    assert found.starts == (InitialState(a, (b, c, b, c, c)),)
    assert found.rejected == {reason: len(rows) for reason, rows in odd.items()}
    assert "starts.jsonl: 1; left out: 3 already_won, 3 malformed_guess, 1 test_secret, " in found.counted()


def test_the_rules_of_the_run_say_which_guesses_may_have_been_played(read, split) -> None:
    a = split.train[0]
    hint = next(word for word in split.train[1:] if "G" in score_guess(a, word) or "Y" in score_guess(a, word))
    ignoring = next(word for word in ("fuzzy", "lymph", "civic", "mamma", "vivid") if not {*word} & {*hint, *a})
    made_up, stray = board(a, "zzzzz"), board(a, hint, ignoring)
    for rules, sound in (
        (Rules(), [stray]),
        (Rules(dictionary=Dictionary.LENIENT), [made_up, stray]),
        (Rules(dictionary=Dictionary.APP), [stray]),
        (Rules(hard_mode=True), []),
        (Rules(max_turns=2), [stray]),  # which is over, and so names its secret
    ):
        found = read(made_up, stray, board(a), rules=rules)
        assert list(map(len, (found.starts, found.rejected.values()))) == [len(sound) + 1, 2 - len(sound)]


def test_a_secret_that_is_no_answer_is_used_only_where_something_is_learnt_without_a_win(read, small_words, split):
    rows = [board(small_words.outside[0]), board(split.train[0])]
    assert len(read(*rows, outside=True).starts) == 2
    assert read(*rows, outside=False).rejected == {"outside_secret": 1}
    regret = {"reward": {"weights": {"quick_regret": -6.0}}}
    learns = [
        GRPOTraining.model_validate(regret), DistillTraining(), DPOTraining(),
        DPOTraining.model_validate(regret | {"judge": "outcome"}),
    ]  # fmt: skip
    asks = [GRPOTraining(), ExpertIterationTraining(), DPOTraining(judge="outcome"), DPOTraining(judge="information")]
    assert [settings.learns_without_wins for settings in (*learns, *asks)] == [True] * 4 + [False] * 4


def test_a_file_without_a_usable_row_is_refused_with_its_first_line(read, split) -> None:
    with pytest.raises(ConfigError, match="test_secret") as caught:
        read(board(split.test[0]), board("zzzzz"), board(split.test[0]))
    assert str(caught.value).endswith("in all 2 test_secret, 1 unlisted_secret")
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"starts\.jsonl"):
        read()


@pytest.mark.parametrize(
    "row",
    [
        "{", "[1]", json.dumps({"name": "crane"}), json.dumps({"word": 3, "turns": []}),
        json.dumps({"word": "crane", "turns": "crate"}), json.dumps({"word": "crane", "turns": ["crate"]}),
        json.dumps({"word": "crane", "turns": [{"guess": None}]}),
    ],
)  # fmt: skip
def test_a_line_that_is_no_board_is_refused_by_its_number(row, small_words: WordList, split, tmp_path: Path) -> None:
    path = tmp_path / "starts.jsonl"
    path.write_text(json.dumps(board(split.train[0])) + f"\n{row}\n")
    with pytest.raises(RunError, match=r"starts\.jsonl:2 ") as caught:
        read_start_boards(path, small_words, split, Rules(), outside=True)
    assert "\n" not in str(caught.value)
