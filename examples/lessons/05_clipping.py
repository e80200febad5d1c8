"""Lesson 5: clipping. May one learn sixteen times from the same games?

    lesson 4    loss = - A log p
    now         loss = - min(ratio A, clip(ratio, 0.8, 1.28) A)      ratio = p(token) now / p(token) when played

Playing costs more than learning, so games should be used more than once. But after the first update the games are those
of an older player: the field calls that off policy. The ratio (importance sampling) puts it right on average, as long
as old and new player are close. Nothing keeps them close: an action that paid is pushed further with every update, and
the ratio multiplies the push. Clipping takes its gradient away once a token has become 28 % likelier than it was when
it was played, or 20 % less likely. What a token still has to lose is never clipped.

What you will see: 8 batches of 64 games, 16 updates of each. With the clip the player learns from 512 games what
lesson 4 learnt from 960. Without it the player is driven off the words it can say, and ends there: every game is lost
alike, all groups are silent (lesson 3), and nothing leads back.

Source: PPO, arXiv:1707.06347; the larger upper bound, DAPO, arXiv:2503.14476.

Next: 06_kl.py keeps the player near its start.
"""

import math

from classroom import adamw, batch_of, beginner, play_groups, show, update, weighed, win_rate

from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import policy_loss

STEPS = 8
UPDATES = 16  # of the same games


def train(epsilon: float, epsilon_high: float, seed: int) -> float:
    """Train a beginner, and return the win rate."""
    model = beginner()
    optimizer, scorer = adamw(model), Scorer(model)
    largest = 1.0
    for step in range(STEPS):
        groups = play_groups(model, seed=1000 * seed + step)
        batch = batch_of(weighed(groups))  # also what every action was sampled with
        for _ in range(UPDATES):
            logprobs = scorer(batch)[0]  # (N,): of all actions, laid end to end
            loss, _ = policy_loss(
                logprobs,
                batch.sampler_logprobs,
                batch.advantages,
                batch.weights,
                epsilon=epsilon,
                epsilon_high=epsilon_high,
            )
            update(optimizer, loss)
            largest = max(largest, float((logprobs.detach() - batch.sampler_logprobs).exp().max()))
        show(step, groups)
    print(f"the largest ratio was {largest:.0f}")
    return win_rate(model)


def main(seed: int = 0) -> tuple[float, float]:
    """Return the win rates with and without clipping."""
    print("clipped:")
    clipped = train(0.2, 0.28, seed)
    print("not clipped:")
    free = train(math.inf, math.inf, seed)
    print(f"after 16 updates of each of 512 games the clipped player wins {clipped:.0%}, the other {free:.0%}")
    return clipped, free


if __name__ == "__main__":
    main()
