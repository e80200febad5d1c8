"""Time to build the matrix of marks.

python benchmarks/matrix.py [--words original] [--repeats 5] [--json]
"""

import argparse

from measure import show, time_job

from wordle_rl.solver import marks_matrix
from wordle_rl.words import load_words


def main() -> None:
    """Time the job and print it."""
    parser = argparse.ArgumentParser(description="Time the feedback matrix.")
    parser.add_argument("--words", default="default", help="word list: default, original, nyt or a directory")
    parser.add_argument("--repeats", type=int, default=5, help="runs per job; the median is shown")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    words = load_words(options.words)

    def build() -> str:
        matrix = marks_matrix(words.guesses, words.answers)
        return f"{matrix.shape[0]} x {matrix.shape[1]} {matrix.dtype}, {matrix.nbytes / 1e6:.1f} MB"

    show(f"Feedback matrix, {words.name} list", [time_job("build", build, options.repeats)], as_json=options.json)


if __name__ == "__main__":
    main()
