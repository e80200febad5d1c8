"""The speedrun: processor seconds until a model plays well, as one row per commit; and the curves to compare with.

    play       80 % of all secrets, greedily, from at most 2,000 teacher games; nobody asks a solver
    imitation  99 % of the words whose decisive board was shown, greedily; the solver teaches

Seconds are those of all threads from the first teacher game to the last step. Three seeds must reach the goal.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wordle_rl.config.files import PRESETS_DIRECTORY, load_config, stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import kind_of
from wordle_rl.errors import UserError
from wordle_rl.runs import is_run, read_jsonl, read_object
from wordle_rl.runs.lineage import audit

Goal = Literal["play", "imitation"]
TARGETS: dict[Goal, tuple[str, float]] = {"play": ("all", 0.80), "imitation": ("board_shown", 0.99)}
"""Goal -> part of the secrets, and the win rate to reach."""
SEEDS, MOST_TEACHER_GAMES = 3, 2_000
BAND = 3.0
"""Half the width of the band of reference curves, in standard deviations."""


class SpeedrunError(UserError):
    """Runs that are no speedrun, or have no reference."""


@dataclass(frozen=True)
class Attempt:
    """One run: its seconds and wins, and its curve, the win rate of each step or round of play."""

    seed: int
    commit: str | None
    hardware: str
    processor_seconds: float
    games_per_point: int
    wins: float
    curve: tuple[float, ...]


def config_of(run: Path) -> RunConfig:
    """Return the settings of a finished run."""
    if not is_run(run) or not (run / "results.json").is_file():
        raise SpeedrunError(f"{run} is no finished run; name the directory that `wordle-rl run` wrote")
    return stored_config(run / "config.json")


def goal_of(config: RunConfig) -> Goal:
    """Return the goal that a run is for: `play` if nobody asked a solver in training."""
    teacher = config.traces.teacher
    plans = teacher.noise_rate < 1 or teacher.random_opener_rate < 1
    asks = any(
        kind_of(stage) in ("dpo", "distill") or own.starts.player.startswith("teacher")
        for stage, own in config.stages_of()
    )
    rewarded = {name for _, own in config.stages_of("grpo") for name in own.reward.schedule().start}
    asks = asks or not rewarded <= {"win", "speed", "rule_break"}
    return "imitation" if plans or asks or config.traces.num_games > MOST_TEACHER_GAMES else "play"


def attempt(run: Path, goal: Goal) -> Attempt:
    """Read a finished run, and check that it reached its goal by the rules."""
    config, manifest = config_of(run), read_object(run / "manifest.json")
    results, timings = read_object(run / "results.json"), read_object(run / "timings.json")
    if config.model.path != "tiny":
        raise SpeedrunError(f"{run} starts from {config.model.path}; a speedrun starts from nothing")
    spent = timings.get("processor_seconds")
    if not spent:
        raise SpeedrunError(f"{run} has no processor seconds: it was made by an older version; run it again")
    if not audit(run).clean:
        raise SpeedrunError(f"{run} trained on secrets that it is judged by; see wordle-rl report {run} --audit")
    part, target = TARGETS[goal]
    cores = manifest["hardware"]["cores"]
    name = next(name for name in reversed(config.stages) if name in results)
    wins = results[name].get(part, {}).get("win_rate")
    if wins is None or wins < target:
        reached = "was not evaluated" if wins is None else f"wins {wins:.1%}"
        raise SpeedrunError(f"{run} {reached} of {part}; the goal {goal!r} is {target:.0%}")
    return Attempt(
        config.seed,
        manifest.get("git_commit"),
        "{processor}, {cores} core{s}".format_map({"s": "s"[: cores != 1], **manifest["hardware"]}),
        round(sum(seconds for stage, seconds in spent.items() if stage not in ("setup", "eval")), 1),
        games_per_point(config),
        wins,
        curve_of(run, config),
    )


def games_per_point(config: RunConfig) -> int:
    """Return the number of games behind each point of a run's curve."""
    stage, settings = _last_play(config)
    return settings.groups_to_play * settings.group_size if stage else 0


def curve_of(run: Path, config: RunConfig) -> tuple[float, ...]:
    """Return the win rate of each step or round of a run's play."""
    rows, (stage, _) = read_jsonl(run / "metrics.jsonl"), _last_play(config)
    return tuple(round(row["win_rate"], 4) for row in rows if row["stage"] == stage and "win_rate" in row)


def _last_play(config: RunConfig) -> tuple[str, Any]:
    played: list[tuple[str, Any]] = [*config.stages_of()]
    return played[-1] if played else ("", None)


def check_speedrun(runs: Sequence[Path]) -> tuple[Goal, list[Attempt]]:
    """Read finished runs of one recipe, which differ in their seed alone, and check that each reached the goal."""
    configs = [config_of(run) for run in runs]
    if len({config.model_copy(update={"seed": 0}).model_dump_json() for config in configs}) > 1:
        raise SpeedrunError("the runs have different settings; a row is one recipe, by three seeds")
    if (count := len({config.seed for config in configs})) < SEEDS:
        raise SpeedrunError(
            f"a row needs runs of {SEEDS} different seeds; {len(runs)} runs are named, and they have {count}"
        )
    goal = goal_of(configs[0])
    return goal, [attempt(run, goal) for run in runs]


def row_of(goal: Goal, attempts: Sequence[Attempt], changed: str) -> str:
    """Write the row of docs/speedrun.md."""
    commits = {each.commit for each in attempts}
    if len(commits) > 1:
        raise SpeedrunError("the runs were made by different commits; a row is one commit")
    commit = commits.pop()
    seconds = [each.processor_seconds for each in attempts]
    wins = " / ".join(f"{100 * each.wins:.1f}" for each in attempts)
    apart = " / ".join(f"{value:.0f}" for value in seconds)
    return (
        f"| {goal} | {(commit or 'none')[:8]} | **{statistics.median(seconds):.0f}** ({apart}) | {wins} "
        f"| {attempts[0].hardware} | {changed} |"
    )


def record_of(goal: Goal, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Return the attempts as a record that others can be compared with."""
    return {"goal": goal, "attempts": [asdict(each) for each in attempts]}


def reference_for(run: Path) -> Path:
    """Return the record of a run's preset; the records of presets travel with the package."""
    own, places = config_of(run), sorted(PRESETS_DIRECTORY.glob("reference/*.json"))
    for place in places:
        preset = load_config(place.stem)
        if preset.model_copy(update={"seed": own.seed}).stored() == own.stored():
            return place
    known = ", ".join(place.stem for place in places)
    raise SpeedrunError(f"{run} is no run of a preset with a reference ({known}) with that preset's own settings")


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
    clipped = means.clip(0.01, 0.99)
    variance = curves.var(axis=0, ddof=1).mean() + clipped * (1 - clipped) / attempts[0]["games_per_point"]
    low, high = (means - BAND * variance**0.5).clip(0, 1), (means + BAND * variance**0.5).clip(0, 1)
    points = zip(curve_of(run, config_of(run)), low.tolist(), high.tolist(), strict=False)
    return [BandPoint(number, *point) for number, point in enumerate(points, start=1)]
