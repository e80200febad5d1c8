"""`run`: the whole chain of stages, or part of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json
from wordle_rl.cli.settings import Overrides
from wordle_rl.config import ConfigError, RunConfig, RunStage, load_config, stored_config
from wordle_rl.runs.distributed import num_processes


@dataclass(frozen=True)
class PushTarget:
    """Hub repository that a run is pushed to; `private` applies to a new repository."""

    repo: str
    private: bool


def run(
    config: Annotated[str, tyro.conf.Positional],
    overrides: Overrides,
    out: Path | None = None,
    overwrite: bool = False,
    until: RunStage = "report",
    push_to: str | None = None,
    private: bool = False,
    as_json: Json = False,
) -> None:
    """Run the whole chain: teacher games, SFT, GRPO (or the --algorithm), evaluation, report.

    Args:
        config: A preset such as quickstart, or a config file.
        overrides: Settings that override the file's.
        out: The run directory. Default: runs/ and the name of the preset or file. A run with the same settings resumes
            where it stopped. {model} and {time} in the name stand for the model and the time of the call.
        overwrite: Remove an earlier run in that directory first.
        until: Last stage to run: traces, sft, the algorithm, or report.
        push_to: Push the model to this Hugging Face repository (USER/NAME) at every checkpoint (sft.save_steps,
            grpo.save_steps), and at the end with its card.
        private: Create a new repository as private.
        as_json: Print the result as JSON.
    """
    directory = out or Path("runs") / Path(config).name.removesuffix(".toml").removesuffix(".json")
    target = PushTarget(push_to, private) if push_to is not None else None
    wanted = load_config(config, overrides)
    run_chain(wanted, _named(directory, wanted), overwrite, until, as_json, target)


def _named(directory: Path, config: RunConfig) -> Path:
    if "{time}" in str(directory) and num_processes() > 1:
        # Each process would fill in its own time.
        raise ConfigError(f"--out {directory}: the processes of a launch start at different times; drop {{time}}")
    model = Path(config.model.path).name
    return Path(str(directory).replace("{model}", model).replace("{time}", f"{datetime.now():%Y%m%d-%H%M%S}"))


def run_chain(
    config: RunConfig,
    directory: Path,
    overwrite: bool,
    until: RunStage,
    as_json: bool,
    target: PushTarget | None = None,
) -> None:
    """Run the chain, then print figures, two games and the path of the report."""
    from wordle_rl.pipeline import HubPusher, Pipeline
    from wordle_rl.runs.distributed import is_first

    pusher = None
    if target is not None and is_first():
        pusher = HubPusher(target.repo, _message, private=target.private)
    results = Pipeline(config, directory, console.messages, overwrite=overwrite, pusher=pusher)(until)
    if not is_first():
        return
    if results is None:
        console.out.print(f"finished up to {until}: {directory}")
        return
    if as_json:
        console.print_json(results)
        return
    _show_results(directory, results)


def _message(line: str) -> None:
    console.messages.print(line, soft_wrap=True)


def show_claims(directory: Path) -> None:
    """Print held-out figures by what training showed, and the gain by play beside its controls."""
    from wordle_rl.report import claims, read_run

    record = read_run(directory)
    if record.strata is not None:
        console.out.print(claims.strata_table(record.results, record.strata))
    if (table := claims.control_table(record)) is not None:
        if record.controls:
            console.out.print(claims.terminal_control_table(table))
        if table.verdict:
            console.messages.print(table.verdict)


def _show_results(directory: Path, results: dict[str, Any]) -> None:
    from wordle_rl.evaluate.records import CONSTRAINED_PART, STRICT_CONSTRAINED_PART, Evaluation, Figures, sampled_part
    from wordle_rl.report import terminal
    from wordle_rl.runs.progress import elapsed
    from wordle_rl.words import load_words

    config = stored_config(directory / "config.json")
    split = config.words.split_of(load_words(config.words.source))
    names = [name for name in config.evaluated if name in results]
    figures = {name: {part: Figures(**values) for part, values in results[name].items()} for name in names}
    last = Evaluation.load(directory / "eval" / f"{names[-1]}.json")
    rules = f"{last.rules.dictionary} dictionary{', hard mode' if last.rules.hard_mode else ''}"
    limited = (CONSTRAINED_PART, STRICT_CONSTRAINED_PART)
    # A terminal has room for three parts, greedy and sampled.
    greedy = ("strict", "held_out", "all") if split.strict else ("held_out", "train", "all")
    shown = (*greedy, *map(sampled_part, greedy))
    apart = {name: {p: f for p, f in parts.items() if p in limited} for name, parts in figures.items()}
    plain = {name: {p: f for p, f in parts.items() if p in shown} for name, parts in figures.items()}
    sampled = "; T = 1: the same again, sampled at temperature 1" if "sampled" in config.eval.also else ""
    console.out.print(terminal.results_table(plain, title=f"Greedy decoding, one game per secret, {rules}{sampled}"))
    if any(apart.values()):
        console.out.print(terminal.results_table(apart, title="The same, every guess limited to listed words"))
    show_claims(directory)
    held_out = [record for record in last.records if record.secret in set(split.test)]
    samples = [next((record for record in held_out if record.won is won), None) for won in (True, False)]
    for record in samples:
        if record is not None:
            console.out.print()
            console.out.print(terminal.game_panel(record, max_turns=last.rules.max_turns))
    console.out.print()
    seconds = results["seconds"]
    parts = ", ".join(f"{stage} {elapsed(s)}" for stage, s in seconds.items() if stage != "total")
    console.out.print(f"{elapsed(seconds['total'])} in all ({parts}); peak memory {results['peak_memory_gib']} GiB")
    console.out.print(f"report: {directory / 'report.html'}")
