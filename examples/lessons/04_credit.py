"""Lesson 4: credit. Which turn of a game earned its reward?

    lesson 2    every turn: reward of the game          - mean over the group
    now         turn t:     rewards from turn t on      - mean over the games that played turn t

The field calls this credit assignment, and the rewards from a turn on its reward-to-go or return. With one number for
the whole game a clumsy first guess shares in the praise for the third one, and a good first guess in the blame for a
misspelt third one. Rewards before a turn cannot depend on it, so they are left out of its credit; and at turn 3 only
games that are still open are compared with each other.

What you will see: lesson 2's measure, from the same games. Gradients of 64 games agree twice as well, so that one batch
tells what more than two told before. Then both learn from 960 games. The second way is a few points ahead; 256 games of
an exam leave 6 points to chance, which lesson 14 is about.

The turn's mean has fewer terms the later the turn, but which terms it has does not depend on the guess that it judges.
`tests/train/test_advantages_gradient.py` proves what that does to the gradient by counting out a whole small game.

Source: Sutton and Barto 2018, "Reinforcement Learning: An Introduction", chapter 13 (REINFORCE with baseline).

Next: 05_clipping.py learns more than once from the same games.
"""

from classroom import adamw, agreement, batch_of, beginner, gradient_of, play_groups, update, weighed, win_rate, won

from wordle_rl.train.advantages import Credit, game_advantages, turn_advantages
from wordle_rl.train.logprobs import Scorer

BATCHES = 16  # of 64 games each, for the measure
STEPS = 15


def train(credit: Credit, seed: int) -> tuple[float, float]:
    """Train a beginner; return the fraction of the games won on the way, and the win rate in the end."""
    model = beginner()
    optimizer, scorer = adamw(model), Scorer(model)
    on_the_way = 0.0
    for step in range(STEPS):
        groups = play_groups(model, seed=1000 * seed + step)
        batch = batch_of(weighed(groups, credit))
        logprobs = scorer(batch)[0]  # (N,): of all actions, laid end to end
        update(optimizer, -(batch.weights * batch.advantages * logprobs).sum())
        on_the_way += won(groups) / STEPS
    return on_the_way, win_rate(model)


def main(seed: int = 0) -> dict[str, float]:
    """Return how well gradients agree with the credit of games, and with that of turns."""
    model = beginner()
    scorer = Scorer(model)
    batches = [play_groups(model, seed=1000 * seed + number) for number in range(BATCHES)]
    found = {}
    for name, credit in (("game", game_advantages), ("turn", turn_advantages)):
        found[name] = agreement([gradient_of(scorer, weighed(groups, credit)) for groups in batches])
        on_the_way, after = train(credit, seed)
        print(f"credit of the {name}: gradients of 64 games agree to {found[name]:.3f}; ", end="")
        print(f"of 960 games played {on_the_way:.0%} are won, of the exam's {after:.0%}")
    return found


if __name__ == "__main__":
    main()
