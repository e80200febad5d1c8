"""Control evaluations of a run, stored in its directory `controls`.

A gain by learning by play means something only beside what else could have caused it: supervised fine-tuning alone,
with nothing kept from the teacher; and the start model, sampled at the temperature where it is as random as the
trained one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from wordle_rl.config.evaluation import Variant, evaluation_name
from wordle_rl.config.files import stored_config
from wordle_rl.config.stages import kind_of
from wordle_rl.evaluate.records import ControlFacts, Evaluation, EvaluationError
from wordle_rl.runs import CONTROLS, is_run, read_object


def controls_at(path: Path) -> list[Evaluation]:
    """Load the control evaluations of a path: those of a control run's last model, or one evaluation file."""
    if path.is_file():
        return [Evaluation.load(path)]
    if not is_run(path):
        raise EvaluationError(f"{path} is neither a control run nor a file of `wordle-rl eval`; name one of these")
    config = stored_config(path / "config.json")
    if others := [stage for stage in config.stages if kind_of(stage) != "sft"]:
        raise EvaluationError(f"{path} is no control: it was also trained by {others[0]}; give a run of SFT alone")
    if config.traces.rl_only_fraction:
        raise EvaluationError(
            f"{path} is no control: it keeps words from its teacher; give a run with traces.rl_only_fraction 0"
        )
    facts = ControlFacts("sft_alone", path.resolve().name, _seconds_of(path))
    found = [path / "eval" / f"{evaluation_name(config.stages[-1], variant)}.json" for variant in get_args(Variant)]
    name = f"sft alone ({path.resolve().name})"
    loaded = [replace(Evaluation.load(file), name=name, control=facts) for file in found if file.is_file()]
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
            stem = path.stem if path.is_file() else path.resolve().name
            suffix = "" if control.constrain == "none" else "-constrained"
            control.save(run / CONTROLS / f"{stem}{suffix}.json")


def evaluations_in(directory: Path) -> dict[str, Evaluation]:
    """Load the evaluations of a directory by file stem; empty if the directory is missing."""
    return {path.stem: Evaluation.load(path) for path in sorted(directory.glob("*.json"))}


def controlled(model: Evaluation, stored: Sequence[Evaluation]) -> list[tuple[Evaluation, Evaluation]]:
    """Pair each control with the evaluation of the trained model that was played alike, over common secrets.

    A greedy control pairs with greedy play, and constrained guesses with constrained ones. A control of equal entropy
    pairs with the model's sampled play at the temperature it was matched to.

    Args:
        model: Greedy play of the trained model.
        stored: Controls, and other evaluations of the model.
    """
    own = [model, *(each for each in stored if each.control is None and each.player == model.player)]
    controls = [each for each in stored if each.control is not None]
    pairs = ((control, next((mine for mine in own if _is_alike(control, mine)), None)) for control in controls)
    return [(control, mine) for control, mine in pairs if mine is not None]


def _is_alike(control: Evaluation, model: Evaluation) -> bool:
    facts, wanted = control.control, control.conditions.temperature
    if facts is not None and facts.kind == "equal_entropy":
        wanted = facts.temperature_of
    alike = model.constrain == control.constrain and model.conditions.temperature == wanted
    return alike and bool(model.secrets & control.secrets)


def _check_split(run: Path, path: Path) -> None:
    # A control must hold out the same words.
    if not is_run(path):
        return
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
