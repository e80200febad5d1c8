"""Lesson 8: distillation. At every board the player comes to, a teacher says how good each word is.

    lesson 7    the secret                                  loss = - log p(secret)
    now         the teacher's distribution over words       loss = - sum_w q(w) log p(w)

The solver knows the list, searches, and gives every word a chance by what it costs: q(w) ~ exp(-regret(w) / 0.1), in
expected guesses. It also values guesses that only ask. The player still plays itself: it is taught on the boards that
its own mistakes lead to, which no book of the teacher's games would show (DAgger, arXiv:1011.0686).

The teacher speaks of words, the player of tokens. At "<guess>" the first letter gets the chances of all words that
begin with it, at "<guess>c" the second letter those of the words that begin with c, and so on.

Source: on-policy distillation, Agarwal et al. 2024, arXiv:2306.13649.

This was the last lesson. `wordle_rl/train/` has the same losses in loops that resume, validate and log.
"""

import random

import torch
from classroom import CODEC, PROMPTER, REWARD, SOLVER, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.teachers.distribution import SolverDistribution
from wordle_rl.train.distill import next_token_targets
from wordle_rl.train.example import Example
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import cross_entropy
from wordle_rl.train.scored_games import Scored, boards_of

UPDATES = 4  # of the same games


def main(steps: int = 10) -> float:
    """Train a beginner, and return the win rate."""
    model = beginner()
    optimizer, scorer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0), Scorer(model)
    teacher, rng = SolverDistribution(SOLVER, temperature=0.1, rules=PROMPTER.rules), random.Random(0)
    print(f"a beginner wins {win_rate(model):.0%}")

    for step in range(steps):
        groups = play_groups(model, seed=step)
        rows = []
        for group in groups:
            scored = [Scored(game, REWARD.score(game.transcript, SOLVER), ()) for game in group]
            for game in scored:
                for board, _, _ in boards_of(game.trajectory):
                    said = teacher(board.turns)
                    assert said is not None  # the secret is an answer, so some answer fits
                    replies = [CODEC.reply_ids(PROMPTER.reply(word, "")) for word in said.words]
                    drawn = said.draw(rng)
                    targets = next_token_targets(replies, said.chances, drawn)
                    mask = [0] * len(board.prompt_ids) + [1] * len(replies[drawn])
                    rows.append(Example([*board.prompt_ids, *replies[drawn]], mask, soft_targets=targets))
        batch = batch_of(rows)
        for _ in range(UPDATES):
            logprobs = scorer(batch)[0]  # (N,): expected under the teacher, of all learnt places
            update(optimizer, cross_entropy(logprobs, batch.weights))
        show(step, groups)

    won = win_rate(model)
    print(f"after {steps} steps, the last with {len(rows)} boards, it wins {won:.0%}")
    return won


if __name__ == "__main__":
    main()
