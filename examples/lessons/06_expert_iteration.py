"""Lesson 6: expert iteration. Keep the best games, and learn them as if a teacher had played them.

    lesson 5    all games, each action weighed by its advantage
    now         the shortest wins of each group, each action weighed by 1:      loss = - mean log p(token)

That is supervised fine-tuning on the player's own best games. Losses teach nothing again, as in lesson 1; in return
there is no advantage, no ratio, no clipping and no reference to keep in memory. Two different wins of a group are
kept, and a reply that broke a rule is not learnt even in a game that was won in the end.

Source: STaR, arXiv:2203.14465; RAFT, arXiv:2304.06767.

Next: 07_hindsight.py learns from losses as well.
"""

import torch
from classroom import REWARD, SOLVER, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.train.example import Example
from wordle_rl.train.expert_iteration import best_games, examples_of
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import cross_entropy
from wordle_rl.train.scored_games import Scored

UPDATES = 4  # of the same games
KEPT = 2  # of the 16 games of a group


def main(steps: int = 10) -> float:
    """Train a beginner, and return the win rate."""
    model = beginner()
    optimizer, scorer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0), Scorer(model)
    print(f"a beginner wins {win_rate(model):.0%}")

    for step in range(steps):
        groups = play_groups(model, seed=step)
        rows: list[Example] = []
        for group in groups:
            scored = [Scored(game, REWARD.score(game.transcript, SOLVER), ()) for game in group]
            for game in best_games(scored, KEPT):
                rows += examples_of(game)
        batch = batch_of(rows)
        for _ in range(UPDATES):
            logprobs = scorer(batch)[0]  # (N,): of all learnt actions, laid end to end
            update(optimizer, cross_entropy(logprobs, batch.weights))
        show(step, groups)

    won = win_rate(model)
    print(f"after {steps} steps, the last with {len(rows)} of 64 games kept, it wins {won:.0%}")
    return won


if __name__ == "__main__":
    main()
