"""Laws of agreement, token for token, between our codec and the `renderers` of PrimeIntellect.

They are what verifiers and prime-rl encode with. Opt-in: `make test-trainers`.
"""

import pytest

pytest.importorskip("renderers")

from chat_families import family_tokenizer
from other_loops import KINDS, TASK, replies_of
from renderers import Gemma4RendererConfig, Qwen3RendererConfig, create_renderer
from renderers.base import build_training_sample

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.masks import encode_game
from wordle_rl.prompt import Message
from wordle_rl.trainers.games import BoardTask, LoopSettings, game_source

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("default")]

# A policy is trained on what it said, so earlier thinking stays where it was sampled.
PAIRS = {
    "qwen3": ("qwen3", {}, Qwen3RendererConfig(thinking_retention="all")),
    "qwen3, thinking off": ("qwen3", {"enable_thinking": False}, Qwen3RendererConfig(enable_thinking=False)),
    "gemma4": ("gemma4", {}, Gemma4RendererConfig(thinking_retention="all")),
}
PREFILLED = "<think>\n\n</think>\n\n"


@pytest.fixture(params=PAIRS)
def pair(request):
    family, variables, config = PAIRS[request.param]
    tokenizer = family_tokenizer(family)
    return ChatCodec(tokenizer, variables), create_renderer(tokenizer, config)


def wire(messages) -> list[dict[str, str]]:
    return [dict(message) for message in messages]


@pytest.fixture(params=["english", "symbols", "textarena"])
def source(request):
    return game_source(LoopSettings.model_validate({"game": {"style": request.param}}))


def test_the_opening_is_the_same(pair, source) -> None:
    codec, renderer = pair
    for task in (BoardTask(index=7), TASK):
        opening = source.open(task).prompt
        assert renderer.render_ids(wire(opening), add_generation_prompt=True) == codec.prompt_ids(opening)


@pytest.mark.parametrize("kind", KINDS)
def test_a_game_grows_by_the_same_tokens(pair, kind) -> None:
    """Each turn's prompt, made from the last one and what was sampled, is the codec's."""
    codec, renderer = pair
    source = game_source(None)
    game = source.open(TASK)
    ids = codec.prompt_ids(game.prompt)
    for reply in replies_of(kind, source):
        completion = codec.reply_ids(reply)
        result = game.step(reply)
        if result.done:
            break
        bridged = renderer.bridge_to_next_turn(ids, completion, wire(result.messages))
        assert bridged is not None
        ids = [*ids, *completion, *codec.bridge_ids(result.messages[0])]
        assert bridged.token_ids == ids
    assert game.over


def test_a_reply_cut_at_its_limit_is_closed_the_same(pair) -> None:
    codec, renderer = pair
    game = game_source(None).open(TASK)
    ids, cut = codec.prompt_ids(game.prompt), codec.reply_ids("<guess>house</guess>")[:-2]
    feedback = game.step(codec.text_of(cut)).messages
    bridged = renderer.bridge_to_next_turn(ids, cut, wire(feedback))
    assert bridged.token_ids == [*ids, *cut, *codec.closed(cut), *codec.bridge_ids(feedback[0])]


def test_a_thought_cut_at_its_limit_is_the_difference() -> None:
    """They close the thought before they close the turn; ours trains on nothing that was not said."""
    tokenizer = family_tokenizer("qwen3")
    codec = ChatCodec(tokenizer)
    renderer = create_renderer(tokenizer, PAIRS["qwen3"][2])
    game = game_source(None).open(TASK)
    ids, cut = codec.prompt_ids(game.prompt), codec.encode("<think>house or")
    feedback = game.step(codec.text_of(cut)).messages
    theirs = renderer.bridge_to_next_turn(ids, cut, wire(feedback)).token_ids
    bridge = codec.bridge_ids(feedback[0])
    assert [*ids, *cut, *codec.closed(cut), *bridge] != theirs
    assert theirs == [*ids, *cut, *codec.encode("</think>"), *codec.turn_end_ids, *bridge]


def test_the_mask_of_a_whole_game_is_the_same(pair) -> None:
    """As SFT makes it; replies without thinking, which a full render would take out of earlier turns."""
    codec, renderer = pair
    source = game_source(None)
    game = source.open(TASK)
    messages = list(game.prompt)
    for reply in replies_of("lost", source)[:-1]:
        messages += [Message(role="assistant", content=reply), *game.step(reply).messages]
    sample = build_training_sample(renderer, wire(messages))
    ids, mask = encode_game(codec, messages)
    ask = len(ids) - len(sample.token_ids)  # ours ends where the next reply is asked for
    assert ask > 0
    assert sample.token_ids == ids[:-ask]
    theirs, prefilled = [int(flag) for flag in sample.loss_mask], codec.encode(PREFILLED)
    for place in range(len(theirs)):
        # The difference: they count a thought that the prompt opens and closes as sampled, ours does not.
        if ids[place : place + len(prefilled)] == prefilled and not mask[place]:
            theirs[place : place + len(prefilled)] = [0] * len(prefilled)
    assert theirs == mask[:-ask]
