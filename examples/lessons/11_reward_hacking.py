"""Lesson 11: reward hacking. The reward rises, and the player wins less. Why?

    lessons 1 to 10     a win pays
    now                 "it misspells words; pay a third for each turn that names a listed one"

The thought is sound: who names words wins more. But the pay adds up over turns, and a win ends the game and with it the
pay. So the best play is to name words that are *not* the secret until the last turn is over, and a policy gradient
finds that without anybody's intent. The field calls it reward hacking, or specification gaming; the same thing as a
boat that circles for bonuses and never finishes the race.

What you will see: rewards from 0.8 to almost 1, fewer misspelt words than ever, and wins from 19 % to nearly none. Only
wins can tell, for the curve that is watched is fine. The control is the package's rubric of the same thought. It pays
for the *mean* turn, so that a short game earns as much as a long one, and adds just enough for a win that no loss earns
more. `wordle-rl rewards --attack` searches for what a reward pays to losers.

Source: Amodei et al. 2016, arXiv:1606.06565, "Concrete problems in AI safety"; Skalse et al. 2022, arXiv:2209.13085.

Next: 12_memory_or_skill.py asks what the wins are worth.
"""

from collections.abc import Callable

from classroom import SOLVER, adamw, batch_of, beginner, play_groups, update, weighed, win_rate, won

from wordle_rl.reward import Rubric
from wordle_rl.rollout import Trajectory
from wordle_rl.train.advantages import TurnValues
from wordle_rl.train.logprobs import Scorer

STEPS = 30
RUBRIC = Rubric({"valid_word": 1.0})


def summed(game: Trajectory) -> TurnValues:
    """A third for every turn that names a listed word."""
    return tuple(float(not played.turn.outcome.broke_rules) / 3 for played in game.transcript.own_turns)


def in_order(game: Trajectory) -> TurnValues:
    """The fraction of the game's turns that name a listed word, and what keeps every win above every loss."""
    return RUBRIC.score(game.transcript, SOLVER).turn_rewards


def train(reward: Callable[[Trajectory], TurnValues], seed: int) -> tuple[float, float, float]:
    """Train a beginner; return its first and its last reward, and its win rate."""
    model = beginner()
    optimizer, scorer = adamw(model), Scorer(model)
    paid = []
    for step in range(STEPS):
        groups = play_groups(model, seed=1000 * seed + step)
        batch = batch_of(weighed(groups, reward=reward))
        logprobs = scorer(batch)[0]  # (N,): of all actions, laid end to end
        update(optimizer, -(batch.weights * batch.advantages * logprobs).sum())
        games = [game for group in groups for game in group]
        paid.append(sum(sum(reward(game)) for game in games) / len(games))
        if step % 5 == 0:
            print(f"step {step:3}: reward {paid[-1]:.2f}, {won(groups):.0%} of the games won")
    return paid[0], paid[-1], win_rate(model)


def main(seed: int = 0) -> dict[str, tuple[float, float, float]]:
    """Return what `train` returns for both rewards."""
    before = win_rate(beginner())
    found = {}
    for name, reward in (("summed", summed), ("in order", in_order)):
        print(f"a listed word pays, {name}:")
        found[name] = train(reward, seed)
    for name, (first, last, after) in found.items():
        print(f"{name:8}: reward {first:.2f} -> {last:.2f}, wins {before:.0%} -> {after:.0%}")
    return found


if __name__ == "__main__":
    main()
