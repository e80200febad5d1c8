"""Laws of the check of a chat template: published families pass, and each fault is found."""

import pytest
from chat_families import FAMILIES, codec_of, levels, published_template, template_names, tokenizer_for
from tokenizers import normalizers, processors

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.masks import encode_game
from wordle_rl.chat.templates import training_template
from wordle_rl.preflight.template import check_stops, check_template, sample_game
from wordle_rl.prompt import Message, Prompter, Shape, Style, Thinking

PLAIN_END = "{% for m in messages %}{{ m.role + ' ' + m.content + '>' }}{% endfor %}"


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("style", sorted({*Style} - {Style.SPELLED}))  # which has no thinking, as some families do
@pytest.mark.parametrize("name", FAMILIES)
def test_published_families_pass(name, style, shape, small_words) -> None:
    codec, prompter = codec_of(name), Prompter(style, shape)
    game = sample_game(small_words, prompter)
    assert levels(check_template(codec, game, prompter.thinking)) == []
    notes = [*check_stops(codec, game, len(codec.tokenizer))]
    assert levels(notes) == (["note"] if FAMILIES[name].eos != FAMILIES[name].end else [])


@pytest.mark.parametrize("name", template_names())
def test_every_template_that_trl_has_is_read(name, small_words) -> None:
    tokenizer = tokenizer_for(published_template(name))
    tokenizer.chat_template = training_template(tokenizer)
    codec, prompter = ChatCodec(tokenizer), Prompter()
    game = sample_game(small_words, prompter)
    found = [*check_template(codec, game, prompter.thinking), *check_stops(codec, game, len(tokenizer))]
    assert {*levels(found)} <= {"note"}
    ids, _ = encode_game(codec, game)
    assert codec.rendered_ids(game[:-1]) == ids[: len(codec.rendered_ids(game[:-1]))], "what a server would render"


@pytest.mark.parametrize(
    ("name", "variables", "thinking", "found"),
    [
        ("deepseek-r1", {}, Thinking.OFF, ["problem"]),
        ("deepseek-r1", {}, Thinking.REQUIRED, []),
        ("qwen3", {"enable_thinking": False}, Thinking.REQUIRED, ["problem"]),
        ("qwen3", {"enable_thinking": False}, Thinking.OPTIONAL, ["note"]),
        ("qwen3", {"enable_thinking": False}, Thinking.OFF, []),
        ("qwen3", {}, Thinking.OFF, ["note"]),
        ("qwen2.5", {}, Thinking.OFF, []),
        ("llama3", {}, Thinking.OFF, []),
    ],
)
def test_prompts_that_open_or_close_thoughts_must_suit_the_game(name, variables, thinking, found) -> None:
    game = [Message(role="user", content="a"), Message(role="assistant", content="b")]
    assert levels(check_template(codec_of(name, **variables), game, thinking)) == found


def test_a_tokenizer_that_reads_pieces_otherwise_than_the_whole_is_warned_of(small_words) -> None:
    codec = codec_of("qwen2.5")
    codec.tokenizer.backend_tokenizer.normalizer = normalizers.Prepend("_")
    assert levels(check_template(codec, sample_game(small_words, Prompter()), Thinking.OPTIONAL)) == ["warning"]


def test_a_turn_end_that_replies_hold_is_refused(small_words) -> None:
    found = [*check_stops(codec_of("qwen2.5", PLAIN_END), sample_game(small_words, Prompter()), 10**6)]
    assert found[0].level == "problem"
    assert "'>'" in found[0].message


def test_tokens_that_the_model_does_not_have_are_refused(small_words) -> None:
    codec = codec_of("qwen2.5")
    (finding,) = check_stops(codec, sample_game(small_words, Prompter()), codec.turn_end_ids[0])
    assert finding.level == "problem"
    assert "'<|im_end|>' as token" in finding.message


def test_words_the_tokenizer_cannot_write_are_refused(codec) -> None:
    foreign = [Message(role="user", content="naïve"), Message(role="assistant", content="crane")]
    (finding,) = check_stops(codec, foreign, len(codec.tokenizer))
    assert finding.level == "problem"
    assert "'ï'" in finding.message


def test_a_template_that_leaves_out_the_first_token_of_all_texts_is_warned_of(small_words) -> None:
    codec = codec_of("llama3", "{% for m in messages %}{{ m.role + m.content + '<|eot_id|>' }}{% endfor %}")
    game = sample_game(small_words, Prompter())
    assert levels(check_stops(codec, game, 10**6)) == []
    bos = codec.tokenizer.bos_token_id
    codec.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", bos)]
    )
    assert levels(check_stops(codec, game, 10**6)) == ["warning"]
