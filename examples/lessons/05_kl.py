"""Lesson 5: a penalty. Win more, and stay near the player that training began with.

    lesson 4    loss = clipped policy loss
    now         loss = clipped policy loss + 0.05 KL(player || start)

A language model knows more than the reward asks for: how to spell, how to write. Nothing in the reward protects that.
The penalty does: it counts, in nats a token, how far the player has moved from its start, and pulls back.

The KL divergence is estimated from the sampled tokens alone. With r = p_start / p_player, `r - 1 - log r` is never
negative and right on average (Schulman 2020). Set BETA to 0 to see how far lesson 4 went.

Next: 06_expert_iteration.py throws advantages away.
"""

import copy

import torch
from classroom import CODEC, REWARD, SOLVER, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.train.advantages import turn_advantages
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import policy_loss
from wordle_rl.train.scored_games import Scored, rows_of

UPDATES = 4  # of the same games
BETA = 0.05


def main(steps: int = 10, beta: float = BETA) -> tuple[float, float]:
    """Train a beginner, and return the win rate and the divergence from the start in nats a token."""
    model = beginner()
    start = Scorer(copy.deepcopy(model))
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
        show(step, groups)

    won, divergence = win_rate(model), float(figures["kl"] / len(logprobs))
    print(f"after {steps} steps of {len(rows)} games it wins {won:.0%}, {divergence:.3f} nats a token from its start")
    return won, divergence


if __name__ == "__main__":
    main()
