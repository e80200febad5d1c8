"""Laws of guesses by tool calls: the grammar, and the tokens verl would make of the same conversation."""

import pytest

pytest.importorskip("verl")

import sys
from pathlib import Path

import chat_families
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.templates import ChatTemplateError, training_template
from wordle_rl.env import WordleEnv
from wordle_rl.prompt import Guess, Prompter, Thinking
from wordle_rl.trainers.verl.play import GUESS_TOOL, ToolCodec, ToolPrompter
from wordle_rl.words import load_words

TEMPLATES = Path(sys.prefix) / "templates"
"""TRL's published chat templates. Beside verl it must not be installed, since verl would import an older one."""

call = '<tool_call>\n{{"name": "guess", "arguments": {{"word": "{}"}}}}\n</tool_call>'.format


@pytest.fixture
def family_tokenizer(monkeypatch):
    """Small tokenizers with the published template of a family."""
    monkeypatch.syspath_prepend(str(TEMPLATES))
    return chat_families.family_tokenizer


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        (call("crane"), "crane"),
        ("<think>vowels first</think>\n\n" + call("crane"), "crane"),
        ("I guess crane", None),
        (call("crane") + call("slate"), None),
        (call("crane") + " good luck", None),
        ("<think>" + call("crane") + "</think>", None),
        ('<tool_call>{"name": "look", "arguments": {"word": "crane"}}</tool_call>', None),
        ('<tool_call>{"name": "guess", "arguments": {"word": 5}}</tool_call>', None),
        ('<tool_call>{"name": "guess", "arguments": {"word": "crane", "sure": true}}</tool_call>', None),
        ("<tool_call>crane</tool_call>", None),
    ],
)
def test_one_call_is_a_guess_and_nothing_else_is(reply, word) -> None:
    parsed = ToolPrompter().parse(reply)
    assert (parsed.word if isinstance(parsed, Guess) else None) == word


@pytest.mark.parametrize("thinking", list(Thinking))
def test_a_written_reply_is_read_back(thinking) -> None:
    prompter = ToolPrompter(thinking=thinking)
    parsed = prompter.parse(prompter.reply("crane", "so" if thinking is Thinking.REQUIRED else ""))
    assert isinstance(parsed, Guess)
    assert parsed.word == "crane"


@pytest.mark.parametrize("style", ["english", "symbols", "textarena", "tool"])
def test_a_game_has_the_tokens_that_verl_makes_on_the_qwen3_template(style, family_tokenizer) -> None:
    tokenizer = family_tokenizer("qwen3")
    prompter, tools = (ToolPrompter(), {"tools": [GUESS_TOOL]}) if style == "tool" else (Prompter(style=style), {})
    env = WordleEnv("fuzzy", load_words(), prompter)
    messages = [dict(message) for message in env.conversation]
    builder = create_continuous_token_builder(tokenizer, hf_model_type="qwen3")
    theirs = builder.build_initial_tokens(messages, **tools)
    if tools:
        codec = ToolCodec(tokenizer)
    else:
        stock = tokenizer.chat_template
        tokenizer.chat_template = training_template(tokenizer, {})
        codec = ChatCodec(tokenizer)
        tokenizer.chat_template = stock
    ours = codec.prompt_ids(messages)
    assert ours == theirs
    replies = [prompter.reply("slate"), "prose", prompter.reply("zzzzz"), prompter.reply("crane")]
    for reply in replies:
        [answer] = env.step(reply).messages
        completion = codec.reply_ids(reply)
        ours = [*ours, *completion, *codec.bridge_ids(answer)]
        before = [*messages, {"role": "assistant", "content": reply}]
        messages = [*before, dict(answer)]
        theirs = builder.merge_assistant_tokens(theirs, completion).token_ids
        theirs = builder.merge_context_tokens(before, messages, theirs, **tools).token_ids
        assert ours == theirs
    assert ("tool" in {message["role"] for message in messages}) == bool(tools)


@pytest.mark.parametrize("family", ["gemma2", "gemma3", "deepseek-r1"])
def test_a_template_without_such_tools_is_refused(family, family_tokenizer) -> None:
    with pytest.raises(ChatTemplateError):
        ToolCodec(family_tokenizer(family))
