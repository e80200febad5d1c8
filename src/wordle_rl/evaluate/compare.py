"""Compare players on the same secrets, game by game, and a run's curve with those of its preset's reference runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from wordle_rl.config.files import PRESETS_DIRECTORY, load_config, stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.data.game_record import GameRecord
from wordle_rl.errors import UserError
from wordle_rl.evaluate.figures import Figures
from wordle_rl.evaluate.records import Evaluation, EvaluationError, occurrences, unlike
from wordle_rl.evaluate.stats import Estimate, paired_bootstrap, paired_score_interval, sign_flip_exact
from wordle_rl.runs import is_run, read_jsonl


@dataclass(frozen=True)
class Comparison:
    """Two players on the same secrets. Differences are b minus a: more wins and fewer guesses favour b.

    Attributes:
        num_pairs: Games that both finished; `both`, `only_a`, `only_b` and `neither` count them by who won.
        wins_test: The test behind `p_value`: McNemar's exact test of `only_a` and `only_b`, or a sign-flip test of the
            sums by secret if a secret was played more than once.
        p_value: Two-sided p-value of wins: the chance of results at least this uneven between equal players.
        win_rate_difference: With its 95 % interval for secrets like these: Tango's score interval. For repeated secrets
            a paired bootstrap that resamples whole secrets.
        guesses_difference: Difference of mean guesses, a loss counted as one more than the game has turns, with a
            bootstrap interval. Zero width means that all resampled values are equal: the interval is uninformative.
        guesses_p_value: Two-sided exact sign-flip test on the differences of guesses, summed per secret.
        notes: What the reader should know: how the players were asked differently, and which games are left out.
    """

    name_a: str
    name_b: str
    num_pairs: int
    both: int
    only_a: int
    only_b: int
    neither: int
    wins_test: str
    p_value: float
    win_rate_difference: Estimate
    guesses_difference: Estimate
    guesses_p_value: float
    notes: tuple[str, ...]


def compare(a: Evaluation, b: Evaluation) -> Comparison:
    """Compare two players game by game, pairing the n-th games of each secret."""
    if a.fingerprint != b.fingerprint or a.rules.in_effect != b.rules.in_effect:
        what = "word lists" if a.fingerprint != b.fingerprint else "rules"
        raise EvaluationError(f"{a.name!r} and {b.name!r} were played with different {what}; evaluate both alike")
    games_a, games_b = _by_occurrence(a), _by_occurrence(b)
    shared = sorted(games_a.keys() & games_b.keys())
    pairs = [(games_a[key], games_b[key]) for key in shared if not (games_a[key].failed or games_b[key].failed)]
    if not pairs:
        raise EvaluationError(f"{a.name!r} and {b.name!r} finished no secret in common; evaluate both on one split")
    loss = a.rules.max_turns + 1
    of_secret = np.unique([game.secret for game, _ in pairs], return_inverse=True)[1]  # (pairs,)
    wins = Counter((game_a.won, game_b.won) for game_a, game_b in pairs)
    # A loss costs one guess more than the game has turns, and so is told from a win on the last turn.
    cost = np.array([[game.turns_used if game.won else loss for game in pair] for pair in pairs])  # (pairs, 2)
    more_wins = (cost[:, 1] < loss).astype(int) - (cost[:, 0] < loss)  # (pairs,)
    # Games of one secret are no independent observations; their sum is.
    by_secret = bool(of_secret.max() + 1 < len(pairs))
    return Comparison(
        name_a=a.label,
        name_b=b.label,
        num_pairs=len(pairs),
        both=wins[True, True],
        only_a=wins[True, False],
        only_b=wins[False, True],
        neither=wins[False, False],
        wins_test="sign-flip test by secret" if by_secret else "McNemar's exact test",
        p_value=sign_flip_exact(np.bincount(of_secret, more_wins)),
        win_rate_difference=paired_bootstrap(more_wins, of_secret)
        if by_secret
        else paired_score_interval(wins[True, False], wins[False, True], len(pairs)),
        guesses_difference=paired_bootstrap(cost[:, 1] - cost[:, 0], of_secret),
        guesses_p_value=sign_flip_exact(np.bincount(of_secret, cost[:, 1] - cost[:, 0])),
        notes=(*_asked(a, b), *_left_out(len(games_a) + len(games_b) - 2 * len(shared), len(shared) - len(pairs))),
    )


def _by_occurrence(evaluation: Evaluation) -> dict[tuple[str, int], GameRecord]:
    # Errors keep their number, so later games of a secret keep their counterparts.
    return dict(zip(occurrences(record.secret for record in evaluation.records), evaluation.records, strict=True))


def _asked(a: Evaluation, b: Evaluation) -> list[str]:
    notes = []
    if a.constrain != b.constrain:
        notes.append("only one player's guesses were limited to listed words, so this does not compare models")
    elif a.constrain != "none":
        notes.append("the guesses of both players were limited to listed words")
    if differing := unlike(a.conditions, b.conditions):
        notes.append(f"{a.label} and {b.label} were asked under different conditions: {differing}")
    return notes


def _left_out(num_unpaired: int, num_errors: int) -> list[str]:
    notes = []
    if num_unpaired:
        notes.append(f"games without a counterpart (a player played the secret less often): {num_unpaired}")
    if num_errors:
        notes.append(f"games left out because a player could not finish them: {num_errors}")
    return notes


@dataclass(frozen=True)
class ComparedPlayer:
    """One player of a comparison: its figures over the shared games (`num_errors`: all of its games)."""

    name: str
    player: str
    figures: Figures
    against_base: Comparison | None  # None for the first player


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
    """Players on the same secrets, the baseline first, and the games that all finished, by secret."""

    runs: tuple[ComparedPlayer, ...]
    num_games: int
    games: tuple[SharedGame, ...] = field(repr=False)
    notes: tuple[str, ...]


def compare_all(evaluations: Sequence[Evaluation]) -> MultiComparison:
    """Compare players side by side, matching the n-th games of each secret.

    All figures and tests use the games that everyone finished. p-values are not corrected for multiple tests.
    """
    names = [evaluation.label for evaluation in evaluations]
    if len(names) < 2:
        raise EvaluationError(f"{len(names)} evaluations give no comparison; name at least two")
    if len(set(names)) < len(names):
        raise EvaluationError(f"evaluations share a name: {', '.join(names)}; tell them apart with --names")
    games = [_by_occurrence(evaluation) for evaluation in evaluations]
    met = set.intersection(*(set(played) for played in games))
    shared = sorted(key for key in met if not any(played[key].failed for played in games))
    if not shared:
        raise EvaluationError(f"{', '.join(map(repr, names))} finished no secret in common; evaluate all on one split")
    # Without the games that not all finished, pairs of `compare` leave nothing out and share one set of secrets.
    alike = [
        replace(evaluation, records=tuple(played[key] for key in shared))
        for evaluation, played in zip(evaluations, games, strict=True)
    ]
    pairs = [compare(alike[0], other) for other in alike[1:]]
    left_out = _left_out(
        sum(len(played) for played in games) - len(games) * len(met),
        len(met) - len(shared),
    )
    return MultiComparison(
        runs=tuple(
            ComparedPlayer(
                evaluation.label,
                evaluation.player,
                replace(evaluation.figures(), num_errors=sum(record.failed for record in played.values())),
                against_base,
            )
            for evaluation, played, against_base in zip(alike, games, [None, *pairs], strict=True)
        ),
        num_games=len(shared),
        games=tuple(
            SharedGame(*key, tuple(played[key].turns_used if played[key].won else None for played in games))
            for key in shared
        ),
        notes=tuple(dict.fromkeys([*(note for pair in pairs for note in pair.notes), *left_out])),
    )


# --- a run and the curves of its preset ------------------------------------------------------------------------------

BAND = 3.0
"""Half the width of the band of reference curves, in standard deviations."""


class NoReferenceError(UserError):
    """A run that is not finished, or has no reference."""


def config_of(run: Path) -> RunConfig:
    """Return the settings of a finished run."""
    if not is_run(run) or not (run / "results.json").is_file():
        raise NoReferenceError(f"{run} is no finished run; name the directory that `wordle-rl run` wrote")
    return stored_config(run / "config.json")


def games_per_point(config: RunConfig) -> int:
    """Return the number of games behind each point of a run's curve."""
    stage, settings = _first_play(config)
    return settings.groups_to_play * settings.group_size if stage else 0


