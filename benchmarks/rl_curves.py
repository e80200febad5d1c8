"""Draw wins in training and the noise of the gradient from rows of `rl_ablation.py`.

    python benchmarks/rl_curves.py benchmarks/records/grpo.jsonl --svg docs/grpo.svg \\
        --ways "wins, T = 1" "dense, T = 1, Muon 0.004"
"""

import json
from pathlib import Path

import numpy as np
import tyro
from matplotlib.figure import Figure

COLORS = ("#1a7f3c", "#c2571a", "#5b7aa8", "#8a4fb0", "#c23b5e", "#a67a10")


def smoothed(values: list[float], reach: int = 2) -> list[float]:
    """Average over a centred window."""
    return [float(np.mean(values[max(0, at - reach) : at + reach + 1])) for at in range(len(values))]


def main(records: tyro.conf.Positional[Path], svg: Path, ways: tuple[str, ...], title: str = "") -> None:
    """Draw the curves of some ways; seeds of a way share a colour.

    Args:
        records: Rows of `rl_ablation.py`.
        svg: File to write.
        ways: Ways to draw, in the order of the legend.
        title: Heading.
    """
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    known = sorted({row["way"] for row in rows if row["curve"]})
    if not {*ways} <= {*known} or len(ways) > len(COLORS):
        raise SystemExit(f"--ways: give at most {len(COLORS)} of {', '.join(map(repr, known))}")
    figure = Figure((8.0, 6.0), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for way, color in zip(ways, COLORS, strict=False):
        for place, row in enumerate(row for row in rows if row["way"] == way and row["curve"]):
            label = way if not place else None
            games = [point["games"] / 1000 for point in row["curve"]]
            won = [100 * point["win_rate"] for point in row["curve"]]
            above.plot(games, smoothed(won), color=color, label=label, linewidth=1.5)
            measured = [
                (point["games"] / 1000, point["gradient/cosine"])
                for point in row["curve"]
                if "gradient/cosine" in point
            ]
            if measured:
                below.plot(*zip(*measured, strict=True), color=color, linewidth=1)
    above.set_ylabel("games of a step won, %")
    above.set_ylim(0, 100)
    above.legend(frameon=False)
    above.set_title(title, loc="left", fontsize=10)
    below.set_ylabel("cosine of two halves")
    below.axhline(0, color="#999999", linewidth=0.8)
    below.set_xlabel("games played, thousands")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e2e0d8", linewidth=0.6)
    figure.savefig(svg, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    tyro.cli(main)
