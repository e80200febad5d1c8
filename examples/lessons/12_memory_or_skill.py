"""Lesson 12: memory or skill? The player wins 70 % of its games. Of which words?

    lessons 1 to 11     examined on the four words that it was trained on
    now                 and on the eight others that it can name as well

A game has two things to learn: how to use marks, and which words are ever the secret. Only the first helps with a word
that no training game hid. The field asks it with held-out words, a validation and a test set; without them a learner
that has memorised four words looks like a player.

What you will see: the same weights, two exams. On its own words the player triples the beginner's wins. On the eight
others it wins *less* than the beginner did, nearly nothing: it has learnt that they are never the secret, which is true
of its training, and is no skill. The control is trained on all twelve words, with about as many games. There is nothing
of the kind to memorise, and its gain on either part is what 640 games teach of marks: a few points.

Source: Cobbe et al. 2019, arXiv:1812.02341, "Quantifying generalization in reinforcement learning".

Next: 13_sharpness.py asks what temperature has to do with it.
"""

from collections.abc import Sequence

from classroom import CODEC, LISTED, PROMPTER, SECRETS, adamw, batch_of, beginner, play_groups, update, win_rate

from wordle_rl.train.example import Example
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import cross_entropy
from wordle_rl.train.scored_games import boards_of

STEPS = 10
UPDATES = 4  # of the same games
OTHERS = tuple(word for word in LISTED if word not in SECRETS)


def train(secrets: Sequence[str], seed: int) -> tuple[float, float]:
    """Train a beginner on games of `secrets` as in lesson 9; return its win rates on the four words and the others."""
    model = beginner()
    optimizer, scorer = adamw(model), Scorer(model)
    for step in range(STEPS):
        rows = []
        groups = play_groups(model, 1000 * seed + step, 64 // len(secrets), secrets=secrets)
        for game in (game for group in groups for game in group):
            for board, _, _ in boards_of(game):
                reply = CODEC.reply_ids(PROMPTER.reply(board.secret, ""))
                rows.append(Example([*board.prompt_ids, *reply], [0] * len(board.prompt_ids) + [1] * len(reply)))
        batch = batch_of(rows)
        for _ in range(UPDATES):
            update(optimizer, cross_entropy(scorer(batch)[0], batch.weights))
    return win_rate(model, SECRETS), win_rate(model, OTHERS)


def main(seed: int = 0) -> dict[str, tuple[float, float]]:
    """Return the win rates on the four words and on the others: of a beginner, and after both trainings."""
    start = beginner()
    found = {"beginner": (win_rate(start, SECRETS), win_rate(start, OTHERS))}
    found["trained on the four"] = train(SECRETS, seed)
    found["trained on all"] = train(LISTED, seed)
    for name, (four, others) in found.items():
        print(f"{name:19}: wins {four:4.0%} of the four words, {others:4.0%} of the eight others")
    return found


if __name__ == "__main__":
    main()
