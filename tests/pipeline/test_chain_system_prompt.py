"""Laws of a system prompt of one's own with models and endpoints: it fits the tokenizer, and everyone tells of it."""

import shutil
from pathlib import Path

import pytest
from chat_families import levels
from fake_endpoint import chat
from training_fixtures import rows

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import score_guess
from wordle_rl.preflight.template import check_wording
from wordle_rl.prompt import Prompter, Style
from wordle_rl.runs import read_object, write_json, write_jsonl
from wordle_rl.runs.checksums import SEAL_FILE
from wordle_rl.runs.lineage import LINEAGE_FILE

TEXT = "Find {word_length} letters in {max_turns} guesses. Reply: {example}"
TOLD = "Find 5 letters in 6 guesses. Reply: <guess>xylyl</guess>"


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
    run = Path(shutil.copytree(finished_run, tmp_path / "own"))
    for file in (run / "config.json", run / "grpo" / LINEAGE_FILE):
        stored = read_object(file)
        stored["game"]["system_prompt"] = TEXT
        write_json(file, stored)
    (run / "grpo" / SEAL_FILE).unlink()  # as one does who changes a model's files on purpose
    return run


@pytest.mark.parametrize(("given", "asked"), [(None, TEXT), ("Say {example}.", "Say {example}."), ("", "")])
def test_a_model_is_evaluated_by_its_own_text(given, asked, own_run, cli, word_directory, tmp_path) -> None:
    command = ("eval", "--player", own_run, "--words", word_directory, "--max-games", 1, "--no-regret")
    more = () if given is None else ("--system-prompt", given)
    code, _, err = cli(*command, *more, "--out", tmp_path / "own.json")
    assert code == 0, err
    assert Evaluation.load(tmp_path / "own.json").conditions.system_prompt == asked
    assert cli(*command, "--system-prompt", "Olé {example}")[0] == 2


def test_an_endpoint_is_told_the_text_and_a_comparison_says_so(cli, serve, split, word_directory, tmp_path) -> None:
    endpoint = serve(lambda *_: chat(f"<guess>{split.test[0]}</guess>"))
    command = ("eval", "--player", "openai:m", "--base-url", endpoint.url, "--words", word_directory, "--no-regret")
    texts = {"plain": None, "own": TEXT, "none": "", "lines": f'{TEXT}\n- "so", on\n'}
    for name, text in texts.items():
        endpoint.requests.clear()
        more = () if text is None else ("--system-prompt", text)
        code, _, err = cli(*command, "--max-games", 1, "--out", tmp_path / f"{name}.json", *more)
        assert (code, len(err.splitlines())) == (0, 1), "no warning of the text"
        messages = endpoint.requests[0]["messages"]
        assert [message["role"] for message in messages] == (["user"] if text == "" else ["system", "user"])
        assert (TOLD in messages[0]["content"]) == bool(text)
        stored = Evaluation.load(tmp_path / f"{name}.json").conditions
        assert stored.system_prompt == (None if text is None else text.strip())
    for first, second in (("plain", "own"), ("plain", "none"), ("own", "lines")):
        assert "system_prompt" in cli("compare", tmp_path / f"{first}.json", tmp_path / f"{second}.json")[1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--system-prompt", TEXT), TOLD),
        (("--system-prompt", TEXT, "--style", "compact", "--shape", "state"), TOLD),
        (("--system-prompt", ""), Prompter(system_prompt="").opening()[0]["content"]),
        (("--system-prompt", "{x}"), None),
    ],
)
def test_rows_for_other_trainers_hold_the_text(options, told, cli, split, word_directory, tmp_path: Path) -> None:
    secret = split.train[0]
    trace = GameRecord(secret, (TurnRecord(secret, score_guess(secret, secret)),))
    write_jsonl(tmp_path / "t.jsonl", [trace.to_row()])
    command = ("dataset", tmp_path / "t.jsonl", "--words", word_directory, "--out", tmp_path / "set", *options)
    assert cli(*command)[0] == (0 if told else 2)
    if told:
        sft, rl = (rows(tmp_path / f"set_{name}.jsonl")[0] for name in ("sft_train", "rl_train"))
        assert [messages[0]["content"] for messages in (sft["messages"], rl["prompt"])] == [told, told]
