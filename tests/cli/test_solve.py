"""Laws of `solve`: the entropy table is as by counting, and the printed tree finds every secret."""

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


def test_the_printed_tree_finds_every_secret_by_its_marks(cli, word_directory: Path) -> None:
    code, out, _ = cli("solve", "--words", word_directory, "--tree")
    assert code == 0
    root: dict[str, tuple[str, dict]] = {}  # marks -> the guess to make, and its branches
    open_branches = [root]
    for line in out.split("\n\n")[0].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        marks, _, guess = f" {line.strip()}".rpartition(" ")
        del open_branches[depth + 1 :]
        open_branches[depth][marks.strip()] = (guess, {})
        open_branches.append(open_branches[depth][marks.strip()][1])
    for secret in load_words(str(word_directory)).answers:
        guess, branches = root[""]
        for _ in range(5):
            if guess != secret:
                guess, branches = branches[score_guess(secret, guess)]
        assert guess == secret
