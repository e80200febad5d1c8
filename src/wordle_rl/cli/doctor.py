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
    """Find what goes wrong in a run's training: the symptom, the line that shows it, and the page that helps.

    The exit code is 1 if anything was found.

    Args:
        run: A run directory, finished or still training.
    """
    found = diagnose(run)
    if as_json:
        findings = [{**asdict(finding), "page": finding.page} for finding in found.findings]
        console.print_json({"stage": found.stage, "steps": found.num_steps, "findings": findings})
    else:
        for line in lines_of(found):
            console.out.print(line)
    return 1 if found.findings else 0


def power(
    rates: Annotated[tuple[float, float], tyro.conf.Positional],
    alpha: float = 0.05,
    chance: float = 0.8,
    as_json: Json = False,
) -> None:
    """Count the games that two players must play before a difference of their win rates shows.

    Args:
        rates: Two win rates, in percent.
        alpha: Chance of a false positive (two-sided test). Usually 0.05.
        chance: Power: the chance that a true difference shows. Usually 0.8.
    """
    try:
        needed = games_needed(rates[0] / 100, rates[1] / 100, alpha=alpha, power=chance)
    except StatsError as error:
        raise ConfigError(str(error)) from None
    if as_json:
        console.print_json({"rates": list(rates), "alpha": alpha, "power": chance, "games_each": needed})
        return
    terms = f"two-sided, {100 * alpha:g} %, power {100 * chance:g} %"
    console.out.print(
        f"{needed:,} games each show {rates[0]:g} % against {rates[1]:g} % ({terms}); fewer on the same secrets"
    )
