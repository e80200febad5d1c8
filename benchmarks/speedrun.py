"""The speedrun: processor seconds until a model plays well, as one row per commit.

    for seed in 0 1 2; do wordle-rl run quickstart --seed $seed --out runs/speed-$seed; done
    python benchmarks/speedrun.py runs/speed-0 runs/speed-1 runs/speed-2 --changed "what you changed"

    play       80 % of all secrets, greedily, from at most 2,000 teacher games; nobody asks a solver
    imitation  99 % of the words whose decisive board was shown, greedily; the solver teaches

Seconds are those of all threads from the first teacher game to the last step. Three seeds must reach the goal.
README.md has the rules and the rows.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import kind_of
from wordle_rl.errors import UserError
from wordle_rl.evaluate.compare import config_of, curve_of, games_per_point
from wordle_rl.runs import read_object, write_json
from wordle_rl.runs.lineage import audit

Goal = Literal["play", "imitation"]
TARGETS: dict[Goal, tuple[str, float]] = {"play": ("all", 0.80), "imitation": ("board_shown", 0.99)}
"""Goal -> part of the secrets, and the win rate to reach."""
SEEDS, MOST_TEACHER_GAMES = 3, 2_000


class SpeedrunError(UserError):
    """Runs that are no speedrun."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the row of finished runs, or what is wrong with them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "runs", type=Path, nargs="+", help="finished runs of one recipe that differ in their seed alone"
    )
    parser.add_argument("--changed", default="", help="what you changed, for the last column")
    parser.add_argument("--out", type=Path, help="also write seconds, wins and curves to this file (JSON)")
    asked = parser.parse_args(arguments)
    try:
        goal, attempts = check_speedrun(asked.runs)
        print(row_of(goal, attempts, asked.changed))
    except UserError as error:
        parser.error(str(error))
    if asked.out is not None:
        write_json(asked.out, record_of(goal, attempts))


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


def goal_of(config: RunConfig) -> Goal:
    """Return the goal that a run is for: `play` if nobody asked a solver in training."""
    teacher = config.traces.teacher
    plans = teacher.noise_rate < 1 or teacher.random_opener_rate < 1
    asks = any(
        kind_of(stage) in ("dpo", "distill") or own.starts.player.startswith("teacher")
        for stage, own in config.stages_of()
    )
    tables = [table for _, own in config.stages_of("grpo") for _, table in own.reward.schedule().phases]
    rewarded = {name for table in tables for name in table}
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
    """Write the row of README.md."""
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


if __name__ == "__main__":
    main()
