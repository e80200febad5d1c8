"""Law of agreement: the same scripted tokens through every trainer give the same masks, rewards, credit and losses.

`agreement.json` beside `support/agreement.py` was computed by TRL's trainer over transformers, which a test here holds
it to. Each other trainer is held to it where it is installed: `make test-mlx`, `make test-verl`,
`make test-trainers`. Write it again with `python tests/support/agreement_trl.py`.
"""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from agreement import (
    CLIP,
    CREDITS,
    GAME_NUMBERS,
    GAMES,
    GROUP,
    LONGEST,
    LOSSES,
    TOLERANCE,
    WORDS,
    embedded_codec,
    examples,
    expected,
    full_logprobs,
    grouped,
    model,
    played,
    prompter,
    reply_of,
    segments,
    settings_of,
    turn_rewards,
)

from wordle_rl.chat.masks import mask_without_overlong
from wordle_rl.train.advantages import CREDITS as ESTIMATORS
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import PolicyLoss, Totals, policy_loss
from wordle_rl.train.micro_batches import Batch


def near(found: Any, wanted: Any) -> None:
    assert found == pytest.approx(wanted, abs=TOLERANCE)


def of_sampled(columns: list[list[float]]) -> list[float]:
    """The values of sampled tokens, game after game."""
    return expected().padded(columns)[expected().padded(expected().masks).bool()].tolist()


# Ours, over transformers: needed by every trainer, and run in every environment.


def test_the_table_has_the_tokens_masks_and_rewards_of_our_own_rollout() -> None:
    table, own = expected(), segments()
    assert [[list(s.prompt_ids), list(s.token_ids)] for s in own] == [list(pair) for pair in table.tokens]
    assert [list(s.loss_mask) for s in own] == table.masks
    stops = embedded_codec().stop_ids
    assert [mask_without_overlong(s, stops) for s in own] == table.masks_without_overlong
    assert table.masks != table.masks_without_overlong
    for found, wanted in zip(turn_rewards(played(embedded_codec())), table.rewards, strict=True):
        near(list(found), wanted)


@pytest.mark.parametrize(("credit", "scale"), CREDITS)
def test_the_table_has_our_own_credit(credit: str, scale: bool) -> None:
    rewards = [tuple(values) for values in expected().rewards]
    found = [list(v) for group in grouped(rewards) for v in ESTIMATORS[credit](group, scale=scale)]
    for ours, wanted in zip(found, expected().advantages[f"{credit} {scale}"], strict=True):
        near(ours, wanted)


def test_the_table_has_the_log_probabilities_of_transformers() -> None:
    for scale, wanted in ((0.12, expected().policy_logprobs), (0.1, expected().reference_logprobs)):
        for ours, theirs in zip(full_logprobs(model(scale)), wanted, strict=True):
            near(ours, theirs)


def test_the_table_leaves_the_clip_range_on_both_sides() -> None:
    table = expected()
    ratios = (table.padded(table.policy_logprobs) - table.padded(table.sampler_logprobs)).exp()
    assert ratios.min() < 1 - CLIP["epsilon"]
    assert ratios.max() > 1 + CLIP["epsilon_high"]
    assert ratios.max() < 3  # verl clips again beyond it


def weights_of_rows(name: str) -> list[float]:
    """Our weight of a token of each game."""
    counts = [sum(mask) for mask in expected().masks]
    return PolicyLoss(settings_of(name).loss_type, LONGEST).token_weights(counts, Totals(sum(counts), len(counts)))


@pytest.mark.parametrize("name", LOSSES)
def test_our_loss_gives_the_losses_of_the_table(name: str) -> None:
    """Ratios are to the sampler's stored log-probabilities here, so that they are clipped."""
    table, settings = expected(), settings_of(name)
    mask = table.padded(table.masks).bool()
    rows = mask.nonzero()[:, 0]
    loss, _ = policy_loss(
        table.padded(table.policy_logprobs)[mask],
        table.padded(table.sampler_logprobs)[mask],
        table.padded([table.along(number, "turn") for number in GAME_NUMBERS])[mask],
        torch.tensor(weights_of_rows(name))[rows],
        **CLIP,
        reference_logprobs=table.padded(table.reference_logprobs)[mask],
        beta=settings.beta,
    )
    near(loss.item(), table.losses[name])


# TRL: its own trainer.


@pytest.fixture(scope="module")
def trl_trainer(tmp_path_factory):
    """Makes TRL's trainer for a loss."""
    pytest.importorskip("trl.trainer.grpo_trainer")
    from agreement_trl import make_trl_trainer

    return lambda name: make_trl_trainer(name, tmp_path_factory.mktemp("trl"))


@pytest.mark.parametrize("name", LOSSES)
def test_trl_gives_the_losses_of_the_table(trl_trainer, name: str) -> None:
    from agreement_trl import trl_batch

    trainer = trl_trainer(name)
    loss = trainer._compute_loss(trainer.model, trl_batch("turn", expected()))
    near(loss.item(), expected().losses[name])
    assert abs(expected().losses[name]) > 10 * TOLERANCE


