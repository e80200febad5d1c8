"""Lesson 13: sharpness. The same weights win more at a lower temperature. How much of a gain is that?

    p(token) ~ exp(logit / T)       T = 1 as trained; T -> 0 takes the likeliest token, greedy play

Whatever trains a policy also makes it surer of itself: its entropy falls. A policy that slips less wins more, even if
it has learnt nothing about the game. A gain in sampled play is therefore quoted beside a control that costs no
training: the start, sampled at the temperature at which its games have the same entropy.

What you will see: a beginner with half the schooling, which misspells many words. First the same weights at four
temperatures: entropy falls fast, wins rise and fall again, for nearly greedy play repeats itself. Then learning by
reward, as in lesson 4, and the start at equal entropy: the gain falls into two parts, what a temperature could have had
and what only training brought.

Source: Cui et al. 2025, arXiv:2505.22617 (wins bought with entropy); the control is `wordle-rl eval
--match-entropy-of` (`wordle_rl/evaluate/entropy.py`).

Next: 14_how_many_games.py asks how far to trust any of these numbers.
"""

import copy

from classroom import adamw, batch_of, beginner, play_groups, update, weighed, win_rate
from transformers import PreTrainedModel

from wordle_rl.evaluate.entropy import match_temperature, nats_of, nats_per_game
from wordle_rl.train.logprobs import Scorer

STEPS = 20
TEMPERATURES = (1.0, 0.7, 0.4, 0.1)


def nats(model: PreTrainedModel, temperature: float = 1.0) -> float:
    """Entropy of a game in nats: minus the log-probability of its sampled tokens, averaged over 256 games."""
    groups = play_groups(model, seed=20_000, group_size=64, temperature=temperature)
    return nats_per_game([nats_of(game) for group in groups for game in group])


def main(seed: int = 0) -> tuple[float, float, float]:
    """Return the win rates of the start, of the start at equal entropy, and after training."""
    start = beginner(steps=40)
    for temperature in TEMPERATURES:
        wins = win_rate(start, temperature=temperature)
        print(f"the start at temperature {temperature:3}: {nats(start, temperature):4.1f} nats a game, wins {wins:.0%}")

    model = copy.deepcopy(start)
    optimizer, scorer = adamw(model), Scorer(model)
    for step in range(STEPS):
        batch = batch_of(weighed(play_groups(model, seed=1000 * seed + step)))
        logprobs = scorer(batch)[0]  # (N,): of all actions, laid end to end
        update(optimizer, -(batch.weights * batch.advantages * logprobs).sum())

    temperature, matched = match_temperature(lambda value: nats(start, value), nats(model))
    before, sharper, after = win_rate(start), win_rate(start, temperature=temperature), win_rate(model)
    print(f"after {STEPS} steps at temperature 1: {nats(model):4.1f} nats a game, wins {after:.0%}")
    print(f"the start at temperature {temperature:.2f}: {matched:4.1f} nats a game, wins {sharper:.0%}")
    print(f"of a gain of {after - before:.0%}, {sharper - before:.0%} are sharpness and {after - sharper:.0%} are not")
    return before, sharper, after


if __name__ == "__main__":
    main()
