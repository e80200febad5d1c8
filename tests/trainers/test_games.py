"""Laws of the games that other trainers play: a row names them without their secret, and tokens are our rollout's."""

import math

import pytest

pytest.importorskip("transformers")

from chat_families import family_tokenizer
from other_loops import GIVEN, KINDS, SETTINGS, TASK, ours, replies_of

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import WordSettings
from wordle_rl.env import StopReason
from wordle_rl.game import Outcome
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.trainers.games import BoardTask, LiveGame, LoopSettings, TokenEnv, game_source, task_of


def told(game: LiveGame) -> tuple[str, ...]:
    """Text of a player's opening prompt."""
    return tuple(message["content"] for message in game.prompt)


def test_the_games_of_a_row_share_secret_and_prefix_guesses() -> None:
    row = {"prompt": "…", "other": 1, **TASK.model_dump(mode="json")}
    source = game_source(SETTINGS)
    group = [source.open(task_of(row)) for _ in range(4)]
    assert len({told(game) for game in group}) == 1
    for game in group:
        for reply in replies_of("lost", source):
            game.step(reply)
    assert {game.env.transcript().secret for game in group} == {source.context.split.train[7]}
    assert [turn.turn.guess for turn in group[0].env.transcript().turns if turn.is_prefix] == list(GIVEN)


def test_no_row_holds_a_secret() -> None:
    source = game_source(SETTINGS)
    for task in source.tasks("test", 20, max_given=3, seed=1):
        secret = source.context.split.test[task.index]
        assert secret not in task.model_dump_json()
        assert secret not in "".join(told(source.open(task)))


def test_prefix_guesses_are_drawn_by_seed() -> None:
    source = game_source(SETTINGS)
    again = source.tasks("train", 30, max_given=3, seed=5)
    assert again == source.tasks("train", 30, max_given=3, seed=5) != source.tasks("train", 30, max_given=3, seed=6)
    assert {len(task.given) for task in again} == {0, 1, 2, 3}
    assert len(source.tasks("val")) == len(source.context.split.val)


def test_no_training_game_has_a_strict_word_on_its_board() -> None:
    words = WordSettings(strict_fraction=0.1)
    source = game_source(LoopSettings(words=words, reward_preset="strict_xml"))
    strict = set(source.context.split.strict)
    drawn = {word for task in source.tasks("train", max_given=5, seed=5) for word in task.given}
    free = {word for task in game_source(SETTINGS).tasks("train", max_given=5, seed=5) for word in task.given}
    assert strict & free, "without the rule they would stand on boards"
    assert not strict & drawn
    held_out = source.context.split.test.index(min(strict))
    assert source.open(BoardTask(split="test", index=held_out)).env.turns == ()


def test_a_game_without_tokens_is_a_loss_that_does_not_pay() -> None:
    source = game_source(LoopSettings(reward_weights={"format": 1.0}, keep_order=False))
    whole, cut = source.open(TASK), source.open(TASK)
    lost = math.fsum(whole.step(reply).reward for reply in replies_of("lost", source))
    early = cut.step(replies_of("lost", source)[0]).reward
    assert early + cut.truncate() < lost == early
    assert cut.env.transcript().stop_reason is StopReason.TOKEN_BUDGET


def test_a_game_that_never_began_is_truncated_without_a_reward() -> None:
    game = game_source(SETTINGS).open(TASK)
    assert (game.truncate(), game.over, game.breakdown) == (0.0, True, None)


def test_settings_that_a_growing_conversation_cannot_follow_are_refused() -> None:
    with pytest.raises(ValueError, match=r"game\.shape"):
        LoopSettings.model_validate({"game": {"shape": "state"}})
    with pytest.raises(ValueError, match="reward_preset 'best'"):
        LoopSettings(reward_preset="best")
    with pytest.raises(ValueError, match="reward_preset and reward_weights"):
        LoopSettings(reward_preset="shaped", reward_weights={"win": 1.0})


def test_a_row_that_names_no_game_is_refused() -> None:
    with pytest.raises(ConfigError):
        task_of({"prompt": "…"})
    with pytest.raises(ConfigError, match="99999"):
        game_source(SETTINGS).open(BoardTask(index=99_999))
    with pytest.raises(ConfigError, match="max_given"):
        game_source(SETTINGS).tasks("train", 1, max_given=6)


def test_rules_and_wording_are_those_of_the_settings() -> None:
    source = game_source({"game": {"hard_mode": True, "style": "symbols", "max_turns": 4}})
    game = source.open(BoardTask(index=0, given=("crane",)))
    secret = source.context.split.train[0]
    assert set(secret) & set("crane"), "the first secret must share a letter for hard mode to bite"
    game.step("<guess>pulpy</guess>")
    assert game.env.turns[-1].outcome is Outcome.HARD_MODE


# The same games over token ids: those of our own rollouts, bit for bit in the mask.


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


def test_a_completion_cut_short_is_closed_but_not_trained_to_stop(codec: ChatCodec) -> None:
    env = TokenEnv(game_source(SETTINGS).open(TASK), codec)
    cut = codec.reply_ids("<guess>house</guess>")[:-2]
    after = env.step(cut).next_ids[len(env.initial_ids) :]
    assert [*after[: len(cut) + 1]] == [*cut, codec.turn_end_ids[0]]
    assert env.game.env.played[-1].overlong


def test_a_game_too_long_for_the_trainer_is_lost() -> None:
    codec = ChatCodec(family_tokenizer("qwen3"))
    source = game_source(SETTINGS)
    opening = TokenEnv(source.open(TASK), codec).initial_ids
    env = TokenEnv(source.open(TASK), codec, max_prompt_tokens=len(opening) + 5)
    step = env.step(codec.reply_ids("<guess>house</guess>"))
    assert (step.done, step.next_ids) == (True, ())
    assert env.game.env.transcript().stop_reason == "token_budget"
    assert math.isclose(step.reward, env.game.breakdown.total)
