"""Time to build, save and load the matrix of marks.

python benchmarks/matrix.py [--words original] [--repeats 5] [--json]
"""

import argparse
import tempfile
from pathlib import Path

from measure import show, time_job

from wordle_rl.solver import Solver, marks_matrix
from wordle_rl.words import load_words


def main() -> None:
    """Time the three jobs and print them."""
    parser = argparse.ArgumentParser(description="Time the feedback matrix.")
    parser.add_argument("--words", default="default", help="word list: default, original, nyt or a directory")
    parser.add_argument("--repeats", type=int, default=5, help="runs per job; the median is shown")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    words = load_words(options.words)

    def build() -> str:
        matrix = marks_matrix(words.guesses, words.answers)
        return f"{matrix.shape[0]} x {matrix.shape[1]} {matrix.dtype}, {matrix.nbytes / 1e6:.1f} MB"

    with tempfile.TemporaryDirectory() as directory:

        def build_and_save() -> str:
            for file in Path(directory).iterdir():
                file.unlink()
            checksum = int(Solver(words, cache_dir=Path(directory)).matrix[0].sum())
            (file,) = Path(directory).iterdir()
            return f"{file.stat().st_size / 1e6:.1f} MB file, row sum {checksum}"

        def load() -> str:
            checksum = int(Solver(words, cache_dir=Path(directory)).matrix[0].sum())
            return f"seal checked, mapped, row sum {checksum}"

        timings = [
            time_job("build", build, options.repeats),
            time_job("build and save", build_and_save, options.repeats),
            time_job("load", load, options.repeats),
        ]
    show(f"Feedback matrix, {words.name} list", timings, as_json=options.json)


if __name__ == "__main__":
    main()
