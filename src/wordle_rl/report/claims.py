"""What a run may claim: results of RL beside their controls.

A control is another explanation of a gain: the start on the same words, SFT alone with all secrets, and the start
sampled at the temperature at which its games have the same entropy as those of the trained model.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import get_args

from wordle_rl.config.evaluation import Variant, evaluation_name
from wordle_rl.config.stages import kind_of, stage_title
from wordle_rl.evaluate.compare import compare
from wordle_rl.evaluate.controls import controlled
from wordle_rl.evaluate.figures import MISSING, PART_TITLES
from wordle_rl.evaluate.records import ControlFacts, Evaluation, EvaluationError
from wordle_rl.evaluate.stats import p_text
from wordle_rl.report.run_record import RunRecord
from wordle_rl.runs import is_number
from wordle_rl.runs.progress import elapsed, in_percent

_TESTED = ("all", "held_out", "strict")
_KINDS = {
    "sft_alone": "SFT alone for as long",
    "equal_entropy": "its start, sampled at equal entropy",
}


@dataclass(frozen=True)
class ControlTable:
    """Win rates of a trained model and of its controls, in percent.

    Attributes:
        columns: Headings after the first: parts of the secrets, then p values of wins against the model.
        rows: Player and sampling, then a cell per column; rows of the model itself have no p values.
    """

    model: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    missing: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """A sentence about missing controls; empty if there are none."""
        if not self.missing:
            return ""
        return (
            f"To show that a gain of {self.model} comes from play, compare it with {' and with '.join(self.missing)}. "
            "docs/evaluation.md says how."
        )


def control_table(run: RunRecord) -> ControlTable | None:
    """Build the table of a run's last stage; None if that does not learn by play, or has no evaluation."""
    name = run.last
    if name is None or kind_of(name) == "sft" or name not in run.evaluations:
        return None
    model, title = run.evaluations[name], stage_title(name)
    before = run.before(name)
    start = run.evaluations.get(before) if before is not None else None
    quoted = run.quoted(model.secrets)
    parts = {part: quoted[part] for part in run.shown_parts if part in quoted and quoted[part] != frozenset()}
    # Constrained games, and games at temperature 1, stand beside controls that were played in the same way.
    stems = [evaluation_name(name, variant) for variant in get_args(Variant) if variant != "greedy"]
    found = controlled(model, [*run.controls.values(), *(run.evaluations[s] for s in stems if s in run.evaluations)])
    found.sort(key=lambda pair: (pair[0].constrain, pair[0].conditions.temperature or 0.0))
    rows = [_row(run, f"{title}, {_how(model)}", model, None, parts)]
    if start is not None:
        rows.append(_row(run, f"its start, {start.name}, {_how(start)}", start, model, parts))
    seen = [model]
    for control, beside in found:
        if beside not in seen:
            seen.append(beside)
            rows.append(_row(run, f"{title}, {_how(beside)}", beside, None, parts))
        rows.append(_row(run, _label(run, control), control, beside, parts))
    kinds = {control.control.kind for control, _ in found if control.control is not None}
    missing = [said for kind, said in _KINDS.items() if kind not in kinds]
    heads = {part: PART_TITLES.get(part, part) for part in parts}
    columns = (*heads.values(), *(f"p, {heads[part]}" for part in parts if part in _TESTED))
    return ControlTable(title, columns, tuple(rows), tuple(missing))


def _how(evaluation: Evaluation) -> str:
    temperature = evaluation.conditions.temperature
    how = "greedy" if not temperature else f"temperature {temperature:.3g}"
    return how if evaluation.constrain == "none" else f"{how}, listed words only"


def _label(run: RunRecord, control: Evaluation) -> str:
    facts = control.control
    assert isinstance(facts, ControlFacts)  # `controlled` takes no others
    if facts.kind == "equal_entropy":
        return f"its start, {_how(control)}: {facts.nats:.2f} nats a game, not {facts.nats_of:.2f}"
    own = run.facts.get("seconds", {})
    spent = sum(float(s) for stage, s in own.items() if stage not in ("total", "eval", "setup") and is_number(s))
    times = f" (training took {elapsed(facts.seconds)}, not {elapsed(spent)})" if facts.seconds and spent else ""
    return f"SFT alone, nothing kept, {_how(control)}{times if control.constrain == 'none' else ''}"


def _row(
    run: RunRecord,
    label: str,
    player: Evaluation,
    against: Evaluation | None,
    parts: Mapping[str, frozenset[str] | None],
) -> tuple[str, ...]:
    rates, tests = [], []
    for part, secrets in parts.items():
        rate, p_value = player.figures(secrets).win_rate, "" if against is None else MISSING
        if part == "all" and not player.secrets.issuperset(run.split_of):
            rate = None  # a figure for all secrets is quoted only if all of them were played
        elif against is not None and part in _TESTED:
            with suppress(EvaluationError):  # no secret of this part that both finished
                p_value = p_text(compare(player.only(secrets), against.only(secrets)).p_value)
        rates.append(MISSING if rate is None else in_percent(rate))
        tests += [p_value] if part in _TESTED else []
    return (label, *rates, *tests)
