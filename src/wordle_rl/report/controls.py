"""Controls of a run: what else could have caused a gain by learning by play.

A control is the start on the same words; supervised fine-tuning alone, with nothing kept from the teacher; or the
start, sampled at the temperature where it is as random as the trained model. The last two lie in the run's directory
`controls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from wordle_rl.config.evaluation import Variant, evaluation_name
from wordle_rl.config.files import stored_config
from wordle_rl.config.stages import kind_of, stage_title
from wordle_rl.evaluate.compare import compare
from wordle_rl.evaluate.records import ControlFacts, Evaluation, EvaluationError, evaluations_in
from wordle_rl.evaluate.results_table import MISSING, PART_TITLES, percent_text
from wordle_rl.evaluate.stats import p_text
from wordle_rl.report.run_record import RunRecord
from wordle_rl.runs import CONTROLS, is_number, is_run, read_object
from wordle_rl.runs.progress import elapsed

_TESTED = ("all", "held_out", "strict")
_KINDS = {
    "sft_alone": "SFT alone for as long",
    "equal_entropy": "its start, sampled at equal entropy",
}


def controls_at(path: Path) -> list[Evaluation]:
    """Load the control evaluations of a path: those of a control run's last model, or one evaluation file."""
    return list(_stems_at(path).values())


def _stems_at(path: Path) -> dict[str, Evaluation]:
    # by the name under which a run keeps them
    if path.is_file():
        evaluation = Evaluation.load(path)
        if evaluation.control is None:
            raise EvaluationError(
                f"{path} is no control, but an evaluation of {evaluation.name}; give a run of SFT alone, or a file of "
                "`wordle-rl eval --match-entropy-of`"
            )
        return {path.stem: evaluation}
    if not is_run(path):
        raise EvaluationError(f"{path} is neither a control run nor a file of `wordle-rl eval`; name one of these")
    config = stored_config(path / "config.json")
    if others := [stage for stage in config.stages if kind_of(stage) != "sft"]:
        raise EvaluationError(f"{path} is no control: it was also trained by {others[0]}; give a run of SFT alone")
    if config.traces.rl_only_fraction:
        raise EvaluationError(
            f"{path} is no control: it keeps words from its teacher; give a run with traces.rl_only_fraction 0"
        )
    name, timings = path.resolve().name, path / "timings.json"
    seconds = _trained(read_object(timings).get("seconds", {})) if timings.is_file() else None
    facts = ControlFacts("sft_alone", name, seconds)
    stage, loaded = config.stages[-1], {}
    for variant in get_args(Variant):
        file = path / "eval" / f"{evaluation_name(stage, variant)}.json"
        if file.is_file():
            played = replace(Evaluation.load(file), name=f"sft alone ({name})", control=facts)
            loaded[evaluation_name(name, variant)] = played
    if not loaded:
        raise EvaluationError(f"{path} has no evaluation of its model; finish the run, or name another")
    return loaded


def keep_controls(run: Path, paths: Sequence[Path]) -> None:
    """Copy control evaluations into a run. Other words, rules or held-out secrets are refused."""
    own = evaluations_in(run / "eval")
    kept: dict[str, Evaluation] = {}
    for path in paths:
        found = _stems_at(path)
        for stem, control in found.items():
            for mine in own.values():
                if mine.fingerprint != control.fingerprint or mine.rules.in_effect != control.rules.in_effect:
                    raise EvaluationError(f"{path} is no control of {run}: it was played with other words or rules")
            if is_run(path) and _split_of(path) != _split_of(run):
                raise EvaluationError(f"{path} holds out other words than {run}; give it the same words.* settings")
            if stem in kept:
                raise EvaluationError(f"two controls have the name {stem}; rename {path}")
        kept |= found
    for stem, control in kept.items():
        control.save(run / CONTROLS / f"{stem}.json")


def _split_of(run: Path) -> tuple[object, ...]:
    # What decides which words a run holds out.
    words, manifest = stored_config(run / "config.json").words, read_object(run / "manifest.json")
    return words.split_seed, words.strict_fraction, manifest.get("fingerprint")


def plays_alike(control: Evaluation, model: Evaluation) -> bool:
    """True if a model played as its control asks: as the control did, or at the temperature that it was matched to."""
    asked = control.conditions.temperature
    if control.control is not None and control.control.kind == "equal_entropy":
        asked = control.control.temperature_of
    return (model.constrain, model.conditions.temperature or 0) == (control.constrain, asked or 0)


