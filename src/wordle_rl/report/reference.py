"""Curves of runs of the presets, which travel with the package: does a change learn as it should?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wordle_rl.config.files import PRESETS_DIRECTORY, load_config, stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.errors import UserError
from wordle_rl.runs import is_run, read_jsonl

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

    The band is the mean of the record's seeds, and three standard deviations to both sides: those between seeds, pooled
    over the whole curve since three seeds say little about one place of it, and those of a win rate of so many games.
    """
    attempts = record["attempts"]
    curves = np.array([each["curve"] for each in attempts])  # (seeds, points)
    means = curves.mean(axis=0)
    clipped = means.clip(0.01, 0.99)  # at 0 and 1 a binomial variance would vanish
    variance = curves.var(axis=0, ddof=1).mean() + clipped * (1 - clipped) / attempts[0]["games_per_point"]
    low, high = (means - BAND * variance**0.5).clip(0, 1), (means + BAND * variance**0.5).clip(0, 1)
    # A run of fewer rounds is compared as far as it went.
    points = zip(curve_of(run, config_of(run)), low.tolist(), high.tolist(), strict=False)
    return [BandPoint(number, *point) for number, point in enumerate(points, start=1)]
