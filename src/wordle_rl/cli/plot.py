"""`plot`: a figure of a run as a file of SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from wordle_rl.cli import console
from wordle_rl.report import read_run
from wordle_rl.report.plots import wins_plot
from wordle_rl.report.read import read_metrics
from wordle_rl.runs import write_text_atomically


def plot(
    figure: Annotated[Literal["wins"], tyro.conf.Positional], run: Annotated[Path, tyro.conf.Positional], out: Path
) -> None:
    """Draw a figure of a training (SVG).

    Args:
        figure: `wins`: training games won since the start, and the win rate against the turn, over the steps.
        run: The run's directory, or a metrics.jsonl of one.
        out: The file of SVG to write.
    """
    metrics = read_metrics(run) if run.is_file() else read_run(run).metrics
    name = (run.resolve().parent if run.is_file() else run.resolve()).name
    drawn = {"wins": wins_plot}[figure](metrics, f"{name}: wins in training")
    write_text_atomically(out, drawn)
    console.out.print(f"{figure}: {out}", highlight=False, markup=False)
