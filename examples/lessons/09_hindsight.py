"""Lesson 9: hindsight. Once a game is over its secret is known, so every board of it has a right answer.

    lesson 8    the actions of the best games
    now         at every board of every game, won or lost: the secret

A win tells that one word was right, a loss that some were wrong. The revealed secret tells what every word would have
earned at that board: 1 for the secret, 0 for all others. So no game is lost on the learner. The field calls it
hindsight relabelling. Over many secrets the player learns to name each word as often as it is the secret of such a
board, which is what the marks allow. What it cannot learn this way is to ask: a guess that cannot win but tells much is
never a label.

What you will see: about 70 % after 640 games, where lesson 8 had about 50. The control gets the same number of labels
at the same boards, but of won games alone.

Source: Andrychowicz et al. 2017, arXiv:1707.01495.

Next: 10_distillation.py asks somebody who knows better than the secret.
"""

from classroom import CODEC, PROMPTER, adamw, batch_of, beginner, play_groups, show, update, win_rate

from wordle_rl.train.example import Example
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import cross_entropy
from wordle_rl.train.scored_games import boards_of

STEPS = 10
UPDATES = 4  # of the same games


def train(seed: int, *, lost_too: bool) -> float:
    """Train a beginner on the secrets of its games, of all or of those it won, and return the win rate."""
    model = beginner()
    optimizer, scorer = adamw(model), Scorer(model)
    for step in range(STEPS):
        groups = play_groups(model, seed=1000 * seed + step)
        rows = []
        for game in (game for group in groups for game in group):
            if not (game.transcript.won or lost_too):
                continue
            for board, _, _ in boards_of(game):
                reply = CODEC.reply_ids(PROMPTER.reply(board.secret, ""))
                mask = [0] * len(board.prompt_ids) + [1] * len(reply)
                rows.append(Example([*board.prompt_ids, *reply], mask))
        batch = batch_of(rows)
        for _ in range(UPDATES):
            logprobs = scorer(batch)[0]  # (N,): of all learnt actions, laid end to end
            update(optimizer, cross_entropy(logprobs, batch.weights))
        show(step, groups)
    print(f"    {len(rows)} boards in the last round")
    return win_rate(model)


def main(seed: int = 0) -> tuple[float, float]:
    """Return the win rates after learning from all games, and from won games alone."""
    print("the secret at every board:")
    of_all = train(seed, lost_too=True)
    print("the secret at the boards of won games:")
    of_won = train(seed, lost_too=False)
    print(f"after {STEPS} rounds of 64 games: {of_all:.0%} from all games, {of_won:.0%} from wins alone")
    return of_all, of_won


if __name__ == "__main__":
    main()
