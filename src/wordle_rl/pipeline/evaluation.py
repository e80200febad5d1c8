"""Evaluate the models of a run; write results and report."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from wordle_rl.config.base import seed_after
from wordle_rl.config.evaluation import EngineName, Variant, evaluation_name
from wordle_rl.config.model import LoraSettings, ModelSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.conditions import EvalConditions
from wordle_rl.evaluate.forgetting import English, measure_english, speaks_english
from wordle_rl.evaluate.journal import journal_of, journal_path
from wordle_rl.evaluate.play import evaluate
from wordle_rl.evaluate.players import model_sampler
from wordle_rl.evaluate.records import Evaluation, Figures, figures_by_split, sampled_part
from wordle_rl.evaluate.strata import store_strata
from wordle_rl.pipeline.run_work import RunWork
from wordle_rl.policy.directory import weights_mark
from wordle_rl.report import write_report
from wordle_rl.report.card import write_cards
from wordle_rl.report.terminal import game_counter
from wordle_rl.runs import RunError, read_json, write_json
from wordle_rl.runs.jsonl_store import repaired


def evaluate_and_report(work: RunWork) -> dict[str, Any]:
    """Evaluate all models that are not evaluated yet, write results, report and cards, and return the results."""
    results: dict[str, Any] = {}
    stored = store_strata(work.directory)
    strata = stored.named() if stored.complete else {}  # unknown if some training data is missing here
    for name in work.config.evaluated:
        results[name] = {
            part: asdict(figures)
            for variant in work.config.eval.variants
            for part, figures in _figures(work, _evaluate(work, name, variant), variant, strata).items()
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


def _figures(
    work: RunWork, evaluation: Evaluation, variant: Variant, strata: dict[str, frozenset[str]]
) -> dict[str, Figures]:
    found = figures_by_split(evaluation, work.context.split, strata)
    return {sampled_part(part): figures for part, figures in found.items()} if variant == "sampled" else found


def _evaluate(work: RunWork, name: str, variant: Variant) -> Evaluation:
    constrained, sampled = variant == "constrained", variant == "sampled"
    label = evaluation_name(name, variant)
    path = work.directory / "eval" / f"{label}.json"
    if path.is_file():
        journal_path(path).unlink(missing_ok=True)  # left by a kill after the evaluation was stored
        return Evaluation.load(path)
    secrets = work.context.split.of_each_part(work.config.eval.max_games)
    if constrained:
        held_out = frozenset(work.context.split.test)
        secrets = [secret for secret in secrets if secret in held_out]
    sampling = SamplingSettings(
        temperature=1.0 if sampled else 0.0,
        max_completion_tokens=work.config.max_completion_tokens,
        max_batch_size=work.config.max_batch_size,
    )
    model = _player(work, name)
    played_with = {
        "weights": weights_mark(Path(model.path)),
        "words": work.context.words.fingerprint,
        "max_completion_tokens": work.config.max_completion_tokens,
        **work.config.eval.model_dump(mode="json", exclude={"also"}),
    }
    if sampled:
        played_with |= {"temperature": sampling.temperature, "seed": work.config.seed}
    with ExitStack() as held:
        journal = held.enter_context(closing(journal_of(journal_path(path), played_with)))
        if journal.num_bytes_cut:
            work.tell(repaired(journal.path, journal.num_bytes_cut))
        before = journal.kept(secrets)
        tell = held.enter_context(work.stage("eval", f"Evaluating {label}", len(secrets), len(before)))
        engine: EngineName = "mlx" if work.config.backend == "mlx" else work.config.eval.engine
        seed = work.config.seed
        # A resumed evaluation must not repeat the draws of the games it kept. For an untrained embedded model the seed
        # also decides the weights, so it stays.
        if sampled and model.path != "tiny":
            seed = seed_after(seed, len(before))
        sampler = model_sampler(
            model, work.context.words, work.context.prompter, sampling, seed, engine, constrained=constrained
        )
        conditions = EvalConditions.of(work.context.prompter, sampler, constrained=constrained)
        if sampled:
            conditions = replace(conditions, seed=work.config.seed)
        planned = Evaluation(
            name=label if sampled else name,
            player=model.path,
            parts=(),
            rules=work.context.prompter.rules,
            fingerprint=work.context.words.fingerprint,
            records=(),
            conditions=conditions,
            constrain="words" if constrained else "none",
        )
        evaluation = evaluate(
            planned,
            secrets,
            work.context.words,
            work.context.prompter,
            sampler,
            # Sampled games have many different openers, and exact regret takes half a second for each.
            solver=work.context.solver if not sampled else None,
            batch_size=work.config.max_batch_size,
            journal=journal,
            drawn=sampled,
            on_finished=game_counter(tell, len(secrets), before),
        )
        evaluation.save(path)
        journal.discard()
        if (close := getattr(sampler, "close", None)) is not None:  # it holds something large, such as an engine
            close()
    return evaluation


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
    context = work.context
    sampler: Any = model_sampler(
        _player(work, name), context.words, context.prompter, SamplingSettings(), work.config.seed, "transformers"
    )
    return measure_english(sampler.model, sampler.codec) if speaks_english(sampler.codec) else None


def _player(work: RunWork, name: str) -> ModelSettings:
    if name == "base":  # without the adapters that training would add
        return work.config.model.model_copy(update={"lora": LoraSettings()})
    return work.config.model_at(work.directory / name)
