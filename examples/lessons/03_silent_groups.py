"""Lesson 3: silent groups. How many games must share a secret before they have something to say?

    lesson 2    advantage = reward - mean reward of the group
    now         and if all games of the group earned the same?      every advantage is 0

Such a group costs its games and moves nothing. With a reward for wins alone a group speaks only if it holds a win and a
loss. If a player wins a fraction p of a secret, n games are silent with probability p^n + (1 - p)^n: small groups of
weak players hardly ever speak, and nor do those of strong ones. The field calls the silent fraction zero-variance or
constant groups; a run logs it as `constant_group_rate`.

What you will see: the same 512 games, cut into groups of 2, 4 and 16. Then what breaks the silence without a further
game: a reward with grades, here a bonus for speed and a fine for broken rules. (DAPO's answer is to play again until
enough groups speak, which costs games: `grpo.max_refills`.)

Source: DAPO, arXiv:2503.14476, section 3.2, "dynamic sampling".

Next: 04_credit.py asks which turn of a game earned the reward.
"""

from classroom import SECRETS, beginner, earned, play_groups, won

from wordle_rl.train.advantages import game_advantages, is_constant

SIZES = (2, 4, 16)
GAMES = 128  # of each secret


def main(seed: int = 0) -> dict[int, float]:
    """Return the silent fraction of each group size, for a reward of wins alone."""
    games_of_secret = play_groups(beginner(), seed=seed, group_size=GAMES)
    print(f"a beginner wins {won(games_of_secret):.0%} of {GAMES * len(SECRETS)} games\n")
    rates = [won([games]) for games in games_of_secret]

    print("games a group | groups | silent | by p^n + (1 - p)^n | silent if speed and rules are paid, too")
    found = {}
    for size in SIZES:
        groups = [games[i : i + size] for games in games_of_secret for i in range(0, GAMES, size)]
        of_wins = [game_advantages([(float(game.transcript.won),) for game in group]) for group in groups]
        of_grades = [game_advantages([earned(game) for game in group]) for group in groups]
        found[size] = sum(map(is_constant, of_wins)) / len(groups)
        expected = sum(rate**size + (1 - rate) ** size for rate in rates) / len(rates)
        graded = sum(map(is_constant, of_grades)) / len(groups)
        print(f"{size:13} | {len(groups):6} | {found[size]:6.0%} | {expected:18.0%} | {graded:.0%}")

    print(f"\nby wins alone {found[2]:.0%} of the groups of 2 teach nothing, and {found[16]:.0%} of those of 16")
    return found


if __name__ == "__main__":
    main()
