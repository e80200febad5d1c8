"""Laws of the check of a chat template: published families pass, and each fault is named with its mend."""

import pytest

pytest.importorskip("torch")

from chat_families import FAMILIES
from template_checks import codec_of, levels
from tokenizers import normalizers, processors

from wordle_rl.preflight.template import check_stops, check_template, sample_game
from wordle_rl.prompt import Message, Prompter, Shape, Style, Thinking


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("style", sorted({*Style} - {Style.SPELLED}))  # which has no thinking, as some families do
@pytest.mark.parametrize("name", FAMILIES)
def test_published_families_pass(name: str, style: Style, shape: Shape, small_words) -> None:
    codec, prompter = codec_of(name), Prompter(style, shape)
    game = sample_game(small_words, prompter)
    vocab_size = len(codec.tokenizer)
    assert check_template(codec, game, prompter.thinking) == []
    notes = check_stops(codec, game, vocab_size)
    assert levels(notes) == (["note"] if FAMILIES[name].eos != FAMILIES[name].end else [])
    assert all(repr(text) in note.message for note in notes for text in (FAMILIES[name].eos, FAMILIES[name].end))


def test_the_sample_game_is_a_game_by_the_rules(small_words) -> None:
    game = sample_game(small_words, Prompter())
    assert [message["role"] for message in game] == ["system", *["user", "assistant"] * 3]
    for message in game[2::2]:
        assert Prompter(thinking=Thinking.REQUIRED).parse(message["content"]).word in small_words
    alone = sample_game(small_words, Prompter(shape=Shape.STATE))
    assert [message["role"] for message in alone] == ["system", "user", "assistant"]


def test_prompts_that_open_or_close_thoughts_must_suit_the_game() -> None:
    game = [Message(role="user", content="a"), Message(role="assistant", content="b")]
    (opened,) = check_template(codec_of("deepseek-r1"), game, Thinking.OFF)
    assert opened.level == "problem"
    assert 'opens a thought in every prompt, but game.thinking is "off"' in opened.message
    closing = codec_of("qwen3", enable_thinking=False)
    (closed,) = check_template(closing, game, Thinking.REQUIRED)
    assert closed.level == "problem"
    assert "closes every thought" in closed.message
    for codec, thinking in ((closing, Thinking.OFF), (codec_of("deepseek-r1"), Thinking.REQUIRED)):
        assert check_template(codec, game, thinking) == []


def test_forms_of_thinking_that_a_model_was_not_made_for_are_noted() -> None:
    game = [Message(role="user", content="a"), Message(role="assistant", content="b")]
    (silent,) = check_template(codec_of("qwen3", enable_thinking=False), game, Thinking.OPTIONAL)
    assert silent.level == "note"
    assert "model.template_kwargs.enable_thinking" in silent.message
    (at_once,) = check_template(codec_of("qwen3"), game, Thinking.OFF)
    assert at_once.level == "note"
    assert "model.template_kwargs.enable_thinking to false" in at_once.message
    for name in ("qwen2.5", "llama3", "gemma3"):  # without thinking of their own
        assert check_template(codec_of(name), game, Thinking.OFF) == []


def test_a_tokenizer_that_reads_pieces_otherwise_than_the_whole_is_warned_of(small_words) -> None:
    codec = codec_of("qwen2.5")
    codec.tokenizer.backend_tokenizer.normalizer = normalizers.Prepend("_")
    (finding,) = check_template(codec, sample_game(small_words, Prompter()), Thinking.OPTIONAL)
    assert finding.level == "warning"
    assert "turn by turn" in finding.message


PLAIN_END = "{% for m in messages %}{{ m.role + ' ' + m.content + '>' }}{% endfor %}"


def test_a_turn_end_that_replies_hold_is_refused(small_words) -> None:
    game = sample_game(small_words, Prompter())
    codec = codec_of("qwen2.5", PLAIN_END)
    assert codec.frame.turn_end == ">"
    assert "problem" in levels(check_stops(codec, game, 10**6))
    assert "a turn ends with '>'" in check_stops(codec, game, 10**6)[0].message


def test_tokens_that_the_model_does_not_have_are_refused(small_words) -> None:
    codec = codec_of("qwen2.5")
    (finding,) = check_stops(codec, sample_game(small_words, Prompter()), codec.turn_end_ids[0])
    assert finding.level == "problem"
    assert "'<|im_end|>' as token" in finding.message


def test_words_the_tokenizer_cannot_write_are_refused(codec) -> None:
    foreign = [Message(role="user", content="naïve"), Message(role="assistant", content="crane")]
    (finding,) = check_stops(codec, foreign, len(codec.tokenizer))
    assert finding.level == "problem"
    assert "game.style" in finding.message


def test_a_template_that_leaves_out_the_first_token_of_all_texts_is_warned_of(small_words) -> None:
    codec = codec_of("llama3", "{% for m in messages %}{{ m.role + m.content + '<|eot_id|>' }}{% endfor %}")
    game = sample_game(small_words, Prompter())
    assert check_stops(codec, game, 10**6) == []
    bos = codec.tokenizer.bos_token_id
    codec.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", bos)]
    )
    (finding,) = check_stops(codec, game, 10**6)
    assert finding.level == "warning"
    assert "begin with '<|begin_of_text|>'" in finding.message
