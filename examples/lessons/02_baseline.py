"""Lesson 2: a baseline. How much of a gradient is signal, and what does subtracting a mean do to the rest?

    lesson 1    advantage = reward
    now         advantage = reward - mean reward of the group, the games of the same secret

The field calls what is subtracted a baseline, or control variate. It is the same for all games of a group, so the
gradient keeps its direction on average; what changes is its variance. A gradient from 64 games is signal plus noise.
Two gradients from different games share the signal alone, so their cosine measures it: 1 is all signal, 0 all noise.

What you will see: pay every game 10 more, which changes nothing about which play is best, and REINFORCE's gradient is
noise. With the group's mean subtracted it is what it was, bit for bit, because the 10 drops out. But also see that a
baseline is no free gift: where most rewards are 0, as here, REINFORCE's gradient is the *less* noisy one. It ignores
losses, and losses are long and full of unlikely tokens.

Groups as baselines are GRPO (arXiv:2402.03300); this is its form without the division by the group's standard
deviation, which biases it (Dr. GRPO, arXiv:2503.20783). `main(seed=1)` plays other games.

Source: Greensmith, Bartlett, Baxter 2004, "Variance reduction techniques for gradient estimates in reinforcement
learning". Next: 03_silent_groups.py asks when a group's mean leaves nothing.
"""

from collections.abc import Sequence

from classroom import agreement, beginner, earned, gradient_of, play_groups, weighed

from wordle_rl.rollout import Trajectory
from wordle_rl.train.advantages import TurnValues, game_advantages
from wordle_rl.train.logprobs import Scorer

BATCHES = 16  # of 64 games each


def whole_reward(turn_rewards: Sequence[TurnValues]) -> list[TurnValues]:
    """REINFORCE: every turn of a game is credited with the reward of the game."""
    return [(sum(rewards),) * len(rewards) for rewards in turn_rewards]


def main(seed: int = 0) -> dict[str, float]:
    """Return the agreement of gradients for both, with rewards as they are and 10 higher."""
    model = beginner()
    scorer = Scorer(model)
    batches = [play_groups(model, seed=1000 * seed + number) for number in range(BATCHES)]
    found = {}
    for offset in (0.0, 10.0):

        def reward(game: Trajectory, offset: float = offset) -> TurnValues:
            *before, last = earned(game)
            return (*before, last + offset)

        for name, credit in (("REINFORCE", whole_reward), ("baseline", game_advantages)):
            gradients = [gradient_of(scorer, weighed(groups, credit, reward)) for groups in batches]
            found[f"{name} + {offset:g}"] = agreement(gradients)
            print(f"{name:9}, rewards + {offset:2g}: gradients of 64 games agree to {agreement(gradients):.3f}")
    return found


if __name__ == "__main__":
    main()
