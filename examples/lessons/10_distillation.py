"""Lesson 10: distillation. A teacher says at every board how good each word is. What is that worth, beside a reward?

    lesson 5    one number for a game
    lesson 9    one word for a board                        loss = - log p(secret)
    now         a distribution over words for a board       loss = - sum_w q(w) log p(w)

The solver knows the list, searches, and gives every word a chance by what it costs: q(w) ~ exp(-regret(w) / 0.1), in
expected guesses. It also values guesses that only ask. The teacher speaks of words, the player of tokens: at "<guess>"
the first letter gets the chances of all words that begin with it, at "<guess>c" the second letter those of the words
that begin with c, and so on.

At whose boards? At those of the player's own games, mistakes included, it is on-policy distillation (DAgger's idea); at
those of games that the teacher plays, imitation from a book. The book has no board with a misspelt word.

What you will see: as many games, and as many updates of each, as a reward gets, and most of what was left to win is
won. Here the book is even better: a classroom has few boards, and its player soon keeps to them. Do not count on it
where mistakes lead far away from every book.

Source: Ross et al. 2011, arXiv:1011.0686 (DAgger); Agarwal et al. 2024, arXiv:2306.13649 (on-policy distillation).

Next: 11_reward_hacking.py asks what happens if the reward is not what is meant.
"""

import random
from collections.abc import Iterator, Sequence

from classroom import (
    CODEC,
    PROMPTER,
    SECRETS,
    SOLVER,
    adamw,
    batch_of,
    beginner,
    play_groups,
    update,
    weighed,
    win_rate,
)

from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.rollout import Trajectory
from wordle_rl.teachers.distribution import SolverDistribution
from wordle_rl.train.distill import next_token_targets
from wordle_rl.train.example import Example
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import cross_entropy, policy_loss
from wordle_rl.train.scored_games import boards_of

STEPS = 15
UPDATES = 4  # of the same games
TEACHER = SolverDistribution(SOLVER, temperature=0.1, rules=PROMPTER.rules)


def boards_of_player(groups: Sequence[Sequence[Trajectory]]) -> Iterator[tuple[Sequence[int], Sequence[Turn]]]:
    """Every board of the player's games: its prompt in tokens, and its turns."""
    for game in (game for group in groups for game in group):
        for board, _, _ in boards_of(game):
            yield board.prompt_ids, board.turns


def boards_of_teacher(rng: random.Random) -> Iterator[tuple[Sequence[int], Sequence[Turn]]]:
    """Every board of 64 games that the teacher plays."""
    for secret in SECRETS * 16:
        turns: list[Turn] = []
        while len(turns) < PROMPTER.rules.max_turns and secret not in {turn.guess for turn in turns}:
            yield CODEC.prompt_ids(PROMPTER.opening(turns)), tuple(turns)
            guess = said_at(turns, rng)[1]
            turns.append(Turn(guess, score_guess(secret, guess), Outcome.SCORED))


def said_at(turns: Sequence[Turn], rng: random.Random) -> tuple[list[int], str, list[list[tuple[int, float]]]]:
    """What the teacher says at a board: a reply drawn by its chances, in tokens and as a word, and their targets."""
    said = TEACHER(turns)
    assert said is not None  # the secret is an answer, so some answer fits
    replies = [CODEC.reply_ids(PROMPTER.reply(word, "")) for word in said.words]
    drawn = said.draw(rng)
    return replies[drawn], said.words[drawn], next_token_targets(replies, said.chances, drawn)


def train(by: str, seed: int) -> float:
    """Train a beginner, and return the win rate."""
    model, rng = beginner(), random.Random(seed)
    optimizer, scorer = adamw(model), Scorer(model)
    for step in range(STEPS):
        groups = play_groups(model, seed=1000 * seed + step)
        rows = []
        for prompt_ids, turns in boards_of_teacher(rng) if by == "teacher's boards" else boards_of_player(groups):
            reply, _, targets = said_at(turns, rng)
            rows.append(Example([*prompt_ids, *reply], [0] * len(prompt_ids) + [1] * len(reply), soft_targets=targets))
        batch = batch_of(weighed(groups) if by == "reward" else rows)
        for _ in range(UPDATES):
            logprobs = scorer(batch)[0]  # (N,): of all actions; of the teacher's: expected under its distribution
            if by == "reward":
                update(optimizer, policy_loss(logprobs, batch.sampler_logprobs, batch.advantages, batch.weights)[0])
            else:
                update(optimizer, cross_entropy(logprobs, batch.weights))
    return win_rate(model)


def main(seed: int = 0) -> dict[str, float]:
    """Return the win rates after learning by reward, and by the teacher at either kind of boards."""
    found = {}
    for by in ("reward", "own boards", "teacher's boards"):
        found[by] = train(by, seed)
        print(f"{STEPS} rounds of 64 games, by {by}: wins {found[by]:.0%}")
    return found


if __name__ == "__main__":
    main()