def test_trl_gives_the_log_probabilities_of_the_table(trl_trainer) -> None:
    from agreement_trl import trl_batch

    trainer, batch = trl_trainer("dapo"), trl_batch("turn", expected())
    ids, attention = (torch.cat([batch[f"prompt_{n}"], batch[f"completion_{n}"]], dim=1) for n in ("ids", "mask"))
    length = batch["completion_ids"].shape[1]
    with torch.no_grad():
        found = trainer._get_per_token_logps_and_entropies(trainer.model, ids, attention, length)[0]
    near(found[batch["tool_mask"].bool()].tolist(), of_sampled(expected().policy_logprobs))


@pytest.mark.parametrize("micro_batch_size", [1, 2, len(GAMES)])
@pytest.mark.parametrize("name", LOSSES)
def test_our_gradients_are_those_of_trl(trl_trainer, name: str, micro_batch_size: int) -> None:
    from agreement_trl import trl_batch

    policy, reference, settings = Scorer(model()), Scorer(model(0.1)), settings_of(name)
    rows, weights = examples("turn"), weights_of_rows(name)
    for first in range(0, len(rows), micro_batch_size):
        part = slice(first, first + micro_batch_size)
        batch = Batch.of(rows[part], weights[part], embedded_codec().pad_id)
        loss, _ = policy_loss(
            policy(batch)[0],
            batch.sampler_logprobs,
            batch.advantages,
            batch.weights,
            **CLIP,
            reference_logprobs=reference(batch)[0].detach(),
            beta=settings.beta,
        )
        loss.backward()
    trainer = trl_trainer(name)
    trainer._compute_loss(trainer.model, trl_batch("turn", expected())).backward()
    theirs = dict(trainer.model.named_parameters())
    for weight_name, weight in policy.model.named_parameters():
        assert torch.allclose(weight.grad, theirs[weight_name].grad, rtol=1e-3, atol=TOLERANCE), weight_name
    assert max(weight.grad.abs().max() for weight in theirs.values()) > 100 * TOLERANCE


# MLX.


@pytest.fixture(scope="module")
def on_mlx():
    """The policy and the reference of the table, on MLX."""
    pytest.importorskip("mlx")
    from wordle_rl.mlx.model import of_transformers

    return of_transformers(model()), of_transformers(model(0.1))


@pytest.mark.parametrize("micro_batch_size", [1, 2, len(GAMES)])
@pytest.mark.parametrize("name", LOSSES)
def test_mlx_gives_the_losses_of_the_table(on_mlx, name: str, micro_batch_size: int) -> None:
    """Ratios are to the sampler's stored log-probabilities here, so that they are clipped."""
    from wordle_rl.mlx.losses import MLXBatch, policy_loss, score

    policy, reference = on_mlx
    settings, rows, weights = settings_of(name), examples("turn"), weights_of_rows(name)
    loss = 0.0
    for first in range(0, len(rows), micro_batch_size):
        part = slice(first, first + micro_batch_size)
        batch = MLXBatch.of(rows[part], weights[part], embedded_codec().pad_id)
        found, _ = policy_loss(
            score(policy, batch).logprobs,
            batch.sampler_logprobs,
            batch.advantages,
            batch.weights,
            **CLIP,
            reference_logprobs=score(reference, batch).logprobs,
            beta=settings.beta,
        )
        loss += found.item()
    near(loss, expected().losses[name])


def test_mlx_gives_the_log_probabilities_of_the_table(on_mlx) -> None:
    from wordle_rl.mlx.losses import MLXBatch, score

    table = expected()
    batch = MLXBatch.of(examples(), [1.0] * len(GAMES), embedded_codec().pad_id)
    for network, columns in zip(on_mlx, (table.policy_logprobs, table.reference_logprobs), strict=True):
        near(score(network, batch).logprobs.tolist(), of_sampled(columns))


def test_games_on_mlx_have_the_tokens_and_masks_of_the_table(on_mlx) -> None:
    """Its sampler drives the same rollout; here replies are forced, and their log-probabilities are the model's."""
    from mlx_models import forced

    from wordle_rl.boards import InitialState
    from wordle_rl.rollout import play

    table = expected()
    replies = {number: [embedded_codec().reply_ids(text) if (text := reply_of(number, turn)) is not None
                        else embedded_codec().encode("<guess>") for turn in range(len(GAMES[number][1]))]
               for number in GAME_NUMBERS}  # fmt: skip
    games = play([InitialState(secret) for secret, _ in GAMES], WORDS, prompter(), forced(on_mlx[0], replies))
    for number, game in enumerate(games):
        [segment] = game.segments
        assert [list(segment.prompt_ids), list(segment.token_ids)] == list(table.tokens[number])
        assert list(segment.loss_mask) == table.masks[number]
        near(list(segment.sampler_logprobs), table.policy_logprobs[number])


# verl.


