"""Laws of a teacher's thinking: taught in the form in which the model itself was made to write it.

The oracle is the makers' own template, given the thinking of a reply apart (`reasoning_content`). It shows the thinking
of the last reply alone; TRL's template for training shows that of every reply.
"""

from itertools import groupby

import pytest
from chat_families import family_tokenizer, published_template

from wordle_rl.chat.codec import ChatCodec, longest_reply
from wordle_rl.chat.templates import training_template
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.prompt import Message, Prompter, Shape, Style, Thinking
from wordle_rl.train.example import Example, encode_traces

THOUGHTS = ("r and a?\nSo crane.", "", "Only trace fits.")
GUESSES = (("crane", "YGGXG"), ("grace", "XGGYG"), ("trace", "GGGGG"))
TRACE = GameRecord(
    "trace",
    tuple(TurnRecord(guess, marks, thinking=said) for (guess, marks), said in zip(GUESSES, THOUGHTS, strict=True)),
)
STYLES = (Style.ENGLISH, Style.COMPACT, Style.TEXTARENA, Style.VERIFIERS)
# Templates by which models think, and whether their prompts open the thought.
THINKERS = {"qwen3": False, "qwen3_5_think": True, "qwen3_6": True}
ON = ({}, {"enable_thinking": True})


def tokenizer_of(template: str):
    return family_tokenizer("qwen3", published_template(template))


def trained_codec(template: str, variables: dict[str, bool]) -> ChatCodec:
    """The codec of a model as it is loaded, with the template that is saved with it."""
    tokenizer = tokenizer_of(template)
    tokenizer.chat_template = training_template(tokenizer, variables)
    return ChatCodec(tokenizer, variables)


def thought_apart(prompter: Prompter) -> list[dict[str, str]]:
    """The game as a client of a chat server holds it: the thinking of each reply beside its content."""
    messages: list[dict[str, str]] = [dict(message) for message in prompter.opening()]
    board = TRACE.board()
    for count, turn in enumerate(TRACE.turns, start=1):
        content = turn.guess.join(prompter.guess_tags)
        messages.append({"role": "assistant", "content": content, "reasoning_content": turn.thinking})
        if count < len(board):
            messages.append(dict(prompter.feedback(board[:count])))
    return messages


@pytest.mark.parametrize("style", STYLES)
def test_a_spoken_game_is_what_the_makers_template_makes_of_it(style) -> None:
    """Qwen3's drops the thinking of all replies before the last question."""
    codec, prompter = trained_codec("qwen3", {}), Prompter(style, Shape.SPOKEN)
    *_, last = encode_traces([TRACE], prompter, codec, 10**6).examples
    asked = last.token_ids[: last.loss_mask.index(1)]
    assert asked == rendered(tokenizer_of("qwen3"), thought_apart(prompter)[:-1], ask=True)


def rendered(tokenizer, messages, *, ask: bool = False, **variables: bool) -> list[int]:
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask, **variables)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def encoded(codec: ChatCodec, prompter: Prompter, trace: GameRecord = TRACE) -> tuple[Example, list[list[int]]]:
    """A game to train on, and the tokens of each of its trained replies."""
    (example,) = encode_traces([trace], prompter, codec, 10**6).examples
    pairs = zip(example.token_ids, example.loss_mask, strict=True)
    return example, [[token for token, _ in run] for trained, run in groupby(pairs, lambda pair: pair[1]) if trained]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("variables", ON, ids=["unset", "on"])
