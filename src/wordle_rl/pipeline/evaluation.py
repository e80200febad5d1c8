"""Evaluate the models of a run; write results and report."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from wordle_rl.boards import InitialState
from wordle_rl.config.context import GameContext
from wordle_rl.config.evaluation import Variant, evaluation_name
from wordle_rl.config.model import LoraSettings, ModelSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.evaluate.forgetting import English, english_of
from wordle_rl.evaluate.journal import evaluate_to_file, journal_path, open_journal
from wordle_rl.evaluate.players import open_player
from wordle_rl.evaluate.strata import store_strata
from wordle_rl.pipeline.timings import Timings
from wordle_rl.report import read_run, write_report
from wordle_rl.report.card import write_cards
from wordle_rl.report.terminal import game_counter
from wordle_rl.runs import ENGLISH_FILE, RunError, read_json, write_json


def evaluate_and_report(config: RunConfig, context: GameContext, directory: Path, timings: Timings) -> dict[str, Any]:
    """Evaluate all models that are not evaluated yet, write results, report and cards, and return the results."""
    store_strata(directory)
    for name in config.evaluated:
        for variant in config.eval.variants:
            asked = _asked(config, context, _model(config, directory, name), name, variant)
            _evaluate(asked, directory / "eval" / f"{evaluation_name(name, variant)}.json", timings)
    # The page counts the same figures from the same files, so both always agree.
    found = read_run(directory).results
    results: dict[str, Any] = {
        name: {part: asdict(figures) for part, figures in found[name].items()} for name in config.evaluated
    }
    results["seconds"] = {stage: round(seconds, 1) for stage, seconds in timings.seconds.items()}
    results["seconds"]["total"] = round(sum(timings.seconds.values()), 1)
    results["peak_memory_gib"] = round(timings.peak_memory_gib, 2)
    if timings.memory:
        results["memory"] = timings.memory
    if english := _english(config, context, directory):
        results["english"] = english
    write_json(directory / "results.json", results)
    write_report(directory)
    write_cards(directory, anew=False)
    return results


def _evaluate(asked: Asked, path: Path, timings: Timings) -> None:
    if path.is_file():
        journal_path(path).unlink(missing_ok=True)  # left by a kill after the evaluation was stored
        return
    with open_journal(path, asked, timings.tell, in_run=True) as journal:
        before, total = [] if journal is None else journal.kept(asked), len(asked.starts)
        with timings.shown("eval", f"Evaluating {path.stem}", total, len(before)) as advance:
            count = game_counter(advance, total, before)
            evaluate_to_file(asked, partial(open_player, asked), path, journal, count, timings.tell)


def _asked(config: RunConfig, context: GameContext, model: ModelSettings, name: str, variant: Variant) -> Asked:
    sampled, constrained = variant == "sampled", variant == "constrained"
    secrets = context.split.of_each_part(config.eval.max_games)
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


def _english(config: RunConfig, context: GameContext, directory: Path) -> list[dict[str, Any]]:
    """What training cost a pretrained model: a row for the model that the run began with, and for each of its own."""
    if config.model.path == "tiny" or config.backend != "torch":
        return []
    path = directory / ENGLISH_FILE
    if path.is_file():
        rows = read_json(path)
        if not isinstance(rows, list):
            raise RunError(f"{path} has no list of rows; delete it, and it is measured again")
        return rows
    models = {name: _model(config, directory, name) for name in dict.fromkeys(("base", *config.evaluated))}
    measured = {name: _english_of(context, PlayerSpec(model=model, seed=config.seed)) for name, model in models.items()}
    rows = [{"model": name, **asdict(english)} for name, english in measured.items() if english is not None]
    write_json(path, rows)
    return rows


def _english_of(context: GameContext, player: PlayerSpec) -> English | None:
    # A function of its own, so that a model is freed before the next one is loaded.
    with open_player(Asked(context, (), player), player.seed) as (opened, _):
        return english_of(opened)


def _model(config: RunConfig, directory: Path, name: str) -> ModelSettings:
    if name == "base":  # without the adapters that training would add
        return config.model.model_copy(update={"lora": LoraSettings()})
    return config.model_at(directory / name)
