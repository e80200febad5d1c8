"""Memory of a training under verl: all processes of Ray, the command and the rollout server together, read all along.

    python benchmarks/verl_memory.py [--steps 200] [--record FILE] [--svg FILE]

needs the environment of `make test-verl` and no GPU: the platform of the tests (`tests/support/verl_cpu.py`) stands in.
The model is the smallest; every step plays and trains on eight games, checkpoints and validations are part of the run.
Memory is the proportional set size, in which processes that share a page have a part of it each, so that the sum over
processes counts every page once. The exit code is 1 if memory is not flat: if after the first ten steps the highest
median of ten steps exceeds the lowest by more than 10 %.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
from measure import hardware
from readings import Reading, draw, growth

MOST_RANGE = 0.10
TEN = 10
SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
OPTIONS = (
    "--max-prompt-tokens", "16", "--max-response-tokens", "160", "--validate-every-steps", "50",
)  # fmt: skip


def held_by(process: psutil.Process) -> tuple[float, int, int]:
    """Proportional set size in MiB, threads and open files of a process; nothing of one that has ended."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return 0.0, 0, 0
        pss = process.memory_full_info().pss
        return pss / 2**20, process.num_threads(), process.num_fds()
    except psutil.NoSuchProcess:  # of which a zombie is one
        return 0.0, 0, 0


def read_tree(root: psutil.Process, done: float) -> Reading:
    """The sum over all processes that a process has started, and those that these have started."""
    held = [held_by(process) for process in root.children(recursive=True)]
    memory, threads, files = (sum(values) for values in zip(*held, strict=True))
    return Reading(done, round(memory, 1), int(threads), int(files))


def range_of(readings: Sequence[Reading]) -> float:
    """Highest over lowest median of ten steps, less one, after the first ten."""
    tens: dict[int, list[float]] = {}
    for reading in readings:
        tens.setdefault(int(reading.done - 1) // TEN, []).append(reading.memory_mib)
    medians = [statistics.median(values) for ten, values in sorted(tens.items()) if ten > 0]
    if not medians:
        raise ValueError(f"{len(readings)} readings end within ten steps; give more --steps")
    return max(medians) / min(medians) - 1


def training(steps: int, every_s: float) -> Iterator[Reading]:
    """Readings of a whole `python -m wordle_rl.trainers.verl` while it trains."""
    sys.path.insert(0, str(SUPPORT))
    from training_fixtures import write_config  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from verl_cluster import command, environment, ray_nodes  # type: ignore[import-not-found, unused-ignore]
    from verl_games import verl_run  # type: ignore[import-not-found, unused-ignore]

    changes = {"grpo__steps": str(steps), "grpo__save_steps": "50", "model__attn_implementation": '"eager"'}
    root = psutil.Process()
    with tempfile.TemporaryDirectory() as directory, ray_nodes(1) as address:
        run = verl_run(Path(directory) / "run", Path("default"), **changes)
        config = write_config(Path(directory) / "smallest.toml", Path("default"), **changes)
        words = command(config, run, address, OPTIONS, ())
        process = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL)
        metrics = run / "metrics.jsonl"
        try:
            while process.poll() is None:
                time.sleep(every_s)
                # The last line may be half written.
                lines = metrics.read_text().rpartition("\n")[0].splitlines() if metrics.is_file() else []
                trained = [row["step"] for row in map(json.loads, lines) if row["stage"] == "grpo"]
                if trained and trained[-1] < steps:
                    yield read_tree(root, trained[-1])
        finally:
            process.terminate()
        if process.returncode:
            raise RuntimeError(f"the training ended with {process.returncode}")


def main() -> int:
    """Train, read and print."""
    parser = argparse.ArgumentParser(description="Read what a training under verl holds.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every-s", type=float, default=3.0)
    parser.add_argument("--record", type=Path, help="write the readings to this file")
    parser.add_argument("--svg", type=Path, help="write their plot to this file")
    asked = parser.parse_args()
    begun, readings = time.monotonic(), list(training(asked.steps, asked.every_s))
    most = range_of(readings)
    report = {"run": "verl", "steps": readings[-1].done, "seconds": round(time.monotonic() - begun, 1),
              "first": asdict(readings[0]), "last": asdict(readings[-1]), "growth": growth(readings), "range": most,
              "flat": most <= MOST_RANGE, "hardware": hardware()}  # fmt: skip
    if asked.record is not None:
        asked.record.write_text(json.dumps(report | {"readings": [asdict(r) for r in readings]}, indent=1) + "\n")
    if asked.svg is not None:
        draw(readings, "steps", asked.svg)
    print(json.dumps(report, indent=2))
    return 0 if report["flat"] else 1


if __name__ == "__main__":
    sys.exit(main())
