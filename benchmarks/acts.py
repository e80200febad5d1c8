"""Draw the wins of a run's stages over the games that they played, for README.

python benchmarks/acts.py runs/quickstart --svg docs/acts.svg
"""

from pathlib import Path

import tyro
from matplotlib.figure import Figure

from wordle_rl.report import read_run
from wordle_rl.report.curves import curves_of_play
from wordle_rl.report.svg import COLORS, running_mean


def main(run: tyro.conf.Positional[Path], svg: Path) -> None:
    """Draw a figure.

    Args:
        run: A run with stages that learn by play.
        svg: File to write.
    """
    record = read_run(run)
    figure = Figure((8.0, 3.6), layout="constrained")
    axes = figure.subplots()
    end = 0.0
    first = record.results[record.first or ""]["train"].win_rate
    axes.plot(0, 100 * (first or 0.0), "o", color=COLORS[0], label="SFT, greedy", clip_on=False)
    for curve, color in zip(curves_of_play(record), COLORS[1:], strict=False):
        games, won = curve.steps / 1000, 100 * curve.values
        if len(won) > 40:
            axes.plot(games, won, color=color, linewidth=0.8, alpha=0.35)
            won = 100 * running_mean(curve.values)
        axes.plot(games, won, color=color, linewidth=2, label=curve.name, marker="o" if len(won) < 40 else "")
        if end:
            axes.axvline(end, color="#999999", linewidth=0.8, linestyle=":")
        end = float(games[-1])
    axes.set_ylim(0, 100)
    axes.set_xlim(left=-0.5)
    axes.set_ylabel("training games won, %")
    axes.set_xlabel("games played, thousands")
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e2e0d8", linewidth=0.6)
    figure.savefig(svg, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    tyro.cli(main)
