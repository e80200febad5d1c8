"""Resident memory over the steps of a run: two figures and a plot.

    wordle-rl run quickstart --out runs/memory --until grpo --traces.num-games 2000 --grpo.steps 300 \
        --grpo.groups-per-step 8 --rl.group-size 8 --model.micro-batch-size 0 --grpo.validate-every-steps 0
    python benchmarks/memory.py runs/memory --svg docs/memory.svg
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from wordle_rl.report.html.charts import nice_ticks
from wordle_rl.runs import RunError, read_jsonl

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 260, 52, 220, 20, 620


@dataclass(frozen=True)
class Memory:
    """Gibibytes resident at each step, in the order of the steps."""

    steps: list[int]
    gib: list[float]

    def near(self, step: int) -> float:
        """Resident memory at a step, or at the last one before it."""
        return [gib for at, gib in zip(self.steps, self.gib, strict=True) if at <= step][-1]


def read_memory(run: Path, stage: str) -> Memory:
    """The memory column of a run's metrics.

    Raises:
        RunError: If there is none.
    """
    name = "resident_memory_gib"
    rows = [row for row in read_jsonl(run / "metrics.jsonl") if row.get("stage") == stage and name in row]
    if not rows:
        raise RunError(f"{run} tells of no memory in stage {stage!r}; train it anew, on Linux")
    return Memory([row["step"] for row in rows], [row[name] for row in rows])


def draw(memory: Memory, title: str) -> str:
    """The plot as SVG; the axis of memory begins at zero, so that growth is not made to look larger than it is."""
    ticks = nice_ticks(0.0, max(memory.gib))
    last = memory.steps[-1]

    def at(step: float, gib: float) -> tuple[float, float]:
        return LEFT + (RIGHT - LEFT) * step / last, BOTTOM - (BOTTOM - TOP) * gib / ticks[-1]

    curve = " ".join("{:.1f},{:.1f}".format(*at(s, g)) for s, g in zip(memory.steps, memory.gib, strict=True))
    lines = "".join(
        f'<path d="M{LEFT} {at(0, tick)[1]:.1f}H{RIGHT}" stroke="#ddd"/>'
        f'<text x="{LEFT - 6}" y="{at(0, tick)[1] + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in ticks
    )
    marks = "".join(
        f'<text x="{at(step, 0)[0]:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{step}</text>'
        for step in (0, last // 2, last)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}" '
        f'font-family="sans-serif" font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>{lines}{marks}'
        f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">{title}</text>'
        f'<polyline points="{curve}" fill="none" stroke="#1f6f43" stroke-width="2"/></svg>\n'
    )


def main(run: tyro.conf.Positional[Path], svg: Path | None = None, stage: str = "grpo", early: int = 50) -> None:
    """Print and draw.

    Args:
        run: A run directory.
        svg: Where to put the plot.
        stage: Which training.
        early: The step that the last one is compared with.

    Raises:
        RunError: If the run tells of no memory at that step, or ends there.
    """
    memory = read_memory(run, stage)
    first, last = memory.steps[0], memory.steps[-1]
    if not first <= early < last:
        raise RunError(f"{run} tells of steps {first} to {last} of {stage}; give --early one of them before the last")
    before, after = memory.near(early), memory.near(last)
    print(f"step {early}: {before:.3f} GiB; step {last}: {after:.3f} GiB; ratio {after / before:.3f}")
    if svg is not None:
        svg.write_text(draw(memory, f"GiB resident over {last} steps of {stage.upper()}"), encoding="utf-8")


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except RunError as error:
        sys.exit(f"error: {error}")
