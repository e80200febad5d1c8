"""Lesson 8: expert iteration. Keep the best games, and learn them as if a teacher had played them.

    lesson 6    all games, each action weighed by its advantage
    now         the shortest wins of each group, each action weighed by 1:      loss = - mean log p(token)

That is supervised fine-tuning on the player's own best games; the field also says rejection sampling. Losses teach
nothing again, as in lesson 1; in return there is no advantage, no ratio, no clipping and no reference to keep in
memory. Two different wins of a group are kept, and a reply that broke a rule is not learnt even in a game that was won
in the end.

What you will see: as many wins from 640 games as lesson 1 had from 1,920. The control keeps two games of each group
whatever came of them: as many updates without the choice, and where they lead is chance (2, 8 and 25 % by seeds 0 to
2).

Source: STaR, arXiv:2203.14465; RAFT, arXiv:2304.06767.

Next: 09_hindsight.py learns from losses as well.
"""

from classroom import REWARD, SOLVER, adamw, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.train.example import Example
from wordle_rl.train.expert_iteration import best_games, examples_of
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import cross_entropy
from wordle_rl.train.scored_games import Scored

STEPS = 10
UPDATES = 4  # of the same games
KEPT = 2  # of the 16 games of a group


def train(seed: int, *, best: bool) -> float:
    """Train a beginner on the best of its games, or on the first ones, and return the win rate."""
    model = beginner()
    optimizer, scorer = adamw(model), Scorer(model)
    for step in range(STEPS):
        groups = play_groups(model, seed=1000 * seed + step)
        rows: list[Example] = []
        for group in groups:
            scored = [Scored(game, REWARD.score(game.transcript, SOLVER), ()) for game in group]
            for game in best_games(scored, KEPT) if best else scored[:KEPT]:
                rows += examples_of(game)
        batch = batch_of(rows)
        for _ in range(UPDATES):
            logprobs = scorer(batch)[0]  # (N,): of all learnt actions, laid end to end
            update(optimizer, cross_entropy(logprobs, batch.weights))
        show(step, groups)
    return win_rate(model)


def main(seed: int = 0) -> tuple[float, float]:
    """Return the win rates after learning the best games, and after learning any."""
    print("two of the best games of each group:")
    chosen = train(seed, best=True)
    print("the first two games of each group:")
    any_two = train(seed, best=False)
    print(f"after {STEPS} rounds of 64 games: {chosen:.0%} with the choice, {any_two:.0%} without")
    return chosen, any_two


if __name__ == "__main__":
    main()
