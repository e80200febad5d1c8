"""`compare`: evaluations side by side."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json
from wordle_rl.config import ConfigError
from wordle_rl.evaluate import Evaluation, MultiComparison, compare_all, write_rows
from wordle_rl.evaluate.controls import controls_at
from wordle_rl.report import terminal
from wordle_rl.report.plots import win_rate_plot
from wordle_rl.runs import write_text_atomically


def compare(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    names: tuple[str, ...] = (),
    control: tuple[Path, ...] = (),
    csv: Path | None = None,
    svg: Path | None = None,
    top: int = 20,
    as_json: Json = False,
) -> None:
    """Compare evaluations on the words that all of them played.

    Shows figures, and for each evaluation against the first McNemar's exact test, Tango's interval and a paired
    bootstrap. Where secrets were played more than once, wins are tested by secret.

    Args:
        runs: Evaluation files (JSON), two or more, or a directory of `eval --checkpoints`; the first is the base.
        names: What to call them; left out: their own names.
        control: Control runs (SFT alone, with nothing kept from the teacher) to stand beside the others.
        csv: Also write a row per evaluation to this file, unless it holds something else.
        svg: Also plot the win rates with their intervals into this file, over the steps if they are of checkpoints.
        top: Words shown, those that differ most; 0: none.
    """
    if top < 0:
        raise ConfigError(f"--top {top} shows no number of words; give at least 1, or 0: none")
    runs = tuple(path for given in runs for path in files_at(given))
    if names and len(names) != len(runs):
        raise ConfigError(f"{len(names)} names for {len(runs)} evaluations; give one for each")
    evaluations = [Evaluation.load(path) for path in runs]
    controls = [found for path in control for found in controls_at(path) if found.constrain == evaluations[0].constrain]
    own = [evaluation.name for evaluation in evaluations]
    shown = names or (own if len(set(own)) == len(own) else [path.as_posix() for path in runs])
    evaluations = [dataclasses.replace(each, name=name) for each, name in zip(evaluations, shown, strict=True)]
    evaluations += controls
    shared = compare_all(evaluations)
    if csv is not None:
        write_rows(csv, _standing_rows(shared))
    if svg is not None:
        title = f"wins of {shared.num_games:,} games, % (95 %)"
        write_text_atomically(svg, win_rate_plot(shared.runs, title))
    if as_json:
        console.print_json(asdict(shared))
        return
    if len(evaluations) == 2:
        console.out.print(terminal.results_table({run.name: {"shared games": run.figures} for run in shared.runs}))
        console.out.print(terminal.comparison_table(shared, max_rows=top))
    else:
        console.out.print(terminal.multi_comparison_table(shared, max_rows=top))


def files_at(path: Path) -> list[Path]:
    """Evaluation files meant by a path: itself, or those of a directory of checkpoints in the order of their steps."""
    steps = sorted(path.glob("step-*.json"), key=lambda file: int(file.stem.rsplit("-", 1)[1]))
    if not steps:
        return [path]
    return [file for file in (path / "start.json", *steps, path / "end.json") if file.is_file()]


def _standing_rows(found: MultiComparison) -> list[dict[str, Any]]:
    """A row per run: its figures, and what it is against the first."""
    rows = []
    for run in found.runs:
        row = {"name": run.name, "player": run.player, **asdict(run.figures)}
        row |= {f"games_{turns}": count for turns, count in row.pop("guess_distribution").items()}
        del row["pass_at"]  # `compare` tells secrets apart, not games of one
        pair = run.against_base
        for column in ("win_rate_difference", "guesses_difference"):
            estimate = (None, None, None) if pair is None else getattr(pair, column)
            row |= dict(zip((column, f"{column}_low", f"{column}_high"), estimate, strict=True))
        names = {"only_base": "only_a", "only_this": "only_b"}
        for column in (*names, "p_value", "guesses_p_value"):
            row[column] = None if pair is None else getattr(pair, names.get(column, column))
        rows.append(row)
    return rows
