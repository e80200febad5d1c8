"""Laws of games over token ids: they are those of our own rollouts, token for token and bit for bit in the mask."""

import math

import pytest

pytest.importorskip("transformers")

from chat_families import family_tokenizer
from other_loops import KINDS, SETTINGS, TASK, ours, replies_of

from wordle_rl.chat.codec import ChatCodec, mask_picture
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.trainers.games import TokenEnv, game_source


@pytest.fixture(scope="module", params=["qwen3", "gemma3", "embedded"])
def codec(request) -> ChatCodec:
    return ChatCodec(make_tokenizer() if request.param == "embedded" else family_tokenizer(request.param))


def played(codec: ChatCodec, completions: list[list[int]]) -> tuple[list[int], list[int], float]:
    """All tokens, mask and reward of a game, put together as trainers do it: prompts less what came before."""
    env = TokenEnv(game_source(SETTINGS).open(TASK), codec)
    ids = list(env.initial_ids)
    mask, total = [0] * len(ids), 0.0
    for completion in completions:
        step = env.step(completion)
        ids += completion
        mask += [1] * len(completion)
        total += step.reward
        if not step.done:
            assert list(step.next_ids[: len(ids)]) == ids
            mask += [0] * (len(step.next_ids) - len(ids))
            ids = list(step.next_ids)
    assert env.game.over
    return ids, mask, total


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_mask_and_reward_are_the_rollouts(codec: ChatCodec, kind: str) -> None:
    mine = ours(kind, codec=codec)
    completions = [codec.reply_ids(reply) for reply in replies_of(kind, game_source(SETTINGS))]
    ids, mask, total = played(codec, completions)
    assert (ids, mask) == (mine.ids, mine.mask)
    assert math.isclose(total, mine.reward.total, abs_tol=1e-9)


def test_prefix_guesses_are_not_trained() -> None:
    codec = ChatCodec(family_tokenizer("qwen3"))
    completions = [codec.reply_ids(reply) for reply in replies_of("won", game_source(SETTINGS))]
    ids, mask, _ = played(codec, completions)
    picture = mask_picture(codec, ids, mask)
    assert "assistant\n<guess>crane</guess><|im_end|>" in picture
    assert "assistant\n⟦<think>Try the vowels.</think><guess>house</guess><|im_end|>⟧\n<|im_start|>user" in picture
    assert picture.count("⟦") == 2


def test_a_completion_cut_short_is_closed_but_not_trained_to_stop(codec: ChatCodec) -> None:
    env = TokenEnv(game_source(SETTINGS).open(TASK), codec)
    cut = codec.reply_ids("<guess>house</guess>")[:-2]
    step = env.step(cut)
    after = list(step.next_ids[len(env.initial_ids) :])
    assert after[: len(cut) + 1] == [*cut, codec.turn_end_ids[0]]
    assert env.game.env.played[-1].overlong


def test_a_game_too_long_for_the_trainer_is_lost() -> None:
    codec = ChatCodec(family_tokenizer("qwen3"))
    source = game_source(SETTINGS)
    opening = TokenEnv(source.open(TASK), codec).initial_ids
    env = TokenEnv(source.open(TASK), codec, max_prompt_tokens=len(opening) + 5)
    step = env.step(codec.reply_ids("<guess>house</guess>"))
    assert step.done
    assert step.next_ids == ()
    assert env.game.env.transcript().stop_reason == "token_budget"
    assert env.game.breakdown is not None
    assert math.isclose(step.reward, env.game.breakdown.total)
