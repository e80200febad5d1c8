"""Lesson 14: how many games? Two players of equal strength play an exam. How often is one "better by 10 points"?

    lessons 1 to 13     a win rate of 256 games
    now                 how far such a number is from the truth

A game is won or lost, so the win rate of n games has a standard error of sqrt(p (1 - p) / n), and a difference of two
has 1.4 times as much. The field reports too few games more often than anything else. An interval says so by itself:
Wilson's holds the true rate 95 times in 100, also near 0 and 1.

What you will see: 4,000 games of one player. Two exams are drawn from them a thousand times: the same player twice, so
that any difference is luck. Of 30 games, as in many a table, one exam in three shows a gain or loss of 10 points. Of
480, hardly any. To show a true gain of 10 points one needs some 300 games for each player; of 3 points, thousands. Play
the same secrets with both and compare pairs (`wordle-rl compare`), and fewer suffice.

Source: Wilson 1927, J. Am. Stat. Assoc. 22 (the interval); Agarwal et al. 2021, arXiv:2108.13264 (what few runs hide).

Next: 15_tokens_twice.py asks what a game is made of.
"""

import random

from classroom import beginner, play_groups

from wordle_rl.evaluate.stats import games_needed, wilson_interval

EXAMS = 1_000
SIZES = (30, 120, 480)


def main(seed: int = 0) -> dict[int, tuple[float, float]]:
    """Return, for each size of an exam, how often equals differ by 10 points, and how often the interval is right."""
    games = [game for group in play_groups(beginner(), seed=seed, group_size=1_000) for game in group]
    wins = [game.transcript.won for game in games]
    truth = sum(wins) / len(wins)
    print(f"one player, {len(wins)} games, wins {truth:.1%}\n")

    rng = random.Random(seed)
    print("games an exam | the same player 10 points apart | the interval holds the truth | one such interval")
    found = {}
    for size in SIZES:
        apart = right = 0
        for _ in range(EXAMS):
            first, second = (sum(rng.choices(wins, k=size)) for _ in range(2))
            apart += abs(first - second) >= 0.1 * size
            low, high = wilson_interval(first, size)
            right += low <= truth <= high
        found[size] = apart / EXAMS, right / EXAMS
        print(f"{size:13} | {apart / EXAMS:31.1%} | {right / EXAMS:28.1%} | {low:.0%} to {high:.0%}")

    print()
    for gain in (0.1, 0.03):
        needed = games_needed(truth, truth + gain)
        print(f"to show {truth:.0%} -> {truth + gain:.0%} in 8 of 10 trials takes {needed} games of each player")
    print(f"equals differ by 10 points in {found[30][0]:.0%} of exams of 30 games, in {found[480][0]:.1%} of 480")
    return found


if __name__ == "__main__":
    main()
