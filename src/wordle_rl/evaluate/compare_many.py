"""Compare any number of players on the secrets that all finished, each with the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wordle_rl.evaluate.compare import Comparison, by_occurrence, check_alike, compare
from wordle_rl.evaluate.records import Evaluation, EvaluationError, Figures


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