def controlled(model: Evaluation, stored: Sequence[Evaluation]) -> list[tuple[Evaluation, Evaluation]]:
    """Pair each control with the evaluation of the trained model that was played alike, over common secrets.

    A greedy control pairs with greedy play, and constrained guesses with constrained ones. A control of equal entropy
    pairs with sampled play of the model that it was matched to, at that temperature.

    Args:
        model: Greedy play of the trained model.
        stored: Controls, and other evaluations of the model.
    """
    own = [model, *(each for each in stored if each.control is None and each.player == model.player)]
    pairs = []
    for control in stored:
        if (facts := control.control) is None:
            continue
        # The stage tells which model was matched, since a run may have been moved.
        if facts.kind == "equal_entropy" and Path(facts.of).name != Path(model.player).name:
            continue
        for mine in own:
            if plays_alike(control, mine) and mine.secrets & control.secrets:
                pairs.append((control, mine))
                break
    return pairs


@dataclass(frozen=True)
class ControlTable:
    """Win rates of a trained model and of its controls, in percent.

    Attributes:
        columns: Headings after the first: parts of the secrets, then p values of wins against the model.
        rows: Player and sampling, then a cell per column; rows of the model itself have no p values.
        verdict: A sentence about missing controls; empty if there are none.
    """

    model: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    verdict: str


def control_table(run: RunRecord) -> ControlTable | None:
    """Build the table of a run's last stage; None if that does not learn by play, or has no evaluation."""
    name = run.last
    if name is None or kind_of(name) == "sft" or name not in run.evaluations:
        return None
    model, title = run.evaluations[name], stage_title(name)
    start = run.evaluations.get(run.before(name) or "")
    quoted = run.quoted(model.secrets)
    parts = {part: quoted[part] for part in run.shown_parts if part in quoted and quoted[part] != frozenset()}

    def row(label: str, player: Evaluation, against: Evaluation | None = None) -> tuple[str, ...]:
        rates, tests = [], []
        for part, secrets in parts.items():
            # A figure for all secrets is quoted only if all of them were played.
            whole = part != "all" or player.secrets.issuperset(run.split_of)
            rates.append(percent_text(player.figures(secrets).win_rate if whole else None))
            if part not in _TESTED:
                continue
            p_value = "" if against is None else MISSING
            if against is not None and whole:
                with suppress(EvaluationError):  # no secret of this part that both finished
                    p_value = p_text(compare(player.only(secrets), against.only(secrets)).p_value)
            tests.append(p_value)
        return (f"{label}, {_how(player)}", *rates, *tests)

    # Constrained games, and games at temperature 1, stand beside controls that were played in the same way.
    stems = [evaluation_name(name, variant) for variant in get_args(Variant) if variant != "greedy"]
    found = controlled(model, [*run.controls.values(), *(run.evaluations[s] for s in stems if s in run.evaluations)])
    found.sort(key=lambda pair: (pair[0].constrain, pair[0].conditions.temperature or 0.0))
    rows = [row(title, model)]
    if start is not None:
        rows.append(row(f"its start, {start.name}", start, model))
    seen, missing = [model], dict(_KINDS)
    for control, beside in found:
        assert control.control is not None  # `controlled` takes no others
        missing.pop(control.control.kind, None)
        if beside not in seen:
            seen.append(beside)
            rows.append(row(title, beside))
        label, *rest = row(_KINDS_SHOWN[control.control.kind], control, beside)
        rows.append((f"{label}{_facts(control, control.control, run.facts.get('seconds', {}))}", *rest))
    heads = {part: PART_TITLES.get(part, part) for part in parts}
    columns = (*heads.values(), *(f"p, {heads[part]}" for part in parts if part in _TESTED))
    verdict = (
        f"To show that a gain of {title} comes from play, compare it with {' and with '.join(missing.values())}. "
        "docs/evaluation.md says how."
    )
    return ControlTable(title, columns, tuple(rows), verdict if missing else "")


_KINDS_SHOWN = {"sft_alone": "SFT alone, nothing kept", "equal_entropy": "its start"}


def _how(evaluation: Evaluation) -> str:
    temperature = evaluation.conditions.temperature
    how = "greedy" if not temperature else f"temperature {temperature:.3g}"
    return how if evaluation.constrain == "none" else f"{how}, listed words only"


def _facts(control: Evaluation, facts: ControlFacts, seconds: dict[str, Any]) -> str:
    if facts.kind == "equal_entropy":
        return f": {facts.nats:.2f} nats a game, not {facts.nats_of:.2f}"
    spent = _trained(seconds)
    if not (facts.seconds and spent) or control.constrain != "none":
        return ""
    return f" (training took {elapsed(facts.seconds)}, not {elapsed(spent)})"


def _trained(seconds: dict[str, Any]) -> float:
    return sum(float(s) for stage, s in seconds.items() if stage not in ("total", "eval", "setup") and is_number(s))
