"""Laws of the codec: ids that only grow, masks drawn as pictures, and templates of several families.

The templates are written here in the manner of those families, for a tokenizer trained here on a few lines.
"""

from itertools import product

import pytest

pytest.importorskip("transformers")

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from wordle_rl.chat.codec import ChatCodec, mask_picture
from wordle_rl.chat.templates import ChatTemplateError
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.prompt import Message, Prompter, Style, Thinking

CHATML = """\
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

# Forgets the thinking of every reply but the last, and shows an empty thought where there was to be none.
FORGETFUL = """\
{%- for m in messages %}
{%- set text = m.content %}
{%- if m.role == 'assistant' and '</think>' in text and not loop.last %}
{%- set text = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}
{{- '<|im_start|>' + m.role + '\\n' + text + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"""

LLAMA = """\
{{- '<|begin|>' }}
{%- for m in messages %}{{ '<|start|>' + m.role + '<|endhead|>\\n\\n' + m.content | trim + '<|eot|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant<|endhead|>\\n\\n' }}{% endif %}"""

GEMMA = """\
{{- '<bos>' }}{% set fold = namespace(text='') %}
{%- for m in messages %}
{%- if m.role == 'system' %}{% set fold.text = m.content + '\\n\\n' %}
{%- else %}{{- '<turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + fold.text + m.content | trim }}
{{- '<turn_end>\\n' }}{% set fold.text = '' %}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<turn>model\\n' }}{% endif %}"""

SPECIAL = ["<|pad|>", "<|im_start|>", "<|im_end|>", "<|begin|>", "<|start|>", "<|endhead|>", "<|eot|>", "<bos>"]
SPECIAL += ["<turn>", "<turn_end>"]
TEMPLATES = {"chatml": CHATML, "forgetful": FORGETFUL, "llama": LLAMA, "gemma": GEMMA}
ENDS = {"chatml": "<|im_end|>", "forgetful": "<|im_end|>", "llama": "<|eot|>", "gemma": "<turn_end>"}


@pytest.fixture(scope="module")
def byte_pairs() -> str:
    """A small byte-pair tokenizer as JSON, so that each test may give a fresh one its own template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    lines = [message["content"] for style in Style for message in Prompter(style=style).opening([scored("crane")])]
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(lines * 3, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer.to_str()


def scored(guess: str, secret: str = "trace") -> Turn:
    return Turn(guess, score_guess(secret, guess), Outcome.SCORED)


def tokenizer_with(template: str | None, byte_pairs: str, **special: str) -> PreTrainedTokenizerFast:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(byte_pairs), clean_up_tokenization_spaces=False, **special
    )
    fast.chat_template = template
    return fast


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


def check_prefixes(codec: ChatCodec, messages: list[Message]) -> None:
    ids, mask = codec.encode_game(messages)
    assert ids == rendered(codec, messages, False)[: len(ids)]
    assert len(mask) == len(ids)
    grown = codec.prompt_ids(messages[:-5])
    for at in range(len(messages) - 5, len(messages)):
        assert grown == rendered(codec, messages[:at], messages[at - 1]["role"] != "assistant")[: len(grown)]
        message = messages[at]
        grown += codec.reply_ids(message["content"]) if message["role"] == "assistant" else codec.bridge_ids(message)
    assert grown == ids


@pytest.mark.parametrize(
    ("style", "thinking"), [form for form in product(Style, Thinking) if form != (Style.SPELLED, Thinking.REQUIRED)]
)
def test_embedded_game_ids_grow_as_the_template_renders_them(
    codec: ChatCodec, style: Style, thinking: Thinking
) -> None:
    check_prefixes(codec, dialogue(Prompter(style=style, thinking=thinking), "r fits"))


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("family", ["chatml", "llama", "gemma"])
def test_game_ids_grow_as_other_templates_render_them(family: str, style: Style, byte_pairs: str) -> None:
    codec = ChatCodec(tokenizer_with(TEMPLATES[family], byte_pairs))
    check_prefixes(codec, dialogue(Prompter(style=style), "r fits"))


@pytest.mark.parametrize("family", TEMPLATES)
def test_the_closing_token_of_each_family_is_found(family: str, byte_pairs: str) -> None:
    codec = ChatCodec(tokenizer_with(TEMPLATES[family], byte_pairs, eos_token="<bos>", pad_token="<|pad|>"))
    end = codec.tokenizer.convert_tokens_to_ids(ENDS[family])
    assert codec.turn_end_ids == (end,)
    assert codec.stop_ids == {end, codec.tokenizer.convert_tokens_to_ids("<bos>")}
    assert codec.pad_id == codec.tokenizer.convert_tokens_to_ids("<|pad|>")
    assert ChatCodec(tokenizer_with(TEMPLATES[family], byte_pairs)).pad_id == end


PICTURES = {
    "chatml": "<|im_start|>user\n5x6<|im_end|>\n<|im_start|>assistant\n⟦<guess>crane</guess><|im_end|>⟧\n"
    "<|im_start|>user\ncYrGaGnXeG<|im_end|>\n<|im_start|>assistant\n⟦<guess>trace</guess><|im_end|>⟧",
    "llama": "<|begin|><|start|>user<|endhead|>\n\n5x6<|eot|><|start|>assistant<|endhead|>\n\n⟦<guess>crane</guess>"
    "<|eot|>⟧<|start|>user<|endhead|>\n\ncYrGaGnXeG<|eot|><|start|>assistant<|endhead|>\n\n⟦<guess>trace</guess><|eot|>⟧",
    "gemma": "<bos><turn>user\n5x6<turn_end>\n<turn>model\n⟦<guess>crane</guess><turn_end>⟧\n"
    "<turn>user\ncYrGaGnXeG<turn_end>\n<turn>model\n⟦<guess>trace</guess><turn_end>⟧",
}


def compact_game() -> list[Message]:
    prompter = Prompter(style=Style.COMPACT)
    messages = prompter.opening([scored("crane")])
    return [*messages, Message(role="assistant", content=prompter.reply("trace"))]


@pytest.mark.parametrize("family", PICTURES)
def test_the_mask_covers_replies_and_their_ends(family: str, byte_pairs: str) -> None:
    codec = ChatCodec(tokenizer_with(TEMPLATES[family], byte_pairs))
    assert mask_picture(codec, *codec.encode_game(compact_game())) == PICTURES[family]


def test_the_embedded_mask_is_the_template_s_own(codec: ChatCodec) -> None:
    ids, mask = codec.encode_game(compact_game())
    assert mask_picture(codec, ids, mask) == (
        "5x6<|reply|>⟦<guess>crane</guess><|end|>⟧cYrGaGnXeG<|reply|>⟦<guess>trace</guess><|end|>⟧"
    )
    own = codec.tokenizer.apply_chat_template(compact_game(), return_dict=True, return_assistant_tokens_mask=True)
    assert (own["input_ids"], own["assistant_masks"]) == (ids, mask)


# --- templates that rewrite -----------------------------------------------------------------------------------------


def test_earlier_thinking_is_kept_where_the_template_forgets_it(byte_pairs: str) -> None:
    codec = ChatCodec(tokenizer_with(FORGETFUL, byte_pairs))
    messages = dialogue(Prompter(thinking=Thinking.REQUIRED), "r fits")
    ids, mask = codec.encode_game(messages)
    assert codec.tokenizer.decode(ids).count("<think>r fits</think>") == 3
    assert codec.tokenizer.decode(rendered(codec, messages, False)).count("<think>r fits</think>") == 1
    assert codec.prompt_ids(messages[:-1]) == ids[: len(ids) - mask[::-1].index(0)]


def test_a_start_state_reads_as_the_same_board_reached_in_play(byte_pairs: str) -> None:
    codec = ChatCodec(tokenizer_with(FORGETFUL, byte_pairs))
    prompter = Prompter(thinking=Thinking.REQUIRED)
    played = codec.prompt_ids(prompter.opening())
    played += codec.reply_ids(prompter.reply("crane")) + codec.bridge_ids(prompter.feedback([scored("crane")]))
    assert codec.prompt_ids(prompter.opening([scored("crane")])) == played


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (None, "no chat template"),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "does not close an assistant turn"),
        ("{% for m in messages if m.role == 'user' %}{{ m.content }}<|eot|>{% endfor %}", "drops or repeats"),
        ("{% for m in messages %}{{ m.content * 2 }}<|eot|>{% endfor %}", "drops or repeats"),
    ],
)
def test_templates_without_readable_borders_are_refused(template: str | None, problem: str, byte_pairs: str) -> None:
    with pytest.raises(ChatTemplateError, match=problem):
        ChatCodec(tokenizer_with(template, byte_pairs))


# --- pieces ---------------------------------------------------------------------------------------------------------


def test_a_completion_cut_off_is_closed_and_a_finished_one_is_not(codec: ChatCodec) -> None:
    whole = codec.reply_ids("<guess>crane</guess>")
    assert codec.closed(whole) == []
    assert codec.closed(whole[:-1]) == [codec.turn_end_ids[0]]
    assert codec.closed([]) == [codec.turn_end_ids[0]]


@pytest.mark.parametrize("text", ["<guess>crane</guess>", "", " a\n", "<think>aG?</think>"])
def test_the_words_of_a_completion_lose_only_its_end(codec: ChatCodec, text: str) -> None:
    assert codec.text_of(codec.reply_ids(text)) == text
    assert codec.text_of(codec.encode(text)) == text


def test_warming_changes_nothing_but_time(codec: ChatCodec, tokenizer: PreTrainedTokenizerFast) -> None:
    messages = dialogue(Prompter(), "so")
    warmed = ChatCodec(tokenizer)
    warmed.warm(
        [m["content"] for m in messages if m["role"] == "assistant"],
        [m["content"] for m in messages[2:] if m["role"] == "user"],
    )
    assert warmed.encode_game(messages) == codec.encode_game(messages)


def test_conversations_must_alternate_and_prompts_end_with_the_user(codec: ChatCodec) -> None:
    user, reply = Message(role="user", content="a"), Message(role="assistant", content="b")
    with pytest.raises(ValueError, match="must alternate"):
        codec.encode_game([user, reply, reply])
    with pytest.raises(ValueError, match="must alternate"):
        codec.encode_game([user, reply, user, user])
    for messages in ([], [user, reply]):
        with pytest.raises(ValueError, match="must end with a message to the policy"):
            codec.prompt_ids(messages)
