"""`eval`: let any player play secrets; keep, measure and show its games."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import fill_in
from wordle_rl.config.base import ConfigError
from wordle_rl.evaluate.asked import Asked
from wordle_rl.evaluate.entropy import at_equal_entropy
from wordle_rl.evaluate.forgetting import English, english_of
from wordle_rl.evaluate.journal import evaluate_to_file, open_journal
from wordle_rl.evaluate.leaderboard import add_row, row_of
from wordle_rl.evaluate.options import EvalOptions
from wordle_rl.evaluate.players import (
    notes_on,
    open_player,
    shown_name,
)
from wordle_rl.evaluate.records import Evaluation, save_csv
from wordle_rl.evaluate.results_table import results_table
from wordle_rl.policy.base import Sampler
from wordle_rl.preflight.template import check_wording
from wordle_rl.report import terminal
from wordle_rl.report.terminal import Results
from wordle_rl.train.checkpoints import models_of_stage


def eval_player(asked: Annotated[EvalOptions, tyro.conf.arg(name="")]) -> None:
    """Let any player play secrets, and measure its games: six turns, strict dictionary, no retries."""
    if asked.out is not None:
        asked = asked.model_copy(update={"out": fill_in(asked.out, shown_name(asked.player))})
    if asked.checkpoints or asked.lenient:
        _evaluate_several(asked)
        return
    if asked.match_entropy_of is None:
        what = asked.asked(_say)
    else:
        # Greedy play has no entropy to match, so the default is the temperature of training.
        own = asked.model_copy(update={"temperature": asked.temperature or 1.0})
        other = own.model_copy(update={"player": str(asked.match_entropy_of)})
        with console.messages.status("finding the temperature of equal entropy…"):
            what = at_equal_entropy(own.asked(_say), other.asked(_say), _say)
    evaluation, english = _evaluated(asked, what)
    shown = Results.of(evaluation, what.context.split, asked.secrets or asked.split, english)
    if asked.board is not None:
        add_row(asked.board, row_of(evaluation, what.context.words.name, shown.part))
    console.show(shown.to_json(), shown.lines(), asked.as_json)


def _evaluate_several(asked: EvalOptions) -> None:
    """Evaluate the checkpoints of a stage, or a player by two readings, and show them in one table."""
    what = "--checkpoints" if asked.checkpoints else "--lenient"
    if asked.checkpoints and asked.lenient:
        raise ConfigError("--checkpoints and --lenient each show several evaluations; drop one")
    if asked.csv is not None or asked.match_entropy_of is not None or asked.board is not None:
        raise ConfigError(f"--csv, --board and --match-entropy-of are for one evaluation; drop them, or {what}")
    out = asked.out
    if asked.checkpoints:
        title, key = f"Checkpoints of {asked.player}", "checkpoints"
        each: dict[str, dict[str, Any]] = {
            name: {"player": str(model), "out": None if out is None else out / f"{name}.json"}
            for name, model in models_of_stage(Path(asked.player)).items()
        }
    else:
        title, key = f"Replies of {asked.player}, read in two ways", "readings"
        second = None if out is None else out.with_name(f"{out.stem}-lenient{out.suffix}")
        each = {"strict": {"lenient": False}, "lenient": {"out": second}}
    found = {}
    for name, changes in each.items():
        one = asked.model_copy(update={"name": name, **changes})
        asks = one.asked(_say)
        found[name] = Results.of(_evaluated(one, asks)[0], asks.context.split, one.secrets or one.split).figures
    told = {name: {part: asdict(its) for part, its in parts.items()} for name, parts in found.items()}
    table = terminal.figures_table(results_table(found), title)
    console.show({"stage" if asked.checkpoints else "player": asked.player, key: told}, [table], asked.as_json)


def _evaluated(options: EvalOptions, asked: Asked) -> tuple[Evaluation, English | None]:
    notes = [*notes_on(options.player, asked.context.prompter, asked=options.style is not None)]
    if options.system_prompt is not None:  # a model's own prompt was checked before its training
        notes += [f"{finding.level}: {finding.message}" for finding in check_wording(asked.context.prompter)]
    for note in notes:
        _say(note)
    english: list[English | None] = []  # measured before the model is gone

    @contextmanager
    def opened(seed: int) -> Iterator[tuple[Sampler, int | None]]:
        with open_player(asked, seed) as (sampler, max_prompt_tokens):
            if note := getattr(sampler, "whose_sampling", ""):
                _say(note)
            yield sampler, max_prompt_tokens
            english.append(None if options.checkpoints or options.lenient else english_of(sampler))

    with open_journal(options.out, asked, _say, overwrite=options.overwrite) as journal:
        kept = [] if journal is None else journal.kept(asked)
        with terminal.game_progress(console.messages, f"{asked.player.name} plays", len(asked.starts), kept) as count:
            evaluation = evaluate_to_file(asked, opened, options.out, journal, count, _say)
    if options.csv is not None:
        save_csv(evaluation, asked.context.split, options.csv)
    return evaluation, english[0] if english else None


def _say(text: str) -> None:
    console.messages.print(text, soft_wrap=True)
