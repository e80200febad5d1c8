"""Evaluate the models of a run; write results and report."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from wordle_rl.boards import InitialState
from wordle_rl.config.evaluation import Variant, evaluation_name
from wordle_rl.config.model import LoraSettings, ModelSettings
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.evaluate.forgetting import English, english_of
from wordle_rl.evaluate.journal import evaluate_to_file, journal_path, open_journal
from wordle_rl.evaluate.players import open_player
from wordle_rl.evaluate.strata import store_strata
from wordle_rl.pipeline.run_work import RunWork
from wordle_rl.report import read_run, write_report
from wordle_rl.report.card import write_cards
from wordle_rl.report.terminal import game_counter
from wordle_rl.runs import RunError, read_json, write_json


def evaluate_and_report(work: RunWork) -> dict[str, Any]:
    """Evaluate all models that are not evaluated yet, write results, report and cards, and return the results."""
    store_strata(work.directory)
    for name in work.config.evaluated:
        for variant in work.config.eval.variants:
            _evaluate(work, name, variant)
    # The page counts the same figures from the same files, so both always agree.
    found = read_run(work.directory).results
    results: dict[str, Any] = {
        name: {part: asdict(figures) for part, figures in found[name].items()} for name in work.config.evaluated
    }
    results["seconds"] = {stage: round(seconds, 1) for stage, seconds in work.run.seconds.items()}
    results["seconds"]["total"] = round(sum(work.run.seconds.values()), 1)
    results["peak_memory_gib"] = round(work.peak_memory_gib, 2)
    if work.memory:
        results["memory"] = work.memory
    if english := _english(work):
        results["english"] = english
    write_json(work.directory / "results.json", results)
    write_report(work.directory)
    write_cards(work.directory, anew=False)
    return results


def _evaluate(work: RunWork, name: str, variant: Variant) -> None:
    asked = _asked(work, name, variant)
    path = work.directory / "eval" / f"{evaluation_name(name, variant)}.json"
    if path.is_file():
        journal_path(path).unlink(missing_ok=True)  # left by a kill after the evaluation was stored
        return
    with open_journal(path, asked, work.tell, in_run=True) as journal:
        before, total = [] if journal is None else journal.kept(asked), len(asked.starts)
        with work.stage("eval", f"Evaluating {path.stem}", total, len(before)) as tell:
            count = game_counter(tell, total, before)
            evaluate_to_file(asked, partial(open_player, asked), path, journal, count, work.tell)


def _asked(work: RunWork, name: str, variant: Variant) -> Asked:
    config, context = work.config, work.context
    sampled, constrained = variant == "sampled", variant == "constrained"
    secrets = context.split.of_each_part(config.eval.max_games)
    model = _model(work, name)
    player = PlayerSpec(
        name=model.path,
        sampling=config.sampling.model_copy(update={"temperature": 1.0 if sampled else 0.0}),
        seed=config.seed,
        model=model,
        engine="mlx" if config.backend == "mlx" else config.eval.engine,
        constrain="words" if constrained else "none",
    )
    return Asked(
        context,
        [InitialState(secret) for secret in secrets if not constrained or context.split.part_of(secret) == "test"],
        player,
        batch_size=config.max_batch_size,
        regret=not sampled,
        name=evaluation_name(name, variant) if sampled else name,
    )


def _english(work: RunWork) -> list[dict[str, Any]]:
    """What training cost a pretrained model: a row for the model that the run began with, and for each of its own."""
    if work.config.model.path == "tiny" or work.config.backend != "torch":
        return []
    path = work.directory / "english.json"
    if path.is_file():
        rows = read_json(path)
        if not isinstance(rows, list):
            raise RunError(f"{path} has no list of rows; delete it, and it is measured again")
        return rows
    measured = {name: _english_of(work, name) for name in dict.fromkeys(("base", *work.config.evaluated))}
    rows = [{"model": name, **asdict(english)} for name, english in measured.items() if english is not None]
    write_json(path, rows)
    return rows


def _english_of(work: RunWork, name: str) -> English | None:
    # A function of its own, so that a model is freed before the next one is loaded.
    player = PlayerSpec(model=_model(work, name), seed=work.config.seed)
    with open_player(Asked(work.context, (), player), player.seed) as (opened, _):
        return english_of(opened)


def _model(work: RunWork, name: str) -> ModelSettings:
    if name == "base":  # without the adapters that training would add
        return work.config.model.model_copy(update={"lora": LoraSettings()})
    return work.config.model_at(work.directory / name)