@pytest.fixture(scope="module")
def on_verl() -> tuple[torch.Tensor, torch.Tensor, Any]:
    """The games as verl's padded batch: rewards on the last tokens of turns, masks, groups."""
    pytest.importorskip("verl")
    import numpy as np

    table = expected()
    mask = torch.nn.functional.pad(table.padded(table.masks), (0, 0, 0, 1))  # verl fills a batch up with masked rows
    rewards = torch.zeros_like(mask)
    for number, values in enumerate(table.rewards):
        ends = [p for p, m in enumerate(table.masks[number]) if m and not (*table.masks[number], 0)[p + 1]]
        rewards[number, ends] = torch.tensor(values)
    groups = [*(f"group {number // GROUP}" for number in GAME_NUMBERS), "padding"]
    return rewards, mask, np.array(groups, dtype=object)


def at_turns(found: torch.Tensor, number: int) -> list[float]:
    """The values of a game where its turns begin."""
    mask = expected().masks[number]
    return found[number, [p for p, m in enumerate(mask) if m and not (0, *mask)[p]]].tolist()


@pytest.mark.parametrize(("credit", "scale"), CREDITS)
def test_verl_gives_the_credit_of_the_table(on_verl, credit: str, scale: bool) -> None:
    from wordle_rl.trainers.verl.trainer import credited

    rewards, mask, groups = on_verl
    found = credited(credit, rewards, mask, groups, scale=scale)
    for number in GAME_NUMBERS:
        near(at_turns(found, number), expected().advantages[f"{credit} {scale}"][number])
    assert not found[mask == 0].any()


@pytest.mark.parametrize("scale", [False, True])
def test_verls_own_estimator_gives_game_credit(on_verl, scale: bool) -> None:
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    found, _ = compute_grpo_outcome_advantage(*on_verl, norm_adv_by_std_in_grpo=scale)
    for number in GAME_NUMBERS:
        near(at_turns(found, number), expected().advantages[f"game {scale}"][number])


def test_verls_critic_is_taught_the_reward_of_this_turn_and_of_all_later_ones(on_verl) -> None:
    from verl.trainer.ppo.core_algos import compute_gae_advantage_return

    rewards, mask, _ = on_verl
    _, returns = compute_gae_advantage_return(rewards, torch.zeros_like(rewards), mask, gamma=1.0, lam=1.0)
    for number, earned in enumerate(expected().rewards):
        near(at_turns(returns, number), [sum(earned[turn:]) for turn in range(len(earned))])


@pytest.mark.parametrize("credit", ["turn", "guess"])
def test_verl_finds_our_estimators_by_their_names(on_verl, credit: str) -> None:
    from omegaconf import OmegaConf
    from verl.protocol import DataProto
    from verl.trainer.ppo.ray_trainer import compute_advantage

    from wordle_rl.trainers.verl.settings import CREDIT
    from wordle_rl.trainers.verl.trainer import credited

    rewards, mask, groups = on_verl
    data = DataProto.from_dict({"token_level_rewards": rewards, "response_mask": mask}, non_tensors={"uid": groups})
    config = OmegaConf.create({"norm_adv_by_std_in_grpo": False})
    done = compute_advantage(data, adv_estimator=CREDIT[credit], config=config)
    assert torch.equal(done.batch["advantages"], credited(credit, rewards, mask, groups, scale=False))


def test_verl_gives_the_log_probabilities_of_the_table() -> None:
    pytest.importorskip("verl")
    from verl.utils.torch_functional import logprobs_from_logits

    table, network = expected(), model()
    for (prompt, completion), mask, wanted in zip(table.tokens, table.masks, table.policy_logprobs, strict=True):
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([[*prompt, *completion]])).logits[:, len(prompt) - 1 : -1]
        found = logprobs_from_logits(logits, torch.tensor([completion]), inplace_backward=False)[0]
        near((found * torch.tensor(mask)).tolist(), wanted)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "grpo by sequence"])
def test_verl_gives_the_losses_of_the_table(name: str) -> None:
    """Its own loss, with the way to sum up and the penalty that our translation names."""
    core = pytest.importorskip("verl.trainer.ppo.core_algos")
    from wordle_rl.trainers.verl.settings import _AGGREGATION

    table, settings = expected(), settings_of(name)
    mask = table.padded(table.masks)
    how = _AGGREGATION[settings.loss_type]
    divisor = LONGEST if settings.loss_type == "dr_grpo" else None
    config = SimpleNamespace(
        clip_ratio=CLIP["epsilon"],
        clip_ratio_low=CLIP["epsilon"],
        clip_ratio_high=CLIP["epsilon_high"],
        global_batch_info={"loss_scale_factor": divisor},
        get=lambda key, default=None: {"clip_ratio_c": 3.0}.get(key, default),
    )
    policy = table.padded(table.policy_logprobs)
    loss, *_ = core.compute_policy_loss_vanilla(
        old_log_prob=table.padded(table.sampler_logprobs),
        log_prob=policy,
        advantages=table.padded([table.along(number, "turn") for number in GAME_NUMBERS]),
        response_mask=mask,
        loss_agg_mode=how,
        config=config,
    )
    if settings.beta:
        divergence = core.kl_penalty(policy, table.padded(table.reference_logprobs), "low_var_kl")
        loss = loss + settings.beta * core.agg_loss(divergence, mask, how)
    near(float(loss), expected().losses[name])
