"""Lesson 7: hindsight. Once a game is over its secret is known, so every board of it has a right answer.

    lesson 6    the actions of the best games
    now         at every board of every game, won or lost: the secret

A win tells that one word was right, a loss that some were wrong. The revealed secret tells what every word would have
earned at that board: 1 for the secret, 0 for all others. So no game is lost on the learner. Over many secrets it learns
to name each word as often as it is the secret of such a board, which is what the marks allow.

What it cannot learn this way is to ask: a guess that cannot win but tells much is never a label.

Source: Andrychowicz et al. 2017, arXiv:1707.01495.

Next: 08_distillation.py asks somebody who knows better than the secret.
"""

import torch
from classroom import CODEC, PROMPTER, REWARD, SOLVER, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.train.example import Example
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import cross_entropy
from wordle_rl.train.scored_games import Scored, boards_of

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
            scored = [Scored(game, REWARD.score(game.transcript, SOLVER), ()) for game in group]
            for game in scored:
                for board, _, _ in boards_of(game.trajectory):
                    reply = CODEC.reply_ids(PROMPTER.reply(board.secret, ""))
                    mask = [0] * len(board.prompt_ids) + [1] * len(reply)
                    rows.append(Example([*board.prompt_ids, *reply], mask))
        batch = batch_of(rows)
        for _ in range(UPDATES):
            logprobs = scorer(batch)[0]  # (N,): of all learnt actions, laid end to end
            update(optimizer, cross_entropy(logprobs, batch.weights))
        show(step, groups)

    won = win_rate(model)
    print(f"after {steps} steps, the last with {len(rows)} boards, it wins {won:.0%}")
    return won


if __name__ == "__main__":
    main()
