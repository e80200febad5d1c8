"""The losses: hand arithmetic for every function, and for every loss the sign of what one step does."""

import math

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, tensor
from training_fixtures import small_model

from wordle_rl.data.dataset import Example
from wordle_rl.train.logprobs import Scorer, Scores
from wordle_rl.train.loss import (
    Loss,
    PolicyLoss,
    PreferenceLoss,
    Totals,
    kl_estimate,
    policy_loss,
)
from wordle_rl.train.micro_batches import Batch

ONE = tensor([1.0])


def logs(*probabilities: float) -> Tensor:
    return tensor(probabilities).log()


def of_token(ratio: float, advantage: float, **options) -> tuple[float, float]:
    """Loss of one token that is now `ratio` times as likely, and its derivative by the log-probability."""
    logprobs = logs(0.1 * ratio).requires_grad_()
    loss, _ = policy_loss(logprobs, logs(0.1), tensor([advantage]), ONE, **options)
    loss.backward()
    return float(loss.detach()), float(logprobs.grad)


# --- functions ---


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.1, 2.0, -2.2, -2.2),
        (1.5, 2.0, -2.56, 0.0),  # has gained enough
        (1.5, -2.0, 3.0, 3.0),  # became likelier though it was bad: nothing holds back the way down
        (0.5, -2.0, 1.6, 0.0),  # has lost enough
        (0.5, 2.0, -1.0, -1.0),  # became rarer though it was good: nothing holds back the way up
    ],
)
def test_the_clip_takes_away_what_could_still_be_gained_on_both_sides(ratio, advantage, loss, gradient) -> None:
    assert of_token(ratio, advantage, epsilon=0.2, epsilon_high=0.28) == pytest.approx((loss, gradient), abs=1e-5)


def test_clipped_tokens_are_counted_on_their_side() -> None:
    ratios, advantages = tensor([1.5, 1.5, 0.5, 0.5, 0.5, 1.0]), tensor([1.0, -1.0, -1.0, -1.0, 1.0, 1.0])
    _, figures = policy_loss(ratios.log(), torch.zeros(6), advantages, torch.ones(6))
    assert (int(figures["clip_ratio/high_mean"]), int(figures["clip_ratio/low_mean"])) == (1, 2)


def test_a_kl_estimate_by_hand_and_its_mean_is_the_divergence() -> None:
    assert float(kl_estimate(tensor(math.log(2.0)))) == pytest.approx(2 - 1 - math.log(2))
    p, q = tensor([0.5, 0.3, 0.2]), tensor([0.2, 0.2, 0.6])
    estimates = kl_estimate(q.log() - p.log())
    assert (estimates >= 0).all()
    assert float((p * estimates).sum()) == pytest.approx(float((p * (p / q).log()).sum()))


def test_the_gradient_of_the_penalty_is_that_of_the_divergence_from_policy_to_reference() -> None:
    """Of one softmax over five tokens: the mean over all tokens, drawn as the policy draws them."""
    generator = torch.Generator().manual_seed(0)
    logits, reference = torch.randn(2, 5, generator=generator)
    logits.requires_grad_()
    policy, beta = logits.log_softmax(-1), 0.3
    reference = reference.log_softmax(-1)
    expected = torch.autograd.grad(beta * (policy.exp() * (policy - reference)).sum(), logits, retain_graph=True)[0]
    drawn = policy.detach()
    loss, figures = policy_loss(
        policy, drawn, torch.zeros(5), drawn.exp(), reference_logprobs=reference, beta=beta
    )  # tokens weigh what they are drawn with
    found = torch.autograd.grad(loss, logits)[0]
    assert torch.allclose(found, expected, atol=1e-6)
    assert float(expected.abs().max()) > 0.01
    assert float(loss.detach()) == pytest.approx(beta * float((drawn.exp() * (drawn - reference)).sum()), rel=1e-5)
    assert float(figures["kl"]) > 0


# --- losses ---


PROMPT = [40, 41, 42]


def row(reply: list[int], advantage: float | None = None, soft=()) -> Example:
    columns = {}
    if advantage is not None:
        values = [0.0] * len(PROMPT) + [advantage] * len(reply)
        columns = {"advantages": values, "sampler_logprobs": [-3.0 if value else 0.0 for value in values]}
    return Example([*PROMPT, *reply], [0] * len(PROMPT) + [1] * len(reply), soft_targets=soft, **columns)


def laid_out(loss: Loss, rows: list[Example]) -> Batch:
    counts = [sum(example.loss_mask) for example in rows]
    return Batch.of(rows, loss.token_weights(counts, Totals(sum(counts), len(rows))), 0)


def logprobs_of_rows(model, rows: list[Example]) -> list[float]:
    """Log-probability of each row's reply, one row at a time."""
    found = []
    with torch.no_grad():
        for example in rows:
            scores = model(input_ids=tensor([example.token_ids])).logits[0, :-1].log_softmax(-1)
            found.append(sum(float(scores[i - 1, example.token_ids[i]]) for i in range(3, len(example.token_ids))))
    return found


def after_a_step(model, loss: Loss, rows: list[Example], reference: Tensor | None = None, rate: float = 0.05) -> None:
    """One small step down the gradient."""
    scorer, batch = Scorer(model), laid_out(loss, rows)
    scores = Scores(*scorer(batch, loss.needs_entropy))
    if loss.needs_reference:
        batch.reference_logprobs = scores.logprobs.detach() if reference is None else reference
    value, _ = loss(scores, batch)
    model.zero_grad()
    value.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= rate * weight.grad


BETTER, WORSE = [7, 8, 9], [17, 18]
SIGNS: dict[str, Loss] = {
    "dapo": PolicyLoss("dapo"),
    "grpo": PolicyLoss("grpo"),
    "dr_grpo": PolicyLoss("dr_grpo", longest=3),
    "with a penalty": PolicyLoss("dapo", beta=0.1),
    "truncated importance": PolicyLoss("dapo", importance_cap=2.0),
    "dpo": PreferenceLoss(0.1),
}


@pytest.mark.parametrize("name", SIGNS)
def test_a_step_makes_the_better_reply_likelier_and_the_worse_one_rarer(name, tokenizer) -> None:
    model, rows = small_model(tokenizer), [row(BETTER, 1.0), row(WORSE, -1.0)]
    before = logprobs_of_rows(model, rows)
    after_a_step(model, SIGNS[name], rows)
    after = logprobs_of_rows(model, rows)
    assert after[0] > before[0]
    assert after[1] < before[1]
