"""Lesson 4: clipping. Learn four times from the same games.

    lesson 3    loss = - A log p
    now         loss = - min(ratio A, clip(ratio, 0.8, 1.28) A)      ratio = p(token) now / p(token) when played

Playing costs more than learning, so games should be used more than once. But after the first update the games are those
of an older player. The ratio puts that right, as long as old and new player are close: once a token has become 28 %
likelier than it was when it was played, or 20 % less likely, it has had its share, and clipping takes its gradient
away. What a token still has to lose is never clipped.

At the first of the four updates all ratios are 1, and the gradient is that of lesson 3.

Source: PPO, arXiv:1707.06347; the larger upper bound, DAPO, arXiv:2503.14476.

Next: 05_kl.py keeps the player near its start.
"""

import torch
from classroom import CODEC, REWARD, SOLVER, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.train.advantages import turn_advantages
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import policy_loss
from wordle_rl.train.scored_games import Scored, rows_of

UPDATES = 4  # of the same games


def main(steps: int = 10) -> float:
    """Train a beginner, and return the win rate."""
    model = beginner()
    optimizer, scorer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0), Scorer(model)
    print(f"a beginner wins {win_rate(model):.0%}")

    for step in range(steps):
        groups = play_groups(model, seed=step)
        rows = []
        for group in groups:
            rewards = [REWARD.score(game.transcript, SOLVER) for game in group]
            advantages = turn_advantages([reward.turn_rewards for reward in rewards])
            for scored in map(Scored, group, rewards, advantages):
                rows += rows_of(scored, CODEC)  # also what every action was sampled with
        batch = batch_of(rows)
        for _ in range(UPDATES):
            logprobs = scorer(batch)[0]  # (N,): of all actions, laid end to end
            loss, figures = policy_loss(logprobs, batch.sampler_logprobs, batch.advantages, batch.weights)
            update(optimizer, loss)
        show(step, groups)

    clipped = (figures["clip_ratio/low_mean"] + figures["clip_ratio/high_mean"]) / len(logprobs)
    print(f"at the last update {clipped:.0%} of the tokens were clipped")
    won = win_rate(model)
    print(f"after {steps} steps of {len(rows)} games, a third of lesson 3's, it wins {won:.0%}")
    return won


if __name__ == "__main__":
    main()
