"""`preflight`: a look at a run before it is started."""

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
    """Check before you train whether a run will work: chat template, stop tokens, budgets, memory, a few games.

    Nothing is trained. The exit code is 2 if the run cannot work; each reason is a line.

    Args:
        config: A preset such as quickstart, or a config file.
        overrides: Settings that override the file's.
        groups: Groups of games that the model plays; 0 plays none, so its weights are not needed.
        memory_gib: With backend mlx, or torch on a Mac: memory of the Mac that will train, such as 16 or 48; left out:
            of this machine.
        as_json: Print the result as JSON.
    """
    if groups < 0:
        raise ConfigError(f"groups {groups} must not be negative; 0 plays no games", "groups")
    look_at(load_config(config, overrides), groups, as_json, memory_gib)


def look_at(config: RunConfig, num_groups: int, as_json: bool, memory_gib: float | None = None) -> None:
    """Look at everything, then print what was found."""
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
        raise ConfigError(
            f"this run cannot work: {problems} {'problem' if problems == 1 else 'problems'}, listed above"
        )


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
        console.out.print(f"{name:<17} {value}", highlight=False, markup=False)
    if report.device is not None:
        console.out.print(terminal.memory_table(report.memory))
        size = report.device.num_bytes
        has = f"{size / 1024**3:.1f} GiB" if size else "an unknown size"
        console.out.print(f"{report.device.name} has {has}", highlight=False, markup=False)
    if report.picture:
        console.out.print(
            f"\ntrained tokens of a game, in brackets:\n{report.picture}\n", highlight=False, markup=False
        )
    for finding in report.findings:
        console.out.print(f"{finding.level}: {finding.message}", highlight=False, markup=False)
