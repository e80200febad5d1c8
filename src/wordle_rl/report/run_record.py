"""Read the records of a run. Any part can be missing, but an existing part must be valid."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from wordle_rl.config.files import stored_config
from wordle_rl.config.stages import is_stage, stage_title
from wordle_rl.errors import UserError
from wordle_rl.evaluate.figures import (
    CONSTRAINED_PART,
    PARTS,
    STRATA,
    STRICT_CONSTRAINED_PART,
    Figures,
    quoted_parts,
    sampled_part,
)
from wordle_rl.evaluate.records import Evaluation, evaluations_in, model_and_variant
from wordle_rl.evaluate.strata import STRATA_FILE, Strata
from wordle_rl.runs import CHOICE_FILE, CONTROLS, VALIDATED, read_jsonl, read_jsonl_offsets, read_object
from wordle_rl.runs.lineage import lineage_of
from wordle_rl.runs.progress import in_percent


class ReportError(UserError):
    """A run directory that cannot be reported; the message names the file and the fix."""


@dataclass(frozen=True)
class RunRecord:
    """All that a report shows.

    Attributes:
        results: Player -> part of the secrets -> figures, computed from `evaluations`.
        facts: What results.json holds besides figures, such as seconds per stage.
        metrics: Stage -> rows of metrics.jsonl in the order of their steps, the last row of each step; SFT's rows of
            training and of validation are not taken for each other.
        games: Rows of games.jsonl, oldest first; `id` is the byte at which the row begins.
        split_of: Secret -> `train`, `val` or `test`.
        strata: The strata of the held-out secrets; None: not known.
        controls: Evaluations in the directory `controls`, by the names of their files.
        chosen: Stage -> which of its weights were kept, see `runs.CHOICE_FILE`, where checkpoints were selected.
        missing: What is not there, one file each.
        licence: That of the weights it began with, if their files name one.
    """

    name: str
    results: Mapping[str, Mapping[str, Figures]]
    facts: Mapping[str, Any]
    manifest: Mapping[str, Any]
    config: Mapping[str, Any]
    metrics: Mapping[str, list[dict[str, Any]]]
    games: list[dict[str, Any]]
    evaluations: Mapping[str, Evaluation]
    split_of: Mapping[str, str]
    strict: frozenset[str]
    strata: Strata | None
    controls: Mapping[str, Evaluation]
    chosen: Mapping[str, Mapping[str, Any]]
    missing: tuple[str, ...]
    licence: str | None = None

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the run's stages, in order."""
        return tuple(name for name in self.config.get("stages", ()) if is_stage(str(name)))

    @property
    def limit_note(self) -> str:
        """Tell readers of the results that guesses were limited to listed words in training; '' if they were not."""
        limited = [stage_title(name) for name in self.stages if self.config.get(name, {}).get("constrain") == "words"]
        stages = " and ".join(limited)
        said = f"Training of {stages} limited guesses to listed words; only rows of listed words are played so."
        return said if limited else ""

    @property
    def last(self) -> str | None:
        """The last stage that has results; None if none has."""
        return next((stage for stage in reversed(self.stages) if stage in self.results), None)

    @property
    def first(self) -> str | None:
        """The first model that has results: the base model, or that of the first stage."""
        return next((name for name in ("base", *self.stages) if name in self.results), None)

    def before(self, stage: str) -> str | None:
        """Return the model with results that a stage started from, or one before it; None if there is none."""
        earlier = ("base", *self.stages[: self.stages.index(stage)]) if stage in self.stages else ()
        return next((name for name in reversed(earlier) if name in self.results), None)

    def secrets_of(self, part: str) -> frozenset[str]:
        """Return the secrets of a part; `held_out` is `test`, and `strict` and the strata are subsets of it."""
        if part == "strict":
            return self.strict
        if part in STRATA:
            return self.strata.named()[part] if self.strata is not None else frozenset()
        wanted = "test" if part == "held_out" else part
        return frozenset(word for word, name in self.split_of.items() if name == wanted)

    def quoted(self, played: Collection[str]) -> dict[str, frozenset[str] | None]:
        """Return the parts for which figures of these secrets may be quoted, with their secrets; None: all secrets."""
        if not self.split_of:
            return {"all": None}
        parts = [*quoted_parts(played, self.split_of, self.strict), *(STRATA if self.strata is not None else ())]
        return {part: None if part == "all" else self.secrets_of(part) for part in parts}

    @property
    def shown_parts(self) -> list[str]:
        """The parts that tables show: not twice the same words, as those never named and the strict ones may be."""
        is_twice = bool(self.strict) and self.secrets_of("never_said") == self.strict
        return [part for part in PARTS if not (is_twice and part == "never_said")]


