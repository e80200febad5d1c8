"""Lesson 3: credit. Pay each turn for what came of it, not for the whole game.

    lesson 2    every turn: reward of the game          - mean over the group
    now         turn t:     rewards from turn t on      - mean over the games that played turn t

A win is now worth more the sooner it comes, and a guess that breaks the rules costs 0.2 at once. With one number for
the whole game a clumsy first guess shares in the praise for the third one. Rewards before a turn cannot depend on it,
so they are left out of its credit; and at turn 3 only games that are still open are compared with each other.

The turn's mean has fewer terms the later the turn, but which terms it has does not depend on the guess that it judges.
`tests/train/test_advantages_gradient.py` proves what that does to the gradient by counting out a whole small game.

Next: 04_clipping.py learns more than once from the same games.
"""

import torch
from classroom import CODEC, REWARD, SOLVER, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.train.advantages import is_constant, turn_advantages
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
            advantages = turn_advantages([reward.turn_rewards for reward in rewards])
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
