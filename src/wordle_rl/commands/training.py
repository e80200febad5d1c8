"""Training runs, and whether one will work."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from wordle_rl.commands.console import messages, out, print_json
from wordle_rl.config import ConfigError, RunConfig, RunStage, load_config
from wordle_rl.evaluate import CONSTRAINED_PART, Evaluation, Figures
from wordle_rl.pipeline import Pipeline
from wordle_rl.preflight.report import Preflight, preflight
from wordle_rl.report import terminal
from wordle_rl.runs.distributed import is_first
from wordle_rl.runs.progress import elapsed, in_percent
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets


def run(config: RunConfig, directory: Path, overwrite: bool, until: RunStage, as_json: bool) -> None:
    """The whole chain; ends with figures, two games and the report's path."""
    results = Pipeline(config, directory, messages, anew=overwrite)(until)
    if not is_first():
        return
    if results is None:
        out.print(f"finished up to {until}: {directory}", highlight=False)
        return
    if as_json:
        print_json(results)
        return
    _show_results(directory, results)


def _show_results(directory: Path, results: dict[str, Any]) -> None:
    config = load_config(directory / "config.json")
    split = split_secrets(load_words(config.words.source), config.words.split_seed)
    names = [name for name in config.evaluated if name in results]
    figures = {name: {part: Figures(**values) for part, values in results[name].items()} for name in names}
    last = Evaluation.load(directory / "eval" / f"{names[-1]}.json")
    rules = f"{last.rules.dictionary} dictionary{', hard mode' if last.rules.hard_mode else ''}"
    apart = {name: {p: f for p, f in parts.items() if p == CONSTRAINED_PART} for name, parts in figures.items()}
    plain = {name: {p: f for p, f in parts.items() if p != CONSTRAINED_PART} for name, parts in figures.items()}
    out.print(terminal.results_table(plain, title=f"Greedy decoding, one game per secret, {rules}"))
    if any(apart.values()):
        out.print(terminal.results_table(apart, title="The same, every guess limited to listed words"))
    held_out = [record for record in last.records if record.secret in set(split.test)]
    samples = [next((record for record in held_out if record.won is won), None) for won in (True, False)]
    for record in samples:
        if record is not None:
            out.print()
            out.print(terminal.game_panel(record, max_turns=last.rules.max_turns))
    out.print()
    seconds = results["seconds"]
    parts = ", ".join(f"{stage} {elapsed(s)}" for stage, s in seconds.items() if stage != "total")
    out.print(
        f"{elapsed(seconds['total'])} in all ({parts}); peak memory {results['peak_memory_gib']} GiB", highlight=False
    )
    out.print(f"report: {directory / 'report.html'}", highlight=False)


def preflight_run(config: RunConfig, num_groups: int, as_json: bool) -> None:
    """Whether a run will work: everything looked at, then what was found."""
    with messages.status("looking at the model…"):
        report = preflight(config, num_groups)
    if as_json:
        memory = {stage: {**asdict(e), "counted": e.counted, "total": e.total} for stage, e in report.memory.items()}
        print_json({**asdict(report), "memory": memory})
    else:
        _show_preflight(config.model.path, report)
    problems = sum(finding.level == "problem" for finding in report.findings)
    if problems:
        raise ConfigError(
            f"this run cannot work: {problems} {'problem' if problems == 1 else 'problems'}, listed above"
        )


def _show_preflight(path: str, report: Preflight) -> None:
    numbers, played = report.numbers, report.played
    facts: dict[str, str] = {"model": path}
    if numbers is not None:
        facts["parameters"] = f"{numbers.num_parameters:,}, {numbers.num_trainable:,} of them trained"
        facts["context"] = f"{numbers.context:,} tokens" if numbers.context else "not said"
    if report.picture:
        facts["chat template"] = "; ".join(report.template_changes) or "as it stands"
        facts["a turn ends with"] = f"{report.turn_end}; sampling stops at {', '.join(report.stop_tokens)}"
        facts["longest guess"] = f"{report.longest_reply} tokens"
        taught = f"; the teacher's {report.longest_teacher_game}" if report.longest_teacher_game else ""
        facts["longest game"] = f"{report.longest_game} tokens{taught}"
    if played is not None:
        facts["games played"] = (
            f"{played.num_games}: {in_percent(played.win_rate, 0)}% won, "
            f"{in_percent(played.format_compliance, 0)}% of replies with a listed word, "
            f"{in_percent(played.overlong_share, 0)}% cut, {played.mean_reply_tokens:.0f} tokens each, "
            f"{in_percent(played.zero_variance_share, 0)}% of groups without a difference"
        )
    for name, value in facts.items():
        out.print(f"{name:<17} {value}", highlight=False, markup=False)
    if report.device is not None:
        out.print(terminal.memory_table(report.memory))
        size = report.device.num_bytes
        has = f"{size / 1024**3:.1f} GiB" if size else "an unknown size"
        out.print(f"{report.device.name} has {has}", highlight=False, markup=False)
    if report.picture:
        out.print(f"\ntrained tokens of a game, in brackets:\n{report.picture}\n", highlight=False, markup=False)
    for finding in report.findings:
        out.print(f"{finding.level}: {finding.message}", highlight=False, markup=False)
