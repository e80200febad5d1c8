"""Laws of a system prompt of one's own with models and endpoints: it fits the tokenizer, and everyone tells of it."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("openai")

from fake_endpoint import chat
from template_checks import levels
from training_fixtures import rows

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import score_guess
from wordle_rl.preflight.template import check_wording
from wordle_rl.prompt import Prompter, Style
from wordle_rl.runs import read_object, write_json, write_jsonl
from wordle_rl.runs.lineage import LINEAGE_FILE

TEXT = "Find {word_length} letters in {max_turns} guesses. Reply: {example}"
TOLD = "Find 5 letters in 6 guesses. Reply: <guess>xylyl</guess>"


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "text", "warns"),
    [
        (Style.ENGLISH, "Guess a word.", True),
        (Style.TEXTARENA, "Say <guess>xylyl</guess>.", True),
        (Style.COMPACT, None, False),
        (Style.COMPACT, "", False),
        (Style.COMPACT, "Say {example}.", False),
        (Style.COMPACT, "Say <guess>, a word and </guess>.", False),
    ],
)
def test_a_text_that_shows_no_reply_is_warned_of(style: Style, text: str | None, warns: bool) -> None:
    assert levels(check_wording(Prompter(style, system_prompt=text))) == ["warning"] * warns


@pytest.fixture
def own_run(finished_run: Path, tmp_path: Path) -> Path:
    """A run whose model has a text of its own."""
    run = tmp_path / "own"
    shutil.copytree(finished_run, run)
    for file in (run / "config.json", run / "grpo" / LINEAGE_FILE):
        stored = read_object(file)
        stored["game"]["system_prompt"] = TEXT
        write_json(file, stored)
    return run


def test_a_model_is_evaluated_by_its_own_text_unless_told_otherwise(own_run, cli, word_directory, tmp_path) -> None:
    def asked(name: str, *more: object) -> str | None:
        command = ("eval", "--player", own_run, "--words", word_directory, "--max-games", 1, "--no-regret", *more)
        code, _, err = cli(*command, "--out", tmp_path / f"{name}.json")
        assert code == 0, err
        return Evaluation.load(tmp_path / f"{name}.json").conditions.system_prompt

    assert asked("own") == TEXT
    assert asked("other", "--system-prompt", "Say {example}.") == "Say {example}."
    assert asked("none", "--system-prompt", "") == ""
    assert cli("eval", "--player", own_run, "--words", word_directory, "--system-prompt", "Olé {example}")[0] == 2


# --- endpoints, files -------------------------------------------------------------------------------------------------


@pytest.fixture
def evaluated(cli, serve, split, word_directory, tmp_path: Path):
    """Have an endpoint evaluated, and say what it was told first."""
    endpoint = serve(lambda *_: chat(f"<guess>{split.test[0]}</guess>"))

    def run(name: str, *more: object) -> tuple[int, str, list[dict[str, str]]]:
        command = ("eval", "--player", "openai:m", "--base-url", endpoint.url, "--words", word_directory, "--max-games")
        out = ("--out", tmp_path / f"{name}.json", "--csv", tmp_path / f"{name}.csv")
        before = len(endpoint.requests)
        code, _, err = cli(*command, 1, "--no-regret", *out, *more)
        return code, err, endpoint.requests[before]["messages"] if len(endpoint.requests) > before else []

    return run


def test_an_endpoint_is_told_the_text_and_a_comparison_says_so(evaluated, cli, tmp_path: Path) -> None:
    texts = {"plain": None, "own": TEXT, "none": "", "lines": f'{TEXT}\n- "so", on\n'}
    for name, text in texts.items():
        code, err, messages = evaluated(name, *(() if text is None else ("--system-prompt", text)))
        assert (code, err) == (0, "")
        assert [message["role"] for message in messages] == (["user"] if text == "" else ["system", "user"])
        assert (TOLD in messages[0]["content"]) == bool(text)
        stored = Evaluation.load(tmp_path / f"{name}.json").conditions
        assert stored.system_prompt == (None if text is None else text.strip())
    for first, second in (("plain", "own"), ("plain", "none"), ("own", "lines")):
        out = cli("compare", tmp_path / f"{first}.json", tmp_path / f"{second}.json")[1]
        assert "were asked under different conditions: system_prompt" in " ".join(out.split())


def test_rows_for_other_trainers_hold_the_text(cli, split, word_directory, tmp_path: Path) -> None:
    secret = split.train[0]
    trace = GameRecord(secret, (TurnRecord(secret, score_guess(secret, secret)),))
    write_jsonl(tmp_path / "t.jsonl", [trace.to_row()])

    def said(*more: object) -> list[str]:
        command = ("dataset", tmp_path / "t.jsonl", "--words", word_directory, "--out", tmp_path / "set", *more)
        code, _, err = cli(*command)
        assert code == 0, err
        names = ("sft_train", "rl_train")
        first, second = (rows(tmp_path / f"set_{name}.jsonl")[0] for name in names)
        return [messages[0]["content"] for messages in (first["messages"], second["prompt"])]

    assert said("--system-prompt", TEXT) == [TOLD, TOLD]
    assert said("--system-prompt", TEXT, "--style", "compact", "--shape", "state") == [TOLD, TOLD]
    assert said("--system-prompt", "") == ["A new game: 5 letters, 6 guesses. Your first guess?"] * 2
    assert cli("dataset", tmp_path / "t.jsonl", "--out", tmp_path / "set", "--system-prompt", "{x}")[0] == 2
