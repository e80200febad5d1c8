"""Laws of the codec: ids that only grow, masks drawn as pictures, and templates that rewrite or show no borders.

For the templates that makers publish see test_loading_families.py.
"""

import pytest
from chat_families import family_tokenizer
from prompt_forms import FORMS
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from wordle_rl.chat.codec import ChatCodec, longest_game, longest_reply
from wordle_rl.chat.masks import encode_game, mask_picture
from wordle_rl.chat.templates import ChatTemplateError, training_template
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.prompt import Message, Prompter, Shape, Style, Thinking


def scored(guess: str) -> Turn:
    return Turn(guess, score_guess("trace", guess), Outcome.SCORED)


def rendered(codec: ChatCodec, messages: list[Message], add_generation_prompt: bool) -> list[int]:
    """The template's own account of a whole conversation."""
    text = codec.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt)
    return codec.tokenizer(text, add_special_tokens=False)["input_ids"]


def dialogue(prompter: Prompter, thinking: str = "") -> list[Message]:
    """A three-turn game as messages, the last reply included."""
    turns = [scored("crane"), scored("speed"), scored("trace")]
    messages = prompter.opening()
    for count, turn in enumerate(turns, start=1):
        messages.append(Message(role="assistant", content=prompter.reply(turn.guess or "", thinking)))
        if count < len(turns):
            messages.append(prompter.feedback(turns[:count]))
    return messages


@pytest.mark.parametrize(("style", "thinking"), FORMS)
def test_embedded_game_ids_grow_as_the_template_renders_them(codec, style, thinking) -> None:
    messages = dialogue(Prompter(style=style, thinking=thinking), "r fits")
    ids, mask = encode_game(codec, messages)
    assert ids == rendered(codec, messages, False)[: len(ids)]
    assert len(mask) == len(ids)
    grown = codec.prompt_ids(messages[:-5])
    for at in range(len(messages) - 5, len(messages)):
        assert grown == rendered(codec, messages[:at], messages[at - 1]["role"] != "assistant")[: len(grown)]
        message = messages[at]
        grown += codec.reply_ids(message["content"]) if message["role"] == "assistant" else codec.bridge_ids(message)
    assert grown == ids


def test_the_embedded_mask_is_the_template_s_own(codec) -> None:
    prompter = Prompter(style=Style.COMPACT)
    game = [*prompter.opening([scored("crane")]), Message(role="assistant", content=prompter.reply("trace"))]
    ids, mask = encode_game(codec, game)
    assert mask_picture(codec, ids, mask) == (
        "5x6<|reply|>⟦<guess>crane</guess><|end|>⟧cYrGaGnXeG<|reply|>⟦<guess>trace</guess><|end|>⟧"
    )
    own = codec.tokenizer.apply_chat_template(game, return_dict=True, return_assistant_tokens_mask=True)
    assert (own["input_ids"], own["assistant_masks"]) == (ids, mask)


def test_earlier_thinking_is_kept_where_the_template_forgets_it() -> None:
    codec = ChatCodec(family_tokenizer("qwen3"))
    messages = dialogue(Prompter(thinking=Thinking.REQUIRED), "r fits")
    ids, mask = encode_game(codec, messages)
    assert codec.tokenizer.decode(ids).count("<think>r fits</think>") == 3
    assert codec.tokenizer.decode(rendered(codec, messages, False)).count("r fits") == 1
    assert codec.prompt_ids(messages[:-1]) == ids[: len(ids) - mask[::-1].index(0)]


NO_BORDERS = {
    "none": None,
    "no end of a turn": "{% for m in messages %}{{ m.content }}{% endfor %}",
    "replies dropped": "{% for m in messages if m.role == 'user' %}{{ m.content }}<|im_end|>{% endfor %}",
    "all said twice": "{% for m in messages %}{{ m.content * 2 }}<|im_end|>{% endfor %}",
    "tools": "{% for t in tools %}{{ t }}{% endfor %}{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}",
    "division": "{{ 1 / 0 }}{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}",
    "endless recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
}


@pytest.mark.parametrize("fault", NO_BORDERS)
def test_templates_without_readable_borders_are_refused(fault) -> None:
    tokenizer = family_tokenizer("qwen3")
    tokenizer.chat_template = NO_BORDERS[fault]
    with pytest.raises(ChatTemplateError):
        ChatCodec(tokenizer)
    if tokenizer.chat_template is not None:
        with pytest.raises(ChatTemplateError):
            training_template(tokenizer)


def test_a_completion_cut_off_is_closed_and_a_finished_one_is_not(codec) -> None:
    whole = codec.reply_ids("<guess>crane</guess>")
    assert codec.closed(whole) == []
    assert codec.closed(whole[:-1]) == [codec.turn_end_ids[0]]
    assert codec.closed([]) == [codec.turn_end_ids[0]]


@pytest.mark.parametrize("text", ["<guess>crane</guess>", "", " a\n", "<think>aG?</think>"])
def test_the_words_of_a_completion_lose_only_its_end(codec, text) -> None:
    assert codec.text_of(codec.reply_ids(text)) == text
    assert codec.text_of(codec.encode(text)) == text


def test_ids_without_a_token_are_those_beyond_the_tokenizer_and_its_gaps(codec, monkeypatch) -> None:
    size = len(codec.tokenizer)
    assert codec.unknown_ids(size) == ()
    assert codec.unknown_ids(size + 2) == (size, size + 1)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "b": 2, "</s>": 5}, unk_token="a")), eos_token="</s>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m.content + '</s>' }}{% endfor %}"
    assert ChatCodec(tokenizer, stops=[7]).unknown_ids(9) == (1, 3, 4, 6, 8), "a stop may be drawn"
    monkeypatch.setattr(PreTrainedTokenizerFast, "__len__", lambda _: 6)
    assert ChatCodec(tokenizer).unknown_ids(9) == (6, 7, 8), "a list that is shorter than the tokenizer shows no gaps"


def test_conversations_must_alternate_and_prompts_end_with_the_user(codec) -> None:
    user, reply = Message(role="user", content="a"), Message(role="assistant", content="b")
    for messages in ([user, reply, reply], [user, reply, user, user]):
        with pytest.raises(ValueError, match="alternate"):
            encode_game(codec, messages)
    for messages in ([], [user, reply]):
        with pytest.raises(ValueError, match="must end"):
            codec.prompt_ids(messages)


def test_a_reply_is_measured_with_its_closing_token(sixty, codec) -> None:
    compact = Prompter(Style.COMPACT, thinking=Thinking.OFF)
    assert longest_reply(sixty, compact, codec) == 8  # two tags, five letters, one closing token
    assert longest_reply(sixty, Prompter(Style.COMPACT, thinking=Thinking.REQUIRED), codec) == 10


def test_the_longest_game_by_hand(sixty, codec) -> None:
    """Compact: "5x6" and the reply token open it; five times a reply, its closing and five marks with a reply token."""
    compact = Prompter(Style.COMPACT, thinking=Thinking.OFF)
    assert longest_game(sixty, compact, codec, 12) == 4 + 5 * (12 + 1 + 6) + 12
    state = Prompter(Style.COMPACT, Shape.STATE, Thinking.OFF)
    assert longest_game(sixty, state, codec, 12) == 3 + 5 * 6 + 1 + 12
