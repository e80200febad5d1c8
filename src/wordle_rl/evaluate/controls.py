"""Control evaluations of a run, stored in its directory `controls`.

A gain by learning by play means something only beside what else could have caused it: supervised fine-tuning alone,
with nothing kept from the teacher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from wordle_rl.config import Variant, evaluation_name, stored_config
from wordle_rl.evaluate.records import Evaluation, EvaluationError
from wordle_rl.runs import CONTROLS, is_run, read_object


def controls_at(path: Path) -> list[Evaluation]:
    """Load the evaluations of a control run's model: greedy, and constrained and sampled ones if there are any."""
    if not is_run(path):
        raise EvaluationError(f"{path} is no control run; name the directory of a run of SFT alone")
    config = stored_config(path / "config.json")
    if not config.training.is_skipped:
        raise EvaluationError(
            f"{path} is no control: it was also trained by {config.algorithm}; give a run of SFT alone"
        )
    if config.traces.rl_only_fraction:
        raise EvaluationError(
            f"{path} is no control: it keeps words from its teacher; give a run with traces.rl_only_fraction 0"
        )
    found = [path / "eval" / f"{evaluation_name('sft', variant)}.json" for variant in get_args(Variant)]
    name = f"sft alone ({path.resolve().name})"
    loaded = [
        replace(Evaluation.load(file), name=name, is_control=True, training_seconds=_seconds_of(path))
        for file in found
        if file.is_file()
    ]
    if not loaded:
        raise EvaluationError(f"{path} has no evaluation of its model; finish the run, or name another")
    return loaded


def keep_controls(run: Path, paths: Sequence[Path]) -> None:
    """Copy control evaluations into a run. Other words, rules or held-out secrets are refused."""
    own = evaluations_in(run / "eval")
    for path in paths:
        for control in controls_at(path):
            for mine in own.values():
                if mine.fingerprint != control.fingerprint or mine.rules.in_effect != control.rules.in_effect:
                    raise EvaluationError(f"{path} is no control of {run}: it was played with other words or rules")
            _check_split(run, path)
            suffix = "" if control.constrain == "none" else "-constrained"
            suffix += "-sampled" if control.conditions.temperature else ""
            control.save(run / CONTROLS / f"{path.resolve().name}{suffix}.json")


def evaluations_in(directory: Path) -> dict[str, Evaluation]:
    """Load the evaluations of a directory by file stem; empty if the directory is missing."""
    return {path.stem: Evaluation.load(path) for path in sorted(directory.glob("*.json"))}


def controlled(model: Evaluation, stored: Sequence[Evaluation]) -> list[tuple[Evaluation, Evaluation]]:
    """Pair each control with the evaluation of the trained model that was played alike, over common secrets.

    Greedy play pairs with greedy, constrained with constrained, sampled with sampled at the same temperature.

    Args:
        model: Greedy play of the trained model.
        stored: Controls, and other evaluations of the model.
    """
    own = [model, *(each for each in stored if not each.is_control and each.player == model.player)]
    controls = [each for each in stored if each.is_control]
    pairs = ((control, next((mine for mine in own if _is_alike(control, mine)), None)) for control in controls)
    return [(control, mine) for control, mine in pairs if mine is not None]


def _is_alike(control: Evaluation, model: Evaluation) -> bool:
    temperatures = {each.conditions.temperature for each in (control, model)}
    return model.constrain == control.constrain and len(temperatures) == 1 and bool(model.secrets & control.secrets)


def _check_split(run: Path, path: Path) -> None:
    # A control must hold out the same words.
    own, other = (stored_config(directory / "config.json").words for directory in (run, path))
    fingerprints = {str(read_object(directory / "manifest.json").get("fingerprint")) for directory in (run, path)}
    if (own.split_seed, own.strict_fraction) != (other.split_seed, other.strict_fraction) or len(fingerprints) > 1:
        raise EvaluationError(f"{path} holds out other words than {run}; give it the same words.* settings")


def _seconds_of(run: Path) -> float | None:
    timings = run / "timings.json"
    if not timings.is_file():
        return None
    seconds = read_object(timings).get("seconds", {})
    return float(sum(value for stage, value in seconds.items() if stage not in ("eval", "setup")))
