"""Controls: evaluations that the figures of a run are quoted beside, kept in its directory `controls`.

A gain by learning by play is a claim only beside what else would have brought it: supervised fine-tuning alone with
nothing kept from the teacher, and the start drawn at the temperature at which it is as random as the trained model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wordle_rl.config import stored_config
from wordle_rl.evaluate.records import ControlFacts, Evaluation, EvaluationError
from wordle_rl.runs import CONTROLS, is_run, read_object


@dataclass(frozen=True)
class ControlledFigure:
    """A control, and the evaluation of the trained model that it stands beside: played alike, on secrets of both."""

    control: Evaluation
    model: Evaluation


def controls_at(path: Path) -> list[Evaluation]:
    """The control evaluations that a path names: of a control run its last model's, or one file of `wordle-rl eval`.

    Raises:
        ConfigError: If the run's settings are damaged.
        EvaluationError: If there is none, or the run was trained by play, or kept words from its teacher.
    """
    if path.is_file():
        return [Evaluation.load(path)]
    if not is_run(path):
        raise EvaluationError(f"{path} is neither a control run nor a file of `wordle-rl eval`; name one of these")
    config = stored_config(path / "config.json")
    if not config.training.is_skipped:
        raise EvaluationError(
            f"{path} is no control: it was trained by {config.algorithm} as well; give a run of SFT alone"
        )
    if config.traces.rl_only_fraction:
        raise EvaluationError(
            f"{path} is no control: it keeps words from its teacher; give a run with traces.rl_only_fraction 0"
        )
    facts = ControlFacts("sft_alone", path.resolve().name, _seconds_of(path))
    found = [path / "eval" / f"{name}.json" for name in ("sft", "sft-constrained")]
    name = f"sft alone ({path.resolve().name})"
    loaded = [replace(Evaluation.load(file), name=name, control=facts) for file in found if file.is_file()]
    if not loaded:
        raise EvaluationError(f"{path} has no evaluation of its model; finish the run, or name another")
    return loaded


def keep_controls(run: Path, paths: Sequence[Path]) -> None:
    """Store the control evaluations that paths name beside a run's figures.

    Raises:
        EvaluationError: If one is no control, or is of other words, rules or held-out secrets.
        RunError: If one cannot be written.
    """
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
    """The evaluations in a directory, by the names of their files; none if there is no such directory."""
    return {path.stem: Evaluation.load(path) for path in sorted(directory.glob("*.json"))}


def controlled(model: Evaluation, stored: Sequence[Evaluation]) -> list[ControlledFigure]:
    """The evaluations of a trained model that have a control, each beside it.

    A greedy control stands beside greedy play, limited guesses beside limited ones. A control of equal entropy stands
    beside the model's own sampled play, which is looked for among the stored evaluations by player and temperature.

    Args:
        model: Greedy play of the trained model.
        stored: Its controls, and other evaluations of it.
    """
    found = []
    for control in stored:
        if control.control is None:
            continue
        for mine in (model, *(each for each in stored if each.control is None and each.player == model.player)):
            if _stands_beside(control, mine):
                found.append(ControlledFigure(control, mine))
                break
    return found


def _stands_beside(control: Evaluation, model: Evaluation) -> bool:
    facts, wanted = control.control, control.conditions.temperature
    if facts is not None and facts.kind == "equal_entropy":
        wanted = facts.temperature_of
    alike = model.constrain == control.constrain and model.conditions.temperature == wanted
    return alike and bool(model.secrets & control.secrets)


def _check_split(run: Path, path: Path) -> None:
    """Refuse a control run that holds out other words."""
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
