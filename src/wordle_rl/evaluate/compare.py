"""Compare players on the same secrets, game by game: two, or any number with the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from wordle_rl.config import Constrain
from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.conditions import EvalConditions
from wordle_rl.evaluate.records import Evaluation, EvaluationError, Figures, occurrences
from wordle_rl.evaluate.stats import (
    Estimate,
    clustered_mcnemar,
    mcnemar_exact,
    paired_bootstrap,
    paired_score_interval,
    sign_flip_exact,
)

BY_SECRET_TEST = "sign-flip test by secret"
"""Test of wins if secrets were played more than once."""


@dataclass(frozen=True)
class Comparison:
    """Two players on the same secrets. Differences are b minus a: more wins and fewer guesses favour b.

    Attributes:
        name_a: Name of the first player.
        name_b: Name of the second player.
        num_pairs: Games that both finished.
        both: Pairs both won.
        only_a: Pairs only a won.
        only_b: Pairs only b won.
        neither: Pairs both lost.
        by_secret: True if a secret was played more than once, so wins are tested by secret, not by game.
        p_value: Two-sided p-value of wins: the chance of results at least this uneven between equal players. McNemar's
            exact test on `only_a` and `only_b`, or by secret (`stats.clustered_mcnemar`).
        win_rate_difference: With its 95 % interval for secrets like these: Tango's score interval. For repeated secrets
            a paired bootstrap that resamples whole secrets.
        guesses_difference: Difference of mean guesses, a loss counted as one more than the game has turns, with a
            bootstrap interval. Zero width means that all resampled values are equal: the interval is uninformative.
        guesses_p_value: Two-sided exact sign-flip test on the differences of guesses, summed per secret.
        num_unpaired: Games without a counterpart, because the other player played the secret less often.
        num_errors: Pairs left out because at least one side is an error.
        constrain_a: Limit on the first player's tokens.
        constrain_b: Limit on the second player's tokens.
        conditions_a: Prompting and sampling of the first player.
        conditions_b: Prompting and sampling of the second player.
    """

    name_a: str
    name_b: str
    num_pairs: int
    both: int
    only_a: int
    only_b: int
    neither: int
    by_secret: bool
    p_value: float
    win_rate_difference: Estimate
    guesses_difference: Estimate
    guesses_p_value: float
    num_unpaired: int
    num_errors: int
    constrain_a: Constrain
    constrain_b: Constrain
    conditions_a: EvalConditions
    conditions_b: EvalConditions

    @property
    def wins_test(self) -> str:
        """Name of the test behind `p_value`."""
        return BY_SECRET_TEST if self.by_secret else "McNemar's exact test"


def compare(a: Evaluation, b: Evaluation) -> Comparison:
    """Compare two players game by game, pairing the n-th games of each secret.

    Raises:
        EvaluationError: If words or rules differ, or both finished no secret.
    """
    check_alike(a, b)
    games_a, games_b = by_occurrence(a.records), by_occurrence(b.records)
    shared = sorted(games_a.keys() & games_b.keys())
    pairs = [(games_a[key], games_b[key]) for key in shared if not (games_a[key].failed or games_b[key].failed)]
    if not pairs:
        raise EvaluationError(f"{a.name!r} and {b.name!r} finished no secret in common; evaluate both on one split")
    loss = a.rules.max_turns + 1
    of_secret = np.unique([game.secret for game, _ in pairs], return_inverse=True)[1]  # (pairs,)
    wins = Counter((game_a.won, game_b.won) for game_a, game_b in pairs)
    cost = np.array([[game.turns_used if game.won else loss for game in pair] for pair in pairs])  # (pairs, 2)
    by_secret = bool(of_secret.max() + 1 < len(pairs))
    more_wins = (cost[:, 1] < loss).astype(int) - (cost[:, 0] < loss)  # (pairs,)
    if by_secret:
        p_value = clustered_mcnemar(more_wins, of_secret)
        win_rate_difference = paired_bootstrap(more_wins.astype(float), of_secret)
    else:
        p_value = mcnemar_exact(wins[True, False], wins[False, True])
        win_rate_difference = paired_score_interval(wins[True, False], wins[False, True], len(pairs))
    return Comparison(
        name_a=a.label,
        name_b=b.label,
        num_pairs=len(pairs),
        both=wins[True, True],
        only_a=wins[True, False],
        only_b=wins[False, True],
        neither=wins[False, False],
        by_secret=by_secret,
        p_value=p_value,
        win_rate_difference=win_rate_difference,
        guesses_difference=paired_bootstrap(cost[:, 1] - cost[:, 0], of_secret),
        guesses_p_value=sign_flip_exact(np.bincount(of_secret, cost[:, 1] - cost[:, 0]).astype(int)),
        num_unpaired=len(games_a) + len(games_b) - 2 * len(shared),
        num_errors=len(shared) - len(pairs),
        constrain_a=a.constrain,
        constrain_b=b.constrain,
        conditions_a=a.conditions,
        conditions_b=b.conditions,
    )


def check_alike(a: Evaluation, b: Evaluation) -> None:
    """Check that two evaluations have the same words and rules.

    Raises:
        EvaluationError: If they differ.
    """
    if a.fingerprint != b.fingerprint or a.rules.in_effect != b.rules.in_effect:
        what = "word lists" if a.fingerprint != b.fingerprint else "rules"
        raise EvaluationError(f"{a.name!r} and {b.name!r} were played with different {what}; evaluate both alike")


def by_occurrence(records: Sequence[GameRecord]) -> dict[tuple[str, int], GameRecord]:
    """Index games by secret and occurrence. Errors keep their number, so later games keep their counterparts."""
    return dict(zip(occurrences(record.secret for record in records), records, strict=True))


@dataclass(frozen=True)
class ComparedPlayer:
    """One player of a comparison.

    Attributes:
        name: Name to show.
        player: Identity: a directory, an endpoint's model, a built-in player.
        figures: Figures over the shared games; only `num_errors` counts all of its games.
        against_base: Comparison with the first player on the shared games; None for the first player.
    """

    name: str
    player: str
    figures: Figures
    against_base: Comparison | None


@dataclass(frozen=True, slots=True)
class SharedGame:
    """A game that all players finished: turns used by each player, in order, or None for a loss.

    `occurrence` counts repeats of a secret from 0.
    """

    secret: str
    occurrence: int
    guesses: tuple[int | None, ...]


@dataclass(frozen=True)
class MultiComparison:
    """Players on the same secrets.

    Attributes:
        runs: The players, the baseline first.
        num_games: Games that all players finished.
        num_unpaired: Games without a counterpart, because not all players played the secret as often.
        num_errors: Secrets left out because at least one player has an error.
        games: The shared games, by secret.
    """

    runs: tuple[ComparedPlayer, ...]
    num_games: int
    num_unpaired: int
    num_errors: int
    games: tuple[SharedGame, ...] = field(repr=False)


def compare_all(evaluations: Sequence[Evaluation]) -> MultiComparison:
    """Compare players side by side, matching the n-th games of each secret.

    All figures and tests use the games that everyone finished. p-values are not corrected for multiple tests.

    Raises:
        EvaluationError: If there are fewer than two players, names repeat, words or rules differ, or no secret was
            finished by all.
    """
    names = [evaluation.label for evaluation in evaluations]
    if len(names) < 2:
        raise EvaluationError(f"{len(names)} evaluations give no comparison; name at least two")
    if len(set(names)) < len(names):
        raise EvaluationError(f"evaluations share a name: {', '.join(names)}; tell them apart with --names")
    for other in evaluations[1:]:
        check_alike(evaluations[0], other)
    games = [by_occurrence(evaluation.records) for evaluation in evaluations]
    met = set.intersection(*(set(played) for played in games))
    shared = sorted(key for key in met if not any(played[key].failed for played in games))
    if not shared:
        who = ", ".join(map(repr, names[:-1])) + f" and {names[-1]!r}"
        raise EvaluationError(f"{who} finished no secret in common; evaluate all on one split")
    alike = [
        replace(evaluation, records=tuple(played[key] for key in shared))
        for evaluation, played in zip(evaluations, games, strict=True)
    ]
    return MultiComparison(
        runs=tuple(
            ComparedPlayer(
                evaluation.label,
                evaluation.player,
                replace(evaluation.figures(), num_errors=sum(record.failed for record in played.values())),
                compare(alike[0], evaluation) if place else None,
            )
            for place, (evaluation, played) in enumerate(zip(alike, games, strict=True))
        ),
        num_games=len(shared),
        num_unpaired=sum(len(played) for played in games) - len(games) * len(met),
        num_errors=len(met) - len(shared),
        games=tuple(
            SharedGame(*key, tuple(played[key].turns_used if played[key].won else None for played in games))
            for key in shared
        ),
    )
