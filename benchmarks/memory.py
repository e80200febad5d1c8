"""Resident memory over the steps of a run: two figures and a plot.

    wordle-rl run imitation --out runs/memory --stages sft,grpo --until grpo --traces.num-games 2000 --grpo.steps 300 \
        --grpo.groups-per-step 8 --grpo.group-size 8 --model.micro-batch-size 0 --grpo.validate-every-steps 0
    python benchmarks/memory.py runs/memory --svg docs/memory.svg
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro
from matplotlib.figure import Figure

from wordle_rl.runs import RunError, read_jsonl


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


def draw(memory: Memory, title: str, path: Path) -> None:
    """Write the plot; the axis of memory begins at zero, so that growth is not made to look larger than it is."""
    figure = Figure((8.9, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(memory.steps, memory.gib, color="#1f6f43")
    axes.set(ylim=(0, None), title=title, xlabel="step")
    axes.grid(axis="y", color="#dddddd")
    figure.savefig(path, format="svg", metadata={"Date": None})


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
        draw(memory, f"GiB resident over {last} steps of {stage.upper()}", svg)


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except RunError as error:
        sys.exit(f"error: {error}")
