"""Lesson 7: the rate. How long may a step be, if most of its gradient is noise?

    lesson 4    AdamW, learning rate 0.001
    now         the same, with advantages dealt out at random; and with a learning rate of 0.01

AdamW divides every gradient by its own recent size, so a step is about as long as the learning rate says, whatever the
gradient holds. First control: shuffle the advantages among the actions. Nothing is left to learn, and yet the weights
walk nearly as far. Signal adds up over the steps while noise partly cancels; with short steps there is time for that.

What you will see: at the longer step there is none. Within a few steps the player can no longer say a listed word,
every game of every group earns the same, and the advantages are all 0. The field calls it collapse. Watch the silent
groups: waiting does not help, and nor does a lower rate afterwards, since no game says where the way back is.

Source: Kingma and Ba 2014, arXiv:1412.6980 (Adam); McCandlish et al. 2018, arXiv:1812.06162 (the noise of a gradient
and the batch that is worth its games).

Next: 08_expert_iteration.py throws advantages away.
"""

import torch
from classroom import adamw, batch_of, beginner, play_groups, update, weighed, win_rate, won

from wordle_rl.train.logprobs import Scorer

STEPS = 15


def train(rate: float, seed: int, *, shuffled: bool = False) -> tuple[float, float, int]:
    """Train a beginner; return the win rate, how far the weights moved, and how many of the last groups were silent."""
    model = beginner()
    start = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    optimizer, scorer = adamw(model, rate), Scorer(model)
    dealt = torch.Generator().manual_seed(seed)
    for step in range(STEPS):
        groups = play_groups(model, seed=1000 * seed + step)
        batch = batch_of(weighed(groups))
        logprobs = scorer(batch)[0]  # (N,): of all actions, laid end to end
        order = torch.randperm(len(logprobs), generator=dealt) if shuffled else torch.arange(len(logprobs))
        advantages = batch.advantages[order]
        update(optimizer, -(batch.weights * advantages * logprobs).sum())
        if step % 3 == 0:
            mean = float(batch.sampler_logprobs.mean())
            print(f"    step {step:2}: {won(groups):4.0%} won, {-mean:.2f} nats a token, ", end="")
            print("groups silent" if not advantages.any() else "groups speak")
    moved = torch.nn.utils.parameters_to_vector(model.parameters()).detach() - start
    silent = sum(not any(any(row.advantages) for row in weighed([group])) for group in groups)
    return win_rate(model), float(moved.norm()), silent


def main(seed: int = 0) -> dict[str, tuple[float, float, int]]:
    """Return what `train` returns: with its advantages, with shuffled ones, and with steps ten times as long."""
    found = {}
    for name, rate, shuffled in (("rate 0.001", 1e-3, False), ("shuffled", 1e-3, True), ("rate 0.01", 1e-2, False)):
        print(f"{name}:")
        found[name] = train(rate, seed, shuffled=shuffled)
    for name, (wins, distance, silent) in found.items():
        print(f"{name:10}: wins {wins:4.0%}, weights moved by {distance:5.2f}, {silent} of 4 groups silent")
    return found


if __name__ == "__main__":
    main()
