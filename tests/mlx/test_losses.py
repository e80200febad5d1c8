"""Laws of the loss, against hand arithmetic; `test_games_agreement.py` compares it with other trainers'."""

import math

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import numpy as np

from wordle_rl.mlx.losses import LossTerms, grpo_loss, token_weights

RATIOS = [1.0, 1.5, 0.5, 1.5, 0.5]
ADVANTAGES = [2.0, 1.0, 1.0, -1.0, -1.0]


def terms(**changes) -> LossTerms:
    values = {
        "advantages": mx.array(ADVANTAGES),
        "sampler_logprobs": mx.full((5,), -1.0),
        "weights": mx.ones((5,)),
        "rows": mx.array([0, 0, 0, 1, 1]),
        "reference_logprobs": None,
    }
    return LossTerms(**{**values, **changes})


def policy() -> mx.array:
    return mx.array([-1.0 + math.log(ratio) for ratio in RATIOS])


def test_a_ratio_is_clipped_only_where_it_would_gain() -> None:
    """Gains stop at 1.28 and 0.8; a ratio that makes things worse counts in full."""
    loss, figures = grpo_loss(policy(), terms(), epsilon=0.2, epsilon_high=0.28)
    assert loss.item() == pytest.approx(-(2.0 + 1.28 + 0.5 - 1.5 - 0.8), abs=1e-6)
    assert (figures.clipped_low.item(), figures.clipped_high.item()) == (1, 1)
    assert figures.largest_ratio.item() == pytest.approx(1.5)


def test_what_is_clipped_has_no_gradient() -> None:
    gradient = mx.grad(lambda x: grpo_loss(x, terms(), epsilon=0.2, epsilon_high=0.28)[0])(policy())
    assert np.array(gradient) == pytest.approx([-2.0, 0.0, -0.5, 1.5, 0.0], abs=1e-6)


def test_a_better_turn_becomes_likelier_and_a_worse_one_less() -> None:
    gradient = mx.grad(lambda x: grpo_loss(x, terms(), epsilon=0.2, epsilon_high=0.28)[0])(mx.full((5,), -1.0))
    assert np.sign(np.array(gradient)).tolist() == [-1, -1, -1, 1, 1]


def test_a_ratio_per_row_is_the_geometric_mean_of_its_tokens() -> None:
    loss, _ = grpo_loss(policy(), terms(), epsilon=9.0, epsilon_high=9.0, by_sequence=True)
    first, second = (1.0 * 1.5 * 0.5) ** (1 / 3), (1.5 * 0.5) ** (1 / 2)
    assert loss.item() == pytest.approx(-(4.0 * first - 2.0 * second), abs=1e-5)


def test_the_penalty_is_zero_at_the_reference_and_grows_away_from_it() -> None:
    none = terms(advantages=mx.zeros((5,)))
    at = terms(advantages=mx.zeros((5,)), reference_logprobs=policy())
    away = terms(advantages=mx.zeros((5,)), reference_logprobs=policy() + 0.5)
    clip = {"epsilon": 0.2, "epsilon_high": 0.28}
    assert grpo_loss(policy(), none, **clip, beta=0.1)[0].item() == 0.0
    assert grpo_loss(policy(), at, **clip, beta=0.1)[0].item() == pytest.approx(0.0, abs=1e-7)
    loss, figures = grpo_loss(policy(), away, **clip, beta=0.1)
    assert loss.item() == pytest.approx(0.1 * sum(RATIOS) * (math.exp(0.5) - 1.5), abs=1e-5)
    assert figures.kl.item() == pytest.approx(5 * (math.exp(0.5) - 1.5), abs=1e-4)


@pytest.mark.parametrize(
    ("loss_type", "expected"),
    [("dapo", [0.2, 0.2, 0.2]), ("grpo", [1 / 12, 1 / 3, 0.0]), ("dr_grpo", [1 / 30, 1 / 30, 1 / 30])],
)
def test_weights_add_up_as_the_loss_is_named(loss_type, expected) -> None:
    masks = [[0, 1, 1, 1, 1], [1, 0], [0, 0]]
    assert token_weights(masks, 3, loss_type, 10) == pytest.approx(expected)