def read_run(run_dir: Path) -> RunRecord:
    """Read all parts of a run. A part that is damaged is refused with its file and line."""
    if not run_dir.is_dir():
        raise ReportError(f"no run directory {run_dir}; give the directory that `wordle-rl run` wrote")
    objects, lines = ("results.json", "manifest.json", "config.json"), ("metrics.jsonl", "games.jsonl")
    missing = [name for name in (*objects, *lines) if not (run_dir / name).is_file()]
    everything, manifest, config = ({} if name in missing else read_object(run_dir / name) for name in objects)
    # Read for its refusal alone: a run of before stages has no figures by the names used here.
    if config:
        stored_config(run_dir / "config.json")
    metrics = {} if "metrics.jsonl" in missing else read_metrics(run_dir / "metrics.jsonl")
    games = [] if "games.jsonl" in missing else _games(run_dir / "games.jsonl")
    evaluations = evaluations_in(run_dir / "eval")
    stages = [str(name) for name in config.get("stages", ())]
    missing += [f"eval/{name}.json" for name in stages if name not in evaluations]
    if not (everything or manifest or config or metrics or games or evaluations):
        raise ReportError(f"{run_dir} has no part of a run (results.json, metrics.jsonl, eval/…); name a run directory")
    split = manifest.get("split") or {}
    record = RunRecord(
        name=run_dir.resolve().name,
        results={},
        facts={name: value for name, value in everything.items() if not (name == "base" or is_stage(name))},
        manifest=manifest,
        config=config,
        metrics=metrics,
        games=games,
        evaluations={name: evaluations[name] for name in in_order(evaluations, stages)},
        split_of={word: part for part in ("train", "val", "test") for word in split.get(part, ())},
        strict=frozenset(split.get("strict", ())),
        strata=_strata_of(run_dir / STRATA_FILE),
        controls=evaluations_in(run_dir / CONTROLS),
        chosen={stage: read_object(path) for stage in stages if (path := run_dir / stage / CHOICE_FILE).is_file()},
        missing=tuple(missing),
        licence=next((found.licence for name in stages if (found := lineage_of(run_dir / name))), None),
    )
    return replace(record, results=_results(record))


def kept_weights(run: RunRecord, stage: str) -> str:
    """Describe the checkpoint selection of a stage; '' if there was none."""
    chosen = run.chosen.get(stage)
    if not chosen:
        return ""
    step, alpha = chosen.get("step"), float(chosen.get("alpha", 1.0))
    place = run.stages.index(stage)
    start = f"{stage_title(run.stages[place - 1])} model" if place else "base model"
    if step == 0:
        kept = f"those of the {start}, since no candidate played better"
    elif alpha == 1.0:
        kept = f"those of step {step}"
    else:
        kept = f"those {in_percent(alpha, 0)} % of the way from the {start} to step {step}"
    return f"{kept}, chosen by greedy play of validation and training secrets; the held-out secrets had no say"


def in_order(names: Iterable[str], stages: Sequence[str]) -> list[str]:
    """Order players or parts of a log: `base`, the stages of a run with what belongs to each, then others by name."""
    known = ("base", *stages)

    def place(name: str) -> tuple[int, str]:
        # `sft-sampled` and `grpo/validation` stand behind their stage.
        stage = re.split("[-/]", name)[0]
        return (known.index(stage) if stage in known else len(known), name)

    return sorted(names, key=place)


def _results(run: RunRecord) -> dict[str, dict[str, Figures]]:
    # From the games, not from results.json, so that an evaluation that was added or replaced since is shown.
    results: dict[str, dict[str, Figures]] = {}
    for name, games in run.evaluations.items():
        model, variant = model_and_variant(name)
        if variant == "sampled":
            found = {sampled_part(part): figures for part, figures in _measured(games, run).items()}
        elif games.constrain == "none":
            found = _measured(games, run)
        else:
            # Such files are named by their model and variant; figures go to the model, under parts of their own.
            model = games.name
            held_out = games.figures(run.secrets_of("held_out") if run.split_of else None)
            found = {CONSTRAINED_PART: held_out}
            if run.strict:
                found[STRICT_CONSTRAINED_PART] = games.figures(run.strict)
        results.setdefault(model, {}).update(found)
    return {name: results[name] for name in in_order(results, run.stages)}


def _measured(games: Evaluation, run: RunRecord) -> dict[str, Figures]:
    # A part of which nothing was played has no figures, rather than figures of no games.
    chosen = {part: games.only(secrets) for part, secrets in run.quoted(games.secrets).items()}
    return {part: some.figures() for part, some in chosen.items() if some.records}


def read_metrics(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the rows of a metrics.jsonl by stage, see `RunRecord.metrics`."""
    # If a resumed run logged a step again, the last row counts.
    stages: dict[str, dict[tuple[float, bool], dict[str, Any]]] = {}
    for number, row in enumerate(read_jsonl(path), start=1):
        stage, step = row.get("stage"), row.get("step")
        if not isinstance(stage, str) or not isinstance(step, int | float):
            raise ReportError(f"{path}:{number} lacks a stage or a step; delete the line")
        # Rows of validation share step numbers with those of training, and must not replace them.
        stages.setdefault(stage, {})[step, any(name.startswith(VALIDATED) for name in row)] = row
    return {stage: [rows[step] for step in sorted(rows)] for stage, rows in stages.items()}


def _games(path: Path) -> list[dict[str, Any]]:
    games = []
    for number, (offset, row) in enumerate(read_jsonl_offsets(path), start=1):
        turns = row.get("turns")
        is_game = isinstance(turns, list) and all(isinstance(turn, dict) for turn in turns)
        if not (is_game and {"secret", "turns_used"} <= row.keys()):
            raise ReportError(f"{path}:{number} is no game; delete the line")
        # The offset stays the same while the file grows; the page links to a game by it.
        games.append({"id": offset, **row})
    return games


def _strata_of(path: Path) -> Strata | None:
    if not path.is_file():
        return None
    try:
        strata = TypeAdapter(Strata).validate_python(read_object(path))
    except ValidationError:
        raise ReportError(f"{path} has no strata; delete it, and `wordle-rl report` writes it again") from None
    return strata if strata.complete else None
