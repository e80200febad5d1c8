"""`compare`: evaluations side by side, or a run and reference curves. `power`: how many games show a difference."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from wordle_rl.cli import console
from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import stored_config
from wordle_rl.config.options import Json
from wordle_rl.evaluate.compare import against_reference, compare_all, reference_for
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.stats import games_needed
from wordle_rl.report import terminal
from wordle_rl.report.controls import controls_at, plays_alike
from wordle_rl.runs import is_run, read_object


def compare(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    names: tuple[str, ...] = (),
    control: tuple[Path, ...] = (),
    reference: bool = False,
    as_json: Json = False,
) -> int:
    """Compare evaluations on the secrets that all of them played.

    Shows the figures, and compares each evaluation with the first by McNemar's exact test, Tango's interval and a
    paired bootstrap. If secrets were played more than once, wins are tested by secret.

    Args:
        runs: Two or more evaluation files (JSON), or runs, whose last models are compared. The first is the baseline.
        names: Names to show. Default: the names stored in the files.
        control: Control runs to show beside the others (SFT alone, with nothing kept from the teacher).
        reference: Compare the curve of one run of a preset with those of the preset's reference runs instead. The exit
            code is 1 if it leaves their band.
    """
    if reference:
        if names or control:
            raise ConfigError("--reference compares one run with its preset's; leave out --names and --control")
        return _compare_with_reference(runs, as_json)
    if names and len(names) != len(runs):
        raise ConfigError(f"{len(names)} names for {len(runs)} evaluations; give one for each")
    runs = tuple(_evaluation_in(path) for path in runs)
    evaluations = [Evaluation.load(path) for path in runs]
    first = evaluations[0]
    controls: list[Evaluation] = []
    for path in control:
        # A control of another limit or temperature would be compared with play of another kind.
        alike = [found for found in controls_at(path) if plays_alike(found, first)]
        if not alike:
            raise ConfigError(f"{path} has no control that was played as {runs[0]} was; evaluate both alike")
        controls += alike
    own = [evaluation.name for evaluation in evaluations]
    # Two runs of a preset have the same names of models; their paths then tell them apart.
    shown = names or (own if len(set(own)) == len(own) else [path.as_posix() for path in runs])
    evaluations = [dataclasses.replace(each, name=name) for each, name in zip(evaluations, shown, strict=True)]
    evaluations += controls
    shared = compare_all(evaluations)
    console.show(asdict(shared), [terminal.comparison_table(shared)], as_json)
    return 0


def _evaluation_in(path: Path) -> Path:
    return path / "eval" / f"{stored_config(path / 'config.json').evaluated[-1]}.json" if is_run(path) else path


def _compare_with_reference(runs: tuple[Path, ...], as_json: bool) -> int:
    if len(runs) != 1:
        raise ConfigError(f"--reference compares one run, and {len(runs)} are named; name one")
    place = reference_for(runs[0])
    points = against_reference(runs[0], read_object(place))
    lines = [f"wins of the first stage that plays, %, and the band of the reference runs of {place.stem}"]
    lines += [
        f"{point.number:4}  {100 * point.own:5.1f}   {100 * point.low:5.1f} to {100 * point.high:5.1f}"
        f"{'' if point.inside else '   outside'}"
        for point in points
    ]
    outside = sum(not point.inside for point in points)
    told = {"reference": place.stem, "outside": outside, "points": [asdict(point) for point in points]}
    lines.append(f"{outside} of {len(points)} are outside" if outside else f"all {len(points)} are inside")
    console.show(told, lines, as_json)
    # A script asks by the exit code; a run without a point to compare has shown nothing.
    return 1 if outside or not points else 0


def power(
    rates: Annotated[tuple[float, float], tyro.conf.Positional],
    alpha: float = 0.05,
    chance: float = 0.8,
    as_json: Json = False,
) -> None:
    """Count the games that two players must play before a difference of their win rates shows.

    Args:
        rates: Two win rates in percent, 0 to 100.
        alpha: Chance of a false positive (two-sided test). Usually 0.05.
        chance: Power: the chance that a true difference shows. Usually 0.8.
    """
    if not all(0 <= rate <= 100 for rate in rates) or rates[0] == rates[1]:
        raise ConfigError(f"win rates {rates[0]:g} and {rates[1]:g}: give two different ones in percent, 0 to 100")
    # Whoever writes 0.7 probably means 70 %.
    if max(rates) < 1:
        console.messages.print(f"warning: win rates are in percent; {rates[0]:g} means {rates[0] / 100:g} of all games")
    needed = games_needed(rates[0] / 100, rates[1] / 100, alpha=alpha, power=chance)
    terms = f"two-sided, {100 * alpha:g} %, power {100 * chance:g} %"
    told = f"{needed:,} games each show {rates[0]:g} % against {rates[1]:g} % ({terms}); fewer on the same secrets"
    console.show({"rates": list(rates), "alpha": alpha, "power": chance, "games_each": needed}, [told], as_json)
