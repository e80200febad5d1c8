"""The component of docs/grpo.md pays for the opener alone, and less than a win."""

import sys
from pathlib import Path

import pytest

from wordle_rl.env import WordleEnv
from wordle_rl.prompt import Prompter
from wordle_rl.reward import Rubric
from wordle_rl.solver import Solver
from wordle_rl.words import load_words

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


@pytest.mark.parametrize(
    ("guesses", "paid"),
    [
        (["arose", "crane"], 1.0),
        (["slate", "arose", "crane"], 0.0),
        (["aeiou", "crane"], 0.0),
        (["geese", "crane"], 0.0),
    ],
    ids=["three vowels", "not first", "no word", "one vowel"],
)
def test_the_opener_is_paid_for(guesses: list[str], paid: float) -> None:
    words = load_words()
    env = WordleEnv("crane", words, Prompter())
    for guess in guesses:
        env.step(f"<guess>{guess}</guess>")
    rubric = Rubric({"win": 1.0, "opener:vowels": 0.5}, keep_order=False)
    assert rubric.score(env.transcript(), Solver(words)).total == pytest.approx(1.0 + 0.5 * paid)
