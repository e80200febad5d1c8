"""`preflight`: check a run before you start it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json
from wordle_rl.cli.settings import Overrides
from wordle_rl.config import ConfigError, RunConfig, load_config

if TYPE_CHECKING:
    from wordle_rl.preflight.report import Preflight


def preflight(
    config: Annotated[str, tyro.conf.Positional],
    overrides: Overrides,
    groups: int = 4,
    memory_gib: float | None = None,
    as_json: Json = False,
) -> None:
    """Check that a run will work before you train: chat template, stop tokens, budgets, memory, a few games.

    Nothing is trained. The exit code is 2 if the run cannot work; each reason is one line.

    Args:
        config: A preset such as quickstart, or a config file.
        overrides: Settings that override the file's.
        groups: Groups of games for the model to play. 0 plays none and needs no weights.
        memory_gib: Memory of the Mac that will train, in GiB, such as 16 or 48; for backend mlx, or torch on a Mac.
            Default: that of this machine.
        as_json: Print the result as JSON.
    """
    if groups < 0:
        raise ConfigError(f"--groups {groups} is negative; give 0 to play no games", "groups")
    look_at(load_config(config, overrides), groups, as_json, memory_gib)


def look_at(config: RunConfig, num_groups: int, as_json: bool, memory_gib: float | None = None) -> None:
    """Check everything, then print the findings."""
    from wordle_rl.preflight.report import preflight as look_before_run

    with console.messages.status("looking at the model…"):
        report = look_before_run(config, num_groups, memory_gib)
    if as_json:
        memory = {stage: {**asdict(e), "counted": e.counted, "total": e.total} for stage, e in report.memory.items()}
        console.print_json({**asdict(report), "memory": memory})
    else:
        _show_preflight(config.model.path, report)
    problems = sum(finding.level == "problem" for finding in report.findings)
    if problems:
        raise ConfigError(f"this run cannot work: {problems} problem{'' if problems == 1 else 's'}, listed above")


def _show_preflight(path: str, report: Preflight) -> None:
    from wordle_rl.report import terminal
    from wordle_rl.runs.progress import in_percent

    numbers, played = report.numbers, report.played
    facts: dict[str, str] = {"model": path}
    if numbers is not None:
        facts["parameters"] = f"{numbers.num_parameters:,}, {numbers.num_trainable:,} of them trained"
        facts["context"] = f"{numbers.context:,} tokens" if numbers.context else "unknown"
    if report.picture:
        facts["chat template"] = "; ".join(report.template_changes) or "unchanged"
        facts["a turn ends with"] = f"{report.turn_end}; sampling stops at {', '.join(report.stop_tokens)}"
        facts["longest guess"] = f"{report.longest_reply} tokens"
        taught = f"; the teacher's {report.longest_teacher_game}" if report.longest_teacher_game else ""
        facts["longest game"] = f"{report.longest_game} tokens{taught}"
    if played is not None:
        facts["games played"] = (
            f"{played.num_games}: {in_percent(played.win_rate, 0)}% won, "
            f"{in_percent(played.format_compliance, 0)}% of replies with a listed word, "
            f"{in_percent(played.overlong_share, 0)}% cut, {played.mean_reply_tokens:.0f} tokens each, "
            f"{in_percent(played.zero_variance_share, 0)}% zero-variance groups"
        )
    for name, value in facts.items():
        console.out.print(f"{name:<17} {value}")
    if report.device is not None:
        console.out.print(terminal.memory_table(report.memory))
        size = report.device.num_bytes
        has = f"{size / 1024**3:.1f} GiB" if size else "an unknown size"
        console.out.print(f"{report.device.name} has {has}")
    if report.picture:
        console.out.print(f"\ntrained tokens of a game, in brackets:\n{report.picture}\n")
    for finding in report.findings:
        console.out.print(f"{finding.level}: {finding.message}")
