"""Lesson 6: a penalty. What does it cost to stay near the player that training began with?

    lesson 5    loss = clipped policy loss
    now         loss = clipped policy loss + beta KL(player || start)

A language model knows more than the reward asks for: how to spell, how to write. Nothing in the reward protects that.
The field adds the Kullback-Leibler divergence from the frozen start, the reference: it counts, in nats a token, how far
the player has moved, and pulls back. It is estimated from the sampled tokens alone. With r = p_start / p_player,
`r - 1 - log r` is never negative and right on average.

What you will see: three strengths of the penalty. A small beta changes neither the wins nor the distance by more than
another processor would. A large one is an anchor, and both columns fall: most of what there is to learn lies further
from the start than it allows. It also needs the reference in memory, and a pass of it over every game.

Source: Schulman 2020, "Approximating KL divergence" (the estimator k3); Ziegler et al. 2019, arXiv:1909.08593 (the
penalty).

Next: 07_rate.py asks how long a step may be.
"""

import copy

import torch
from classroom import adamw, batch_of, beginner, play_groups, update, weighed, win_rate

from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import policy_loss

STEPS = 10
UPDATES = 4  # of the same games
BETAS = (0.0, 0.05, 0.5)


def train(beta: float, seed: int) -> tuple[float, float]:
    """Train a beginner, and return the win rate and the divergence from the start in nats a token."""
    model = beginner()
    start = Scorer(copy.deepcopy(model))
    optimizer, scorer = adamw(model), Scorer(model)
    for step in range(STEPS):
        batch = batch_of(weighed(play_groups(model, seed=1000 * seed + step)))
        with torch.no_grad():
            reference = start(batch)[0]  # (N,): the same actions under the start
        for _ in range(UPDATES):
            logprobs = scorer(batch)[0]  # (N,): of all actions, laid end to end
            loss, figures = policy_loss(
                logprobs,
                batch.sampler_logprobs,
                batch.advantages,
                batch.weights,
                reference_logprobs=reference,
                beta=max(beta, 1e-9),  # with 0 the divergence would not be computed
            )
            update(optimizer, loss)
    return win_rate(model), float(figures["kl"] / len(logprobs))


def main(seed: int = 0) -> dict[float, tuple[float, float]]:
    """Return the win rate and the divergence for every beta."""
    print(f"a beginner wins {win_rate(beginner()):.0%}")
    found = {}
    for beta in BETAS:
        found[beta] = train(beta, seed)
        print(f"beta {beta:4}: wins {found[beta][0]:.0%}, {found[beta][1]:.3f} nats a token from its start")
    return found


if __name__ == "__main__":
    main()
