"""Lesson 1: REINFORCE. Play games, and make the tokens of those that were won likelier.

    loss = - mean over tokens (reward x log p(token))

A game is one sequence of tokens. What the game says is observation, what the player sampled is action:

    5x3 <|reply|> <guess>belly</guess><|end|> bXeGlXlXyX <|reply|> <guess>hertz</guess><|end|>
    observation   `------- action ---------'   observation         `------- action ---------'

The loss counts actions only, each under everything that stands before it. That is all: the gradient of the loss is, on
average, the gradient of the expected reward. No example of good play is needed, and no gradient of the game.

What you will see: from 19 % of the games to about 50, in 1,920 games. `main(offset=10.0)` pays every game 10 more, and
fails: whatever was played is made likelier.

Source: Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning".

Next: 02_baseline.py asks how much of that gradient is signal.
"""

from classroom import CODEC, REWARD, SOLVER, adamw, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.chat.masks import mask_picture
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.scored_games import Scored, rows_of


def main(seed: int = 0, steps: int = 30, offset: float = 0.0) -> tuple[float, float]:
    """Return the win rate of a beginner after and before; `offset` is added to every reward."""
    model = beginner()
    optimizer, scorer = adamw(model), Scorer(model)
    before = win_rate(model)

    for step in range(steps):
        groups = play_groups(model, seed=1000 * seed + step)
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
    after = win_rate(model)
    print(f"a beginner wins {before:.0%}; after {steps} steps of {len(rows)} games it wins {after:.0%}")
    return after, before


if __name__ == "__main__":
    main()