@pytest.mark.parametrize("template", THINKERS)
def test_each_taught_reply_is_what_the_makers_template_renders(template, variables, style) -> None:
    """Turn by turn, the thinking of the reply given apart; also of the reply that has none."""
    prompter = Prompter(style=style)
    stock, codec = tokenizer_of(template), trained_codec(template, variables)
    _, replies = encoded(codec, prompter)
    messages = thought_apart(prompter)
    ends = [end for end, message in enumerate(messages, start=1) if message["role"] == "assistant"]
    assert len(ends) == len(replies) == 3
    for end, reply in zip(ends, replies, strict=True):
        prompt = rendered(stock, messages[: end - 1], ask=True, **variables)
        whole = rendered(stock, messages[:end], **variables)
        assert whole[: len(prompt)] == prompt
        assert whole[len(prompt) : len(prompt) + len(reply)] == reply
        assert len(whole) - len(prompt) - len(reply) <= 1  # the line break after the closing token


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("variables", ON, ids=["unset", "on"])
def test_a_taught_game_is_the_one_that_trl_s_training_template_renders(variables, style) -> None:
    prompter, codec = Prompter(style=style), trained_codec("qwen3", variables)
    example, _ = encoded(codec, prompter)
    oracle = tokenizer_of("qwen3_training").apply_chat_template(
        thought_apart(prompter), return_dict=True, return_assistant_tokens_mask=True, **variables
    )
    length = len(example.token_ids)
    assert oracle["input_ids"][:length] == example.token_ids
    # TRL trains the line break after the closing token too, which no sampler would ever sample.
    after_end = [0, *(token in codec.stop_ids for token in oracle["input_ids"])]
    sampled = [int(m and not end) for m, end in zip(oracle["assistant_masks"], after_end, strict=False)]
    assert sampled == [*example.loss_mask, 0]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("thinking", [Thinking.OFF, Thinking.OPTIONAL])
@pytest.mark.parametrize("template", THINKERS)
def test_where_the_prompt_closes_the_thought_only_the_guess_is_taught(template, thinking, style) -> None:
    """Also of a teacher that thinks: a second thought after the closed one is no form of the model's."""
    variables = {"enable_thinking": False}
    prompter, codec = Prompter(style=style, thinking=thinking), trained_codec(template, variables)
    assert codec.frame.closes_thought
    example, replies = encoded(codec, prompter)
    assert [codec.text_of(reply) for reply in replies] == [guess.join(prompter.guess_tags) for guess, _ in GUESSES]
    stock, messages = tokenizer_of(template), thought_apart(prompter)
    opening = rendered(stock, messages[: -len(GUESSES) * 2 + 1], ask=True, **variables)
    assert example.token_ids[: len(opening)] == opening
    closed = codec.encode("<think>\n\n</think>\n\n")
    assert opening[-len(closed) :] == closed


def test_a_server_given_the_thinking_apart_reads_what_was_trained() -> None:
    prompter, codec = Prompter(), trained_codec("qwen3", {})
    example, _ = encoded(codec, prompter)
    messages = thought_apart(prompter)
    served = rendered(codec.tokenizer, messages)
    assert served[: len(example.token_ids)] == example.token_ids
    # Servers that cut thinking from a reply leave the line breaks between it and the guess.
    cut = [
        {**message, "content": "\n\n" * ("reasoning_content" in message) + message["content"]} for message in messages
    ]
    assert rendered(codec.tokenizer, cut) == served


@pytest.mark.parametrize("template", ["qwen2_5", "qwen3_instruct_2507"])
def test_a_model_without_thinking_of_its_own_is_taught_the_plain_form(template) -> None:
    prompter, codec = Prompter(), trained_codec(template, {})
    assert codec.frame.thought is None
    said = [codec.text_of(reply) for reply in encoded(codec, prompter)[1]]
    assert said == [prompter.reply(guess, thought) for (guess, _), thought in zip(GUESSES, THOUGHTS, strict=True)]


def test_conversations_of_others_stay_as_they_were_written() -> None:
    said = Message(role="assistant", content="<think>as I write</think><guess>trace</guess>")
    messages, codec = (*Prompter().opening(), said), trained_codec("qwen3", {})
    trace = GameRecord("trace", (TurnRecord("trace", "GGGGG"),), messages=messages)
    _, (reply,) = encoded(codec, Prompter(), trace)
    assert codec.text_of(reply) == said["content"]


def test_the_shortest_reply_of_a_model_that_thinks_has_room_for_its_empty_thought(small_words) -> None:
    plain, native = trained_codec("qwen2_5", {}), trained_codec("qwen3", {})
    empty = len(native.encode("<think>\n\n</think>\n\n"))
    lengths = [longest_reply(small_words, Prompter(), codec) for codec in (plain, native)]
    assert lengths[1] - lengths[0] == empty
    off = Prompter(thinking=Thinking.OFF)
    assert longest_reply(small_words, off, native) == longest_reply(small_words, off, plain)