def curve_of(run: Path, config: RunConfig) -> tuple[float, ...]:
    """Return the win rate of each step or round of the first stage of a run that plays."""
    rows, (stage, _) = read_jsonl(run / "metrics.jsonl"), _first_play(config)
    return tuple(round(row["win_rate"], 4) for row in rows if row["stage"] == stage and "win_rate" in row)


def _first_play(config: RunConfig) -> tuple[str, Any]:
    # The first, since wins grow there; a stage that follows begins where most games are won.
    played: list[tuple[str, Any]] = [*config.stages_of()]
    return played[0] if played else ("", None)


def reference_for(run: Path) -> Path:
    """Return the record of a run's preset; the records of presets travel with the package."""
    own, places = config_of(run), sorted(PRESETS_DIRECTORY.glob("reference/*.json"))
    for place in places:
        preset = load_config(place.stem)
        # Curves of other settings are other curves; only the seed may differ.
        if preset.model_copy(update={"seed": own.seed}).stored() == own.stored():
            return place
    known = ", ".join(place.stem for place in places)
    raise NoReferenceError(f"{run} is no run of a preset with a reference ({known}) with that preset's own settings")


@dataclass(frozen=True)
class BandPoint:
    """Win rate of a step or round of play, counted from 1, and the band of the reference's seeds."""

    number: int
    own: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """True if the win rate is in the band."""
        return self.low <= self.own <= self.high


def against_reference(run: Path, record: Mapping[str, Any]) -> list[BandPoint]:
    """Compare a run's curve with those of a record.

    The band is the mean of the record's seeds, and to both sides three standard deviations of one more seed's distance
    from it: those of a win rate of so many games, and what seeds differ by beyond that, pooled over the whole curve
    since three seeds say little about one place of it.
    """
    attempts = record["attempts"]
    curves = np.array([each["curve"] for each in attempts])  # (seeds, points)
    means = curves.mean(axis=0)
    clipped = means.clip(0.01, 0.99)  # at 0 and 1 a binomial variance would vanish
    of_games = clipped * (1 - clipped) / attempts[0]["games_per_point"]
    of_seeds = max(0.0, curves.var(axis=0, ddof=1).mean() - of_games.mean())
    variance = (of_games + of_seeds) * (1 + 1 / len(attempts))
    low, high = (means - BAND * variance**0.5).clip(0, 1), (means + BAND * variance**0.5).clip(0, 1)
    points = zip(curve_of(run, config_of(run)), low.tolist(), high.tolist(), strict=False)
    return [BandPoint(number, *point) for number, point in enumerate(points, start=1)]
