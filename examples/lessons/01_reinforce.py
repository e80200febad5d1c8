"""Lesson 1: REINFORCE. Play games, and make the tokens of those that were won likelier.

    loss = - mean over tokens (reward x log p(token))

A game is one sequence of tokens. What the game says is observation, what the player sampled is action:

    5x3 <|reply|> <guess>belly</guess><|end|> bXeGlXlXyX <|reply|> <guess>hertz</guess><|end|>
    observation   `------- action ---------'   observation         `------- action ---------'

The loss counts actions only, each under everything that stands before it. That is all: the gradient of the loss is, on
average, the gradient of the expected reward. No example of good play is needed, and no gradient of the game.

Source: Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning".

Next: 02_baseline.py asks what a reward is compared with.
"""

import torch
from classroom import CODEC, REWARD, SOLVER, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.chat.masks import mask_picture
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.scored_games import Scored, rows_of


def main(steps: int = 30, offset: float = 0.0) -> float:
    """Train a beginner, and return the win rate; `offset` is added to every reward."""
    model = beginner()
    optimizer, scorer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0), Scorer(model)
    print(f"a beginner wins {win_rate(model):.0%}")

    for step in range(steps):
        groups = play_groups(model, seed=step)
        rows = []
        for group in groups:
            rewards = [REWARD.score(game.transcript, SOLVER) for game in group]
            # Every turn of a game is credited with the reward of the whole game.
            advantages = [(reward.total + offset,) * len(reward.turn_rewards) for reward in rewards]
            for scored in map(Scored, group, rewards, advantages):
                rows += rows_of(scored, CODEC)  # tokens, loss mask, the advantage of its turn for every action
        batch = batch_of(rows)
        logprobs = scorer(batch)[0]  # (N,): of all actions, laid end to end
        update(optimizer, -(batch.weights * batch.advantages * logprobs).sum())
        show(step, groups)

    print("one row, actions in brackets:", mask_picture(CODEC, rows[0].token_ids, rows[0].loss_mask))
    won = win_rate(model)
    print(f"after {steps} steps of {len(rows)} games it wins {won:.0%}")
    return won


if __name__ == "__main__":
    main()
