"""Lesson 2: a baseline. Compare each game with the other games of the same secret.

    lesson 1    advantage = reward
    now         advantage = reward - mean reward of the group

In lesson 1 a loss taught nothing, and a win of an easy secret as much as one of a hard secret. Now a game is pushed up
if it did better than its group, and down if it did worse. What is subtracted is the same for all games of a group, so
the gradient keeps its direction on average, and what does not matter drops out: add 10 to every reward, and nothing
changes here, while lesson 1, `main(offset=10.0)`, pushes up whatever was played and ends below the beginner.

A group whose games all earned the same has no better and no worse, and teaches nothing. This is GRPO (arXiv:2402.03300)
without the division by the group's standard deviation, which biases it (Dr. GRPO, arXiv:2503.20783).

Next: 03_credit.py asks which turn of a game earned the reward.
"""

import torch
from classroom import CODEC, REWARD, SOLVER, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.train.advantages import game_advantages, is_constant
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.scored_games import Scored, rows_of


def main(steps: int = 30) -> float:
    """Train a beginner, and return the win rate."""
    model = beginner()
    optimizer, scorer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0), Scorer(model)
    print(f"a beginner wins {win_rate(model):.0%}")

    num_silent = 0
    for step in range(steps):
        groups = play_groups(model, seed=step)
        rows = []
        for group in groups:
            rewards = [REWARD.score(game.transcript, SOLVER) for game in group]
            advantages = game_advantages([reward.turn_rewards for reward in rewards])
            num_silent += is_constant(advantages)
            for scored in map(Scored, group, rewards, advantages):
                rows += rows_of(scored, CODEC)  # tokens, loss mask, the advantage of its turn for every action
        batch = batch_of(rows)
        logprobs = scorer(batch)[0]  # (N,): of all actions, laid end to end
        update(optimizer, -(batch.weights * batch.advantages * logprobs).sum())
        show(step, groups)

    print(f"{num_silent} of {steps * len(groups)} groups taught nothing")
    won = win_rate(model)
    print(f"after {steps} steps of {len(rows)} games it wins {won:.0%}")
    return won


if __name__ == "__main__":
    main()
