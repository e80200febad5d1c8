"""Laws of the reward table: each part has a column, the histogram of all games has a bar a bin."""

from rich.console import Console

from wordle_rl.evaluate.rewards import GuessCount, RewardFigures
from wordle_rl.report.rewards import guesses_line, reward_table

FIGURES = RewardFigures("shaped", 4, 0.5, 0.25, -1.0, 1.0, 0.25, (-1.0, 0.0, 1.0), (1, 3))


def test_the_table_shows_range_share_below_zero_and_a_bar_a_bin() -> None:
    console = Console(width=100, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(reward_table({"all games": FIGURES, "train": FIGURES}))
    lines = captured.get().splitlines()
    rows = {line[:20].strip(): line.split() for line in lines if line.strip()}
    assert "Reward 'shaped'" in lines[0]
    assert rows["below zero, %"][-2:] == ["25.0", "25.0"]
    assert rows["lowest"][-2:] == ["-1.000", "-1.000"]
    bars = [line for line in lines if " to " in line]
    assert [line.split()[-1] for line in bars] == ["1", "3"]
    assert bars[1].count("█") == 3 * bars[0].count("█")


def test_guesses_are_one_line() -> None:
    line = guesses_line([GuessCount("think", 20, 0.5)])
    assert line == "commonest guesses: think 20 (in 50.0 % of games)"
