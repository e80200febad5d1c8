"""Laws of the plain template: a base model without one gets it, a game reads the same however it is rendered."""

import copy
import resource

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.templates import (
    LINES_TEMPLATE,
    PLAIN_TEMPLATE,
    ChatTemplateError,
    changes_of,
    named_template,
    training_template,
)

GAME = [
    {"role": "system", "content": "Find the word."},
    {"role": "user", "content": "Your first guess?"},
    {"role": "assistant", "content": "<think>e or a?</think>\n<guess>crane</guess>"},
    {"role": "user", "content": "C(x) R(-)"},
    {"role": "assistant", "content": " <guess>roast</guess>\n"},
    {"role": "user", "content": "3 guesses left."},
]


@pytest.fixture(scope="module")
def without_template() -> PreTrainedTokenizerFast:
    """A tokenizer as GPT-2's: byte pairs, one special token that begins and ends texts, no template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([message["content"] for message in GAME], trainer)
    end = "<|endoftext|>"
    tokenizer.add_special_tokens([AddedToken(end, special=True, normalized=False)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=end, eos_token=end, unk_token=end)


def with_template(tokenizer: PreTrainedTokenizerFast, template: str) -> PreTrainedTokenizerFast:
    ours = copy.deepcopy(tokenizer)
    ours.chat_template = template
    return ours


def test_a_model_without_a_template_gets_the_plain_one(without_template) -> None:
    assert training_template(without_template) == PLAIN_TEMPLATE
    assert changes_of(PLAIN_TEMPLATE) == ("a plain template, since the model has none",)
    saved = with_template(without_template, PLAIN_TEMPLATE)
    assert training_template(saved) == PLAIN_TEMPLATE, "what is saved with the model is kept when it is loaded"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (
            PLAIN_TEMPLATE,
            "Find the word.\n\nUser:\nYour first guess?\n\nAssistant:\n<think>e or a?</think>\n<guess>crane</guess>"
            "<|endoftext|>\n\nUser:\nC(x) R(-)\n\nAssistant:\n",
        ),
        (
            LINES_TEMPLATE,
            "Find the word.\nYour first guess?\n<think>e or a?</think>\n<guess>crane</guess><|endoftext|>C(x) R(-)\n",
        ),
    ],
    ids=["plain", "lines"],
)
def test_a_game_reads_the_same_rendered_whole_and_turn_by_turn(template, text, without_template) -> None:
    codec = ChatCodec(with_template(without_template, template))
    for end in (2, 4, 6):
        assert codec.prompt_ids(GAME[:end]) == codec.rendered_ids(GAME[:end])
    assert codec.tokenizer.decode(codec.prompt_ids(GAME[:4])) == text


def test_a_template_is_named_or_in_a_file(without_template, tmp_path) -> None:
    assert named_template("lines") == LINES_TEMPLATE
    lines = with_template(without_template, LINES_TEMPLATE)
    assert training_template(lines) == LINES_TEMPLATE, "nothing about it must be changed for training"
    (tmp_path / "mine.jinja").write_text(PLAIN_TEMPLATE)
    assert named_template(str(tmp_path / "mine.jinja")) == PLAIN_TEMPLATE
    with pytest.raises(ChatTemplateError, match=r"model\.chat_template"):
        named_template(str(tmp_path / "none.jinja"))


def test_a_tokenizer_without_an_end_of_text_is_refused(without_template) -> None:
    endless = copy.deepcopy(without_template)
    endless.eos_token = None
    with pytest.raises(ChatTemplateError):
        training_template(endless)


ENDLESS = {
    "memory": "{{ 'x' * 10 ** 10 }}",
    "memory by doubling": "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "time": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "length": "{% for a in range(99999) %}a text of some length{% endfor %}",
    "more than the sandbox counts": "{% for a in range(999999999) %}{% endfor %}",
    "itself": "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_template_without_end_is_cut_off(what: str, without_template) -> None:
    template = ENDLESS[what] + LINES_TEMPLATE
    with pytest.raises(ChatTemplateError):
        training_template(with_template(without_template, template))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20, "of this process in KiB"


def thinker(prompt: str) -> str:
    return (
        "{% for m in messages %}{% if m.role == 'assistant' %}<a>{{ m.content }}{{ eos_token }}"
        "{% else %}<u>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<a>PROMPT{% endif %}"
    ).replace("PROMPT", prompt)


@pytest.mark.parametrize("closing", ["</think>", "</think>\n", "<think></think>"])
def test_a_prompt_that_ends_in_a_closed_thought_has_only_the_guess_taught(closing, without_template) -> None:
    frame = ChatCodec(with_template(without_template, thinker(closing))).frame
    assert frame.closes_thought
    assert frame.taught("<think>hm</think>\n<guess>crane</guess>") == "<guess>crane</guess>"


def test_a_prompt_that_opens_a_thought_by_another_tag_is_refused_by_that_tag(without_template) -> None:
    with pytest.raises(ChatTemplateError, match="START_THINKING"):
        ChatCodec(with_template(without_template, thinker("<|START_THINKING|>")))


def test_a_template_that_raises_is_refused_in_one_line_with_the_cause(without_template) -> None:
    for_tools = "{% for tool in tools %}{{ tool }}{% endfor %}" + thinker("")
    with pytest.raises(ChatTemplateError, match="NoneType") as refusal:
        training_template(with_template(without_template, for_tools))
    assert "\n" not in str(refusal.value)


def test_lines_begin_with_the_token_that_begins_every_text_of_the_model(without_template) -> None:
    starting = copy.deepcopy(without_template)
    starting.add_special_tokens({"bos_token": "<bos>"})
    first = [("<bos>", starting.bos_token_id)]
    starting.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=first)
    starting.chat_template = named_template("lines", starting)
    assert ChatCodec(starting).prompt_ids(GAME[:2])[0] == starting.bos_token_id
    assert named_template("lines", without_template) == LINES_TEMPLATE
