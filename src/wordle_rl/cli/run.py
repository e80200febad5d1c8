"""`run`: the chain of stages. `preflight`: check a run before you start it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Overrides, fill_in
from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config, load_tiny, stored_config
from wordle_rl.config.options import Json
from wordle_rl.config.run import RunConfig

if TYPE_CHECKING:
    from wordle_rl.preflight.report import Preflight


def run(
    config: Annotated[str, tyro.conf.Positional],
    overrides: Overrides,
    out: Path | None = None,
    overwrite: bool = False,
    until: str = "report",
    push_to: str | None = None,
    private: bool = False,
    tiny: bool = False,
    as_json: Json = False,
) -> None:
    """Run the whole chain: teacher games, the stages of training (--stages), evaluation, report.

    Args:
        config: A preset such as quickstart, or a config file.
        out: The run directory. Default: runs/ and the name of the preset or file. A run with the same settings resumes
            where it stopped. {model} and {time} in the name stand for the model and the time of the call, so {time}
            always starts a new run.
        overwrite: Remove an earlier run in that directory first.
        until: Last part to run: traces, a stage such as sft or grpo, or report.
        push_to: Push the model to this Hugging Face repository (USER/NAME) at every checkpoint (sft.save_steps,
            grpo.save_steps), and at the end with its card.
        private: Create a new repository as private.
        tiny: Try the recipe's stages first, with the bundled small model and a few games, in about a minute of a
            processor, in runs/NAME-tiny. The figures of such a run mean nothing. Settings that you type still count.
    """
    name = Path(config).name.removesuffix(".toml").removesuffix(".json")
    directory = out or Path("runs") / (f"{name}-tiny" if tiny else name)
    if tiny and push_to is not None:
        raise ConfigError("--tiny makes a model that is worth nothing; drop --push-to, or --tiny")
    wanted = load_tiny(config, overrides) if tiny else load_config(config, overrides)
    warning = "--tiny: a small model and few games show that the stages work; the figures mean nothing"
    if tiny:
        console.messages.print(warning, soft_wrap=True)
    run_chain(wanted, fill_in(directory, wanted.model.path), overwrite, until, as_json, push_to, private)
    if tiny:
        console.messages.print(warning, soft_wrap=True)


def run_chain(
    config: RunConfig,
    directory: Path,
    overwrite: bool,
    until: str,
    as_json: bool,
    push_to: str | None = None,
    private: bool = False,
) -> None:
    """Run the chain, then print figures, two games and the path of the report."""
    with console.messages.status("loading torch…"):  # takes seconds
        from wordle_rl.pipeline import HubPusher, Pipeline
        from wordle_rl.runs.distributed import is_first

    # A missing token or a name that the hub refuses is told now, not after the training.
    pusher = None
    if push_to is not None and is_first():
        pusher = HubPusher(push_to, lambda line: console.messages.print(line, soft_wrap=True), private=private)
    results = Pipeline(config, directory, console.messages, overwrite=overwrite, pusher=pusher)(until)
    # Every process gets here, and only the first one has results and a terminal.
    if not is_first():
        return
    if results is None:
        told = {"run": str(directory), "finished": until}
        console.show(told, [f"finished up to {until}: {directory}"], as_json)
    elif as_json:
        console.print_json(results)
    else:
        _show_results(directory, results)


def _show_results(directory: Path, results: dict[str, Any]) -> None:
    from wordle_rl.evaluate.figures import RESULT_SPLITS
    from wordle_rl.evaluate.forgetting import English
    from wordle_rl.evaluate.records import Evaluation
    from wordle_rl.evaluate.results_table import MAIN_FIGURES, results_table
    from wordle_rl.report import read_run, terminal
    from wordle_rl.report.controls import control_table
    from wordle_rl.report.findings import findings_of, told_in_lines
    from wordle_rl.runs.progress import elapsed
    from wordle_rl.words import load_words

    config, run = stored_config(directory / "config.json"), read_run(directory)
    split = config.words.split_of(load_words(config.words.source))
    names = [name for name in config.evaluated if name in results]
    last = Evaluation.load(directory / "eval" / f"{names[-1]}.json")
    rules = f"{last.rules.dictionary} dictionary{', hard mode' if last.rules.hard_mode else ''}"
    table = results_table({name: run.results[name] for name in names}, MAIN_FIGURES, RESULT_SPLITS)
    console.out.print(terminal.figures_table(table, f"Greedy unless it says T = 1, one game per secret, {rules}"))
    if run.limit_note:
        console.messages.print(run.limit_note)
    controls = control_table(run)
    if controls is not None and controls.verdict:
        console.messages.print(controls.verdict)
    for row in results.get("english", ()):
        console.out.print(f"English of {row['model']}: {English(row['bits_per_token'], row['num_right'])}")
    held_out = [record for record in last.records if record.secret in set(split.test)]
    # One game of each outcome, of a word that training never had as a secret.
    samples = [next((record for record in held_out if record.won is won), None) for won in (True, False)]
    for record in samples:
        if record is not None:
            console.out.print()
            console.out.print(terminal.game_panel(record, max_turns=last.rules.max_turns))
    console.out.print()
    seconds = results["seconds"]
    parts = ", ".join(f"{stage} {elapsed(s)}" for stage, s in seconds.items() if stage != "total")
    console.out.print(f"{elapsed(seconds['total'])} in all ({parts}); peak memory {results['peak_memory_gib']} GiB")
    for line in told_in_lines(run, findings_of(run)):
        console.messages.print(line)
    console.out.print(f"report: {directory / 'report.html'}")
    console.messages.print(
        f"next: wordle-rl watch {directory}\n"
        f"      wordle-rl play --player {directory}\n"
        f"      wordle-rl eval --player {directory} --split all",
        soft_wrap=True,
    )


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
        groups: Groups of games for the model to play. 0 plays none and needs no weights.
        memory_gib: Memory in GiB of the GPU that will train, such as 24, in place of the device here; on a Mac or for
            backend mlx, memory of the Mac.
    """
    look_at(load_config(config, overrides), max(0, groups), as_json, memory_gib)


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
    # Raised last, so that a run that cannot work is still shown with all that was found.
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
    # None with --groups 0, which plays nothing and needs no weights.
    if played is not None:
        facts["games played"] = (
            f"{played.num_games}: {in_percent(played.win_rate, 0)}% won, "
            f"{in_percent(played.format_compliance, 0)}% of replies with a listed word, "
            f"{in_percent(played.cut_off_rate, 0)}% cut, {played.mean_reply_tokens:.0f} tokens each, "
            f"{in_percent(played.constant_group_rate, 0)}% constant groups"
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
