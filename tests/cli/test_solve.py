"""Laws of `solve --entropies`: every listed guess once, figures as by counting, nothing else written over."""

import csv
import math
from collections import Counter
from pathlib import Path

import pytest

from wordle_rl.game import score_guess
from wordle_rl.words import load_words


def test_the_entropy_table_agrees_with_counting_marks(cli, word_directory: Path, tmp_path: Path) -> None:
    table = tmp_path / "entropies.csv"
    command = ("solve", "--words", word_directory, "--entropies", table)
    assert [cli(*command)[0] for _ in range(2)] == [0, 0], "an earlier table is replaced"
    words = load_words(str(word_directory))
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert sorted(row["guess"] for row in rows) == sorted(words.guesses)
    bits = [float(row["expected_information_bits"]) for row in rows]
    assert bits == sorted(bits, reverse=True)
    for row in rows:
        sizes = Counter(score_guess(answer, row["guess"]) for answer in words.answers).values()
        parts = [size / len(words.answers) for size in sizes]
        assert float(row["expected_information_bits"]) == pytest.approx(-sum(p * math.log2(p) for p in parts), abs=1e-9)
        assert float(row["expected_remaining"]) == pytest.approx(
            sum(p * size for p, size in zip(parts, sizes, strict=True))
        )
        assert int(row["largest_class"]) == max(sizes)
