"""Rewards of evaluated games and the most frequent guesses, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from rich import box
from rich.table import Table
from rich.text import Text

from wordle_rl.evaluate.rewards import GuessCount, RewardFigures
from wordle_rl.report.terminal import number_text, percent_text

_BAR = 24


def reward_table(rewards: Mapping[str, RewardFigures]) -> Table:
    """Tabulate rewards by part (mean, std, range, games below zero), with a histogram of the first part."""
    first = next(iter(rewards.values()))
    table = Table(
        title=Text(f"Reward {first.preset!r}"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for part in rewards:
        table.add_column(Text(part), justify="right", no_wrap=True)
    found = list(rewards.values())
    table.add_row("games", *(str(part.num_games) for part in found))
    table.add_row("mean", *(number_text(part.mean) for part in found))
    table.add_row("standard deviation", *(number_text(part.std) for part in found))
    table.add_row("lowest", *(number_text(part.lowest) for part in found))
    table.add_row("highest", *(number_text(part.highest) for part in found))
    table.add_row("below zero, %", *(percent_text(part.below_zero) for part in found))
    table.add_section()
    for (low, high), count in zip(pairwise(first.bin_edges), first.bin_counts, strict=True):
        bar = "█" * round(_BAR * count / max(first.bin_counts))
        table.add_row(f"{low:6.3f} to {high:6.3f}", Text(f"{bar} {count}"))
    return table


def guesses_line(guesses: Sequence[GuessCount]) -> str:
    """List the most frequent guesses with their number and the fraction of games.

    Examples:
        >>> guesses_line([GuessCount("salet", 9, 0.9), GuessCount("think", 6, 0.2)])
        'commonest guesses: salet 9 (in 90.0 % of games), think 6 (20.0 %)'
    """
    shown = [f"{guess.word} {guess.times} ({percent_text(guess.games_fraction)} %)" for guess in guesses]
    shown[0] = shown[0].replace("(", "(in ").replace(" %)", " % of games)")
    return f"commonest guesses: {', '.join(shown)}"
