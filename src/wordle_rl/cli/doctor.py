"""`doctor`: why a run does not learn. `power`: how many games show a difference."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json
from wordle_rl.config import ConfigError
from wordle_rl.evaluate.stats import StatsError, games_needed
from wordle_rl.report.doctor import diagnose, lines_of


def doctor(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> int:
    """Name what goes wrong in a run's training, the line that shows it, and the page that mends it.

    The exit code is 1 if anything was found.

    Args:
        run: A run directory, finished or in training.
    """
    found = diagnose(run)
    if as_json:
        findings = [{**asdict(finding), "page": finding.page} for finding in found.findings]
        console.print_json({"stage": found.stage, "steps": found.num_steps, "findings": findings})
    else:
        for line in lines_of(found):
            console.out.print(line, highlight=False, markup=False, soft_wrap=True)
    return 1 if found.findings else 0


def power(
    rates: Annotated[tuple[float, float], tyro.conf.Positional],
    alpha: float = 0.05,
    chance: float = 0.8,
    as_json: Json = False,
) -> None:
    """Count the games that two players need before a difference of their win rates shows.

    Args:
        rates: Two win rates, in percent.
        alpha: Chance of a difference where there is none (two-sided).
        chance: Chance that the difference shows.
    """
    try:
        needed = games_needed(rates[0] / 100, rates[1] / 100, alpha=alpha, power=chance)
    except StatsError as error:
        raise ConfigError(str(error)) from None
    if as_json:
        console.print_json({"rates": list(rates), "alpha": alpha, "power": chance, "games_each": needed})
        return
    told = f"{needed:,} games each show {rates[0]:g} % against {rates[1]:g} %"
    terms = f"two-sided, {100 * alpha:g} %, with a chance of {100 * chance:g} %"
    console.out.print(f"{told} ({terms}); fewer on the same words", highlight=False, markup=False, soft_wrap=True)
