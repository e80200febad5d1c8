"""Laws of a system prompt of one's own: told in every style and shape, filled in, checked early, carried along."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_forms import FORMS

from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.teachers import LLMTeacherSettings
from wordle_rl.game import Outcome, Rules, Turn
from wordle_rl.prompt import Guess, Message, Prompter, PromptError, Shape, Style, fault_in
from wordle_rl.runs.lineage import Lineage, lesson_of, lineage_of, save_lineage
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets

TEXT = "Find a word of {word_length} letters in {max_turns} guesses.\nReply: {example}"
TURNS = [Turn("crane", "XYXXG", Outcome.SCORED), Turn(None, None, Outcome.MALFORMED)]


def without_system(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message["role"] != "system"]


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("shape", Shape)
def test_the_text_is_told_first_in_every_style_and_shape_and_changes_nothing_else(style, shape) -> None:
    plain = Prompter(style, shape, rules=Rules(max_turns=7))
    own = replace(plain, system_prompt=TEXT)
    told = f"Find a word of 5 letters in 7 guesses.\nReply: {own.reply('xylyl')}"
    for messages, before in (
        (own.opening(), plain.opening()),
        (own.opening(TURNS[:1]), plain.opening(TURNS[:1])),
        (own.state(()), plain.state(())),
        (own.state(TURNS), plain.state(TURNS)),
    ):
        assert messages == [{"role": "system", "content": told}, *without_system(before)]
    assert own.feedback(TURNS) == plain.feedback(TURNS)


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("shape", Shape)
def test_an_empty_text_is_no_system_message(style, shape) -> None:
    plain, silent = Prompter(style, shape), Prompter(style, shape, system_prompt=" \n")
    assert silent.system_text == ""
    assert silent.opening(TURNS[:1]) == without_system(plain.opening(TURNS[:1]))
    assert silent.state(TURNS) == without_system(plain.state(TURNS))


@pytest.mark.parametrize(("style", "thinking"), FORMS)
@pytest.mark.parametrize("word_length", range(3, 11))
def test_the_example_is_a_reply_that_the_parser_takes(style, thinking, word_length) -> None:
    prompter = Prompter(style, thinking=thinking, word_length=word_length, system_prompt="{example}")
    parsed = prompter.parse(prompter.system_text)
    assert isinstance(parsed, Guess)
    assert len(parsed.word) == word_length
    plain = replace(prompter, system_prompt=None)
    silent = style in (Style.COMPACT, Style.SPELLED, Style.NOTEBOOK, Style.NOTEBOOK_PLAYER0)
    assert silent or prompter.system_text in plain.system_text, "as the style itself shows it"


@given(st.lists(st.sampled_from(["{", "}", "{{", "}}", "a\n", "{example}", "{max_turns}", "{x}"]), max_size=8))
def test_a_text_is_refused_or_filled_in_as_python_would(pieces) -> None:
    text = "".join(pieces).strip()
    try:
        meant = text.format(word_length=5, max_turns=6, example="<guess>xylyl</guess>")
    except (ValueError, KeyError, IndexError):
        assert fault_in(text)
        assert "\n" not in fault_in(text)
        with pytest.raises(PromptError, match=r"^system_prompt: "):
            Prompter(system_prompt=text)
    else:
        assert fault_in(text) == ""
        assert Prompter(system_prompt=text).system_text == meant


def test_a_text_that_cannot_be_filled_in_is_refused_in_one_line_by_its_key(tmp_path, cli) -> None:
    text = '{"guess": "crane"}'
    (tmp_path / "run.toml").write_text(f"[game]\nsystem_prompt = '''{text}'''\n")
    with pytest.raises(ConfigError, match=r"run\.toml: game\.system_prompt: [^\n]*$"):
        load_config(tmp_path / "run.toml")
    run = ("run", "quickstart", "--out", tmp_path / "run", "--game.system-prompt", text)
    for command in (run, ("eval", "--player", "solver", "--system-prompt", text)):
        code, out, err = cli(*command)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "system_prompt: " in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", [TEXT, ""])
def test_the_text_lies_beside_the_model_and_in_the_config(text, tmp_path) -> None:
    game = GameSettings(system_prompt=text)
    lesson = lesson_of(WordSettings(), split_secrets(load_words()))
    save_lineage(tmp_path, Lineage(game=game, lessons=(lesson,)))
    found = lineage_of(tmp_path)
    assert found is not None
    assert found.game.prompter(5) == game.prompter(5) == Prompter(system_prompt=text)
    (tmp_path / "config.json").write_text(json.dumps(RunConfig(game=game).stored()))
    assert load_config(tmp_path / "config.json").game == LLMTeacherSettings(game=game).game == game
