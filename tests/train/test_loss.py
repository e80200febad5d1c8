"""The losses: hand arithmetic for every function, and for every loss the sign of what one step does."""

import pytest
import torch
from round_training import learner_of, token_logprobs
from torch import tensor
from training_fixtures import fast, small_model

from wordle_rl.train.example import Example
from wordle_rl.train.loss import CrossEntropy, Loss, PolicyLoss, PreferenceLoss, policy_loss


def test_the_clip_takes_away_what_could_still_be_gained_on_both_sides_and_is_counted() -> None:
    ratios, advantages, losses, slopes = tensor(
        [
            [1.0, 2.0, -2.0, -2.0],
            [1.1, 2.0, -2.2, -2.2],
            [1.5, 2.0, -2.56, 0.0],  # has gained enough
            [1.5, -2.0, 3.0, 3.0],  # became likelier though it was bad: nothing holds back the way down
            [0.5, -2.0, 1.6, 0.0],  # has lost enough
            [0.6, -1.0, 0.8, 0.0],
            [0.5, 2.0, -1.0, -1.0],  # became rarer though it was good: nothing holds back the way up
        ]
    ).T
    for place, weight in enumerate(torch.eye(7)):  # one token at a time
        logprobs = ratios.log().requires_grad_()
        loss, figures = policy_loss(logprobs, torch.zeros(7), advantages, weight, epsilon=0.2, epsilon_high=0.28)
        assert loss.item() == pytest.approx(losses[place].item())
        assert torch.allclose(torch.autograd.grad(loss, logprobs)[0], weight * slopes, atol=1e-6)
        assert (int(figures["clip_ratio/high_mean"]), int(figures["clip_ratio/low_mean"])) == (1, 2)


def test_the_gradient_of_the_penalty_is_that_of_the_divergence_from_policy_to_reference() -> None:
    """Of one softmax over five tokens: the mean over all tokens, drawn as the policy draws them."""
    generator = torch.Generator().manual_seed(0)
    logits, reference = torch.randn(2, 5, generator=generator)
    logits.requires_grad_()
    policy, beta = logits.log_softmax(-1), 0.3
    reference = reference.log_softmax(-1)
    expected = torch.autograd.grad(beta * (policy.exp() * (policy - reference)).sum(), logits, retain_graph=True)[0]
    drawn = policy.detach()
    weights = drawn.exp()  # tokens weigh what they are drawn with
    loss, figures = policy_loss(policy, drawn, torch.zeros(5), weights, reference_logprobs=reference, beta=beta)
    found = torch.autograd.grad(loss, logits)[0]
    assert torch.allclose(found, expected, atol=1e-6)
    assert float(expected.abs().max()) > 0.01
    assert float(loss.detach()) == pytest.approx(beta * float((drawn.exp() * (drawn - reference)).sum()), rel=1e-5)
    assert float(figures["kl"]) > 0


PROMPT = [40, 41, 42]


def row(reply: list[int], advantage: float) -> Example:
    """A row whose reply was drawn with a probability of exp(-3) a token."""
    before, after = [0.0] * len(PROMPT), [1.0] * len(reply)
    return Example(
        [*PROMPT, *reply],
        [0] * len(PROMPT) + [1] * len(reply),
        before + [advantage * one for one in after],
        before + [-3.0 * one for one in after],
    )


BETTER, WORSE = [7, 8, 9], [17, 18]
SIGNS: dict[str, Loss] = {
    "dapo": PolicyLoss("dapo"),
    "grpo": PolicyLoss("grpo"),
    "dr_grpo": PolicyLoss("dr_grpo", longest=3),
    "with a penalty": PolicyLoss("dapo", beta=0.1),
    "truncated importance": PolicyLoss("dapo", importance_cap=2.0),
    "dpo": PreferenceLoss(0.1),
}


DROPPING: dict[str, tuple[Loss, list[bool]]] = {
    "cross entropy": (CrossEntropy(), [True]),
    "policy": (PolicyLoss(), [False]),
    "policy, after the reference": (PolicyLoss(beta=0.1), [False, False]),
    "preference, after the reference": (PreferenceLoss(0.1), [False, True]),
}
"""Losses, and whether each of their forward passes drops out."""


@pytest.mark.parametrize("name", DROPPING)
def test_dropout_is_for_every_loss_but_that_of_the_policy_and_never_for_the_reference(name, tokenizer, codec) -> None:
    loss, expected = DROPPING[name]
    learner, found = learner_of(small_model(tokenizer), codec), []
    learner.start(fast(), 1)
    learner.remember_start()
    attention = learner.model.model.layers[0].self_attn
    attention.register_forward_pre_hook(lambda module, _: found.append(module.training))
    learner.update([[row(BETTER, 1.0), row(WORSE, -1.0)]], loss, 1)
    assert found == expected


@pytest.mark.parametrize("name", SIGNS)
def test_a_step_makes_the_better_reply_likelier_and_the_worse_one_rarer(name, tokenizer, codec) -> None:
    learner = learner_of(small_model(tokenizer), codec)
    learner.start(fast(), 1)
    learner.remember_start()

    @torch.no_grad()
    def likely() -> list[float]:
        return [float(token_logprobs(learner.model, PROMPT, reply).sum()) for reply in (BETTER, WORSE)]

    before = likely()
    learner.update([[row(BETTER, 1.0), row(WORSE, -1.0)]], SIGNS[name], 1)
    after = likely()
    assert after[0] > before[0]
    assert after[1] < before[1]
