"""Laws of the arithmetic of time: by hand, for a step, an epoch, a run's metrics and a GPU's data sheet."""

import pytest

from wordle_rl.config import GRPOTraining
from wordle_rl.pipeline.token_costs import (
    GameTokens,
    Gpu,
    StepSize,
    TokenCosts,
    compare_epoch,
    compare_steps,
    gpu_costs,
    grpo_step_seconds,
    played_tokens,
    sft_epoch_seconds,
)

COSTS = TokenCosts(prefill_s=1.0, decode_s=10.0, training_s=3.0, sft_s=2.0, update_s=7.0)
GAME = GameTokens(prompt=100, turns=4, reply=8, feedback=6)


def row(step: int, **values: float) -> dict:
    """A step of a run whose games take 1 + 1 + 0.75 + 0.5 turns, of which nothing but times varies."""
    times = {"rollout": 1000.0, "logprobs": 0.5, "forward": 300.0, "backward": 500.0, "update": 6.0}
    by_turn = {1: 0.0, 2: 0.25, 3: 0.5, 4: 1.0}
    return {
        "stage": "grpo",
        "step": step,
        "reply_tokens": 8.0,
        "zero_variance_share": 0.5,
        **{f"win_rate_by_turn/{turn}": rate for turn, rate in by_turn.items()},
        **{f"seconds/{name}": seconds for name, seconds in times.items()},
        **values,
    }


def test_a_group_reads_its_prompt_once_and_every_game_its_feedback() -> None:
    seconds = grpo_step_seconds(COSTS, GAME, StepSize(groups=2, group_size=5))
    assert seconds["rollout"] == 2 * 100 * 1 + 2 * 5 * (3 * 6 * 1 + 4 * 8 * 10)
    assert seconds["training"] == 2 * 5 * (100 + 18 + 32) * 3
    assert (seconds["logprobs"], seconds["update"]) == (0, 7)


def test_groups_that_are_played_again_are_trained_on_once() -> None:
    once, again = (grpo_step_seconds(COSTS, GAME, StepSize(4, 2, redrawn)) for redrawn in (0.0, 0.5))
    assert again["rollout"] == 1.5 * once["rollout"]
    assert again["training"] == once["training"]


def test_a_reference_and_importance_ratios_are_a_scoring_each() -> None:
    plain, reference, both = (
        StepSize.of(GRPOTraining(beta=beta, max_importance_ratio=ratio, groups_per_step=3, group_size=2))
        for beta, ratio in ((0.0, None), (0.01, None), (0.01, 2.0))
    )
    assert [step.scorings for step in (plain, reference, both)] == [0, 1, 2]
    assert grpo_step_seconds(COSTS, GAME, both)["logprobs"] == 2 * 3 * 2 * 150


def test_the_policy_of_the_start_scores_a_part_of_the_first_micro_batch() -> None:
    sizes = ((0.0, 0), (0.0, 40), (0.01, 0))
    steps = [StepSize.of(GRPOTraining(beta=beta, micro_batch_size=size, groups_per_step=10)) for beta, size in sizes]
    assert [step.scored_by_start for step in steps] == [64, 40, 0]
    seconds = grpo_step_seconds(COSTS, GAME, StepSize(groups=2, group_size=5, scored_by_start=4))
    assert seconds["training"] == 2 * 5 * 150 * 3 + 4 * 150 * 1


def test_turns_of_a_step_come_from_its_win_rates() -> None:
    game = played_tokens(row(1), prompt=100, feedback=6, max_turns=4)
    assert game.turns == 1 + 1 + 0.75 + 0.5
    assert game.reply == 8


def test_a_run_is_compared_by_its_own_counts() -> None:
    rows = [row(1, scouted_win_rate=0.5, **{"seconds/rollout": 9e9}), row(2), row(3, **{"seconds/rollout": 3000.0})]
    found = compare_steps(rows, COSTS, StepSize(2, 4, redrawn=1.0), prompt=100, feedback=6, max_turns=4)
    rollout, training, update, step = found
    of_a_game = 2.25 * 6 + 3.25 * 8 * 10
    assert rollout.predicted_s == pytest.approx(2 * 1.5 * (100 + 4 * of_a_game))
    assert rollout.measured_s == 2000.0  # the median of the steps without a probe
    assert training.predicted_s == pytest.approx(8 * (100 + 2.25 * 6 + 3.25 * 8) * 3)
    assert (training.measured_s, update.predicted_s, update.measured_s) == (800.0, 7.0, 6.0)
    assert step.predicted_s == pytest.approx(rollout.predicted_s + training.predicted_s + 7)
    assert step.measured_s == 2806.0
    assert rollout.ratio == rollout.predicted_s / 2000


def test_a_run_of_probed_steps_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="1 steps of GRPO with times, each with a probe"):
        compare_steps([row(1, scouted_win_rate=0.5)], COSTS, StepSize(2, 4), 100, 6, 4)


def test_an_epoch_is_measured_between_logged_steps() -> None:
    assert sft_epoch_seconds(COSTS, games=10, tokens_per_game=50) == 1000
    rows = [{"stage": "sft", "loss": 1.0, "seconds": 10.0 + 40 * at, "epoch": at} for at in (0.25, 0.5, 1.0)]
    found = compare_epoch([*rows, {"stage": "sft", "seconds": 99.0, "validation_loss": 1.0}], COSTS, 10, 2)
    assert found is not None
    assert (found.predicted_s, found.measured_s, found.ratio) == (40.0, 40.0, 1.0)
    assert compare_epoch(rows[:1], COSTS, 10, 2) is None


def test_a_gpu_reads_weights_and_caches_for_every_token_of_its_games() -> None:
    gpu = Gpu(flops=1000, bandwidth=100, training_utilisation=0.5, prefill_utilisation=0.25, bandwidth_utilisation=0.5)
    costs = gpu_costs(gpu, parameters=10, cache_bytes=2, game=GAME, gpus=2, games_at_once=4)
    assert costs.training_s == costs.sft_s == 6 * 10 / 500 / 2
    assert costs.prefill_s == 2 * 10 / 250 / 2
    context = (100 + 150) / 2
    assert costs.decode_s == (2 * 10 + 4 * context * 2) / 50 / 4 / 2
    assert costs.update_s == 28 * 10 / 50 / 2


def test_a_sampled_token_never_costs_less_than_one_that_is_read() -> None:
    fast = Gpu(flops=1000, bandwidth=1e9)
    costs = gpu_costs(fast, parameters=10, cache_bytes=2, game=GAME, gpus=1, games_at_once=4)
    assert costs.decode_s == costs.prefill_s
