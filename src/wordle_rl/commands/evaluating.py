"""Evaluations, and comparing them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wordle_rl.commands.console import messages, out, print_json
from wordle_rl.commands.eval_request import Asked, Outputs, Source
from wordle_rl.config import ConfigError, check_seed
from wordle_rl.evaluate import (
    Evaluation,
    Figures,
    Journal,
    Standings,
    evaluate,
    evaluate_concurrently,
    journal_path,
    load_evaluation,
    save_csv,
    standings,
    with_regret,
    write_rows,
)
from wordle_rl.evaluate.players import Player
from wordle_rl.models.directory import weights_mark
from wordle_rl.preflight.template import check_wording
from wordle_rl.prompt import name_of
from wordle_rl.report import terminal
from wordle_rl.samplers.base import ConcurrentSampler
from wordle_rl.samplers.endpoint.providers import bare_address
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split, SplitName, split_secrets


def evaluate_player(asked: Asked, source: Source, outputs: Outputs, with_regrets: bool, as_json: bool) -> None:
    """Play and measure one player."""
    check_seed(asked.seed)
    outputs.check()
    if source.games_per_secret > 1 and not asked.draws:
        raise ConfigError(
            f"{asked.player} plays the same game again as long as it does not draw its words; leave out "
            "--games-per-secret, or have a model draw with --temperature above 0"
        )
    settings = source.settings()
    found = load_words(settings.source)
    split = split_secrets(found, settings.split_seed)
    solver = Solver(found)
    who = asked.going_on(outputs).make(found, solver)
    if asked.wording.system_prompt is not None:  # a model's own was looked at before it was trained
        for finding in check_wording(who.prompter):
            messages.print(f"{finding.level}: {finding.message}", highlight=False, soft_wrap=True)
    secrets = source.secrets(split)
    planned = _planned(who, split, source, asked)
    outputs.check_replaced(planned, secrets)
    played_with = _played_with(who, split, source.part, asked, with_regrets)
    # Each draw of the random player depends on all draws before it, so that it starts anew and no games are kept.
    with _journal(outputs, played_with if who.label != "random" else None) as journal:
        evaluation = _play(who, planned, secrets, found, asked, solver if with_regrets else None, journal)
    if with_regrets and isinstance(who.sampler, ConcurrentSampler):
        with messages.status("measuring regret…"):
            evaluation = with_regret(evaluation, found, solver)
    figures = _figures_shown(evaluation, split, source.part)
    if not any(part.num_games for part in figures.values()):
        reasons = Counter(record.error for record in evaluation.records)
        raise ConfigError(f"no game could be played: {reasons.most_common(1)[0][0]}")
    if outputs.json is not None:
        evaluation.save(outputs.json)
        if journal is not None and not isinstance(who.sampler, ConcurrentSampler):
            journal.discard()  # another call plays anew, since the model may have changed
    if outputs.csv is not None:
        save_csv(evaluation, split, outputs.csv)
    if as_json:
        shown = {part: asdict(found) for part, found in figures.items()}
        told = shown.get(source.part, {"parts": shown})
        print_json({"player": who.label, "split": source.part, "constrain": evaluation.constrain, **told})
    else:
        out.print(terminal.results_table({evaluation.label: figures}))
    _tell_errors(evaluation, outputs)


def _planned(who: Player, split: Split, source: Source, asked: Asked) -> Evaluation:
    """The evaluation without its games."""
    return Evaluation(
        name=asked.name or Path(asked.player).name,
        player=who.label,
        parts=source.parts(split),
        rules=who.prompter.rules,
        fingerprint=split.fingerprint,
        records=(),
        constrain="words" if asked.constrained else "none",
        conditions=asked.conditions(who.prompter),
    )


def _figures_shown(evaluation: Evaluation, split: Split, part: SplitName) -> dict[str, Figures]:
    """The figures of the part that was asked for; if `all` was cut, those of each part separately."""
    if evaluation.parts == (part,):
        return {part: evaluation.figures()}
    return {each: evaluation.figures(split.named(each)) for each in evaluation.parts}


def _played_with(who: Player, split: Split, part: SplitName, asked: Asked, with_regrets: bool) -> dict[str, Any]:
    """Everything a player's games depend on, to be stored with them; an address without its user and query."""
    here: dict[str, Any] = {}
    if not isinstance(who.sampler, ConcurrentSampler):
        here = {"weights": weights_mark(Path(who.label)), "engine": asked.engine, "seed": asked.seed}
        here["regret"] = with_regrets
    elif asked.draws and asked.seed:  # not sent, but it tells replications apart; 0 is not recorded
        here = {"seed": asked.seed}
    drawing = asked.sampling.model_dump(exclude={"max_batch_size"})
    if asked.endpoint_default_sampling:
        drawing |= {"temperature": None, "top_p": None}
    told = who.prompter.system_prompt
    return {
        "player": who.label,
        "base_url": bare_address(asked.base_url) if asked.base_url else None,
        "words": split.fingerprint,
        "split": part,
        "split_seed": split.seed,
        "style": who.prompter.style.value,
        "shape": who.prompter.shape.value,
        "thinking": who.prompter.thinking.value,
        "system_prompt": None if told is None else name_of(told),
        **asdict(who.prompter.rules),
        **drawing,
        "constrain": "words" if asked.constrained else "none",
        **here,
    }


@contextmanager
def _journal(outputs: Outputs, settings: dict[str, Any] | None) -> Iterator[Journal | None]:
    if outputs.json is None or settings is None:
        yield None
        return
    with closing(Journal(journal_path(outputs.json), settings, overwrite=outputs.overwrite)) as journal:
        yield journal


def _play(
    who: Player,
    planned: Evaluation,
    secrets: Sequence[str],
    words: WordList,
    asked: Asked,
    solver: Solver | None,
    journal: Journal | None,
) -> Evaluation:
    """Play the secrets that no earlier call has kept a game of; a server's games each at its own pace.

    A solver measures regret meanwhile, but not in a server's games.
    """
    kept = journal.kept(secrets) if journal is not None else []
    if kept:
        messages.print(f"{len(kept):,} of {len(secrets):,} games are kept from before", highlight=False)
    sampler, patience, is_random = who.sampler, asked.patience, who.label == "random"
    with terminal.game_progress(messages, f"{who.label} plays", len(secrets), kept) as tell:
        if isinstance(sampler, ConcurrentSampler):
            return evaluate_concurrently(
                planned, secrets, words, who.prompter, sampler, patience, journal=journal, on_finished=tell
            )
        return evaluate(
            planned,
            secrets,
            words,
            who.prompter,
            sampler,
            solver=solver,
            regret_games=100 if is_random else None,
            batch_size=None if is_random else asked.sampling.max_batch_size,
            journal=journal,
            drawn=asked.sampling.temperature > 0,
            on_finished=tell,
        )


def _tell_errors(evaluation: Evaluation, outputs: Outputs) -> None:
    """Say how many games are errors, and why most of them are."""
    errors = Counter(record.error for record in evaluation.records if record.failed)
    if not errors:
        return
    reason, count = errors.most_common(1)[0]
    messages.print(
        f"{errors.total():,} games could not be played and are not counted ({count:,}: {reason})",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if outputs.json is not None and evaluation.player.startswith("openai:"):
        messages.print("the same command plays them again")


def compare_files(paths: Sequence[Path], names: Sequence[str], csv_path: Path | None, top: int, as_json: bool) -> None:
    """Any number of evaluations side by side, each against the first."""
    if top < 0:
        raise ConfigError(f"--top {top} shows no number of words; give at least 1, or 0: none")
    if names and len(names) != len(paths):
        raise ConfigError(f"{len(names)} names for {len(paths)} evaluations; give one for each")
    evaluations = [load_evaluation(path) for path in paths]
    own = [evaluation.name for evaluation in evaluations]
    shown = names or (own if len(set(own)) == len(own) else [path.as_posix() for path in paths])
    evaluations = [dataclasses.replace(each, name=name) for each, name in zip(evaluations, shown, strict=True)]
    found = standings(evaluations)
    if csv_path is not None:
        write_rows(csv_path, _standing_rows(found))
    if as_json:
        print_json(asdict(found))
        return
    if len(evaluations) == 2:
        out.print(terminal.results_table({run.name: {"shared games": run.figures} for run in found.runs}))
        out.print(terminal.comparison_table(found, max_rows=top))
    else:
        out.print(terminal.standings_table(found, max_rows=top))


def _standing_rows(found: Standings) -> list[dict[str, Any]]:
    """A row per run: its figures, and what it is against the first."""
    rows = []
    for run in found.runs:
        row = {"name": run.name, "player": run.player, **asdict(run.figures)}
        row |= {f"games_{turns}": count for turns, count in row.pop("guess_distribution").items()}
        pair = run.against_base
        for column in ("win_rate_difference", "guesses_difference"):
            estimate = (None, None, None) if pair is None else getattr(pair, column)
            row |= dict(zip((column, f"{column}_low", f"{column}_high"), estimate, strict=True))
        names = {"only_base": "only_a", "only_this": "only_b"}
        for column in (*names, "p_value", "guesses_p_value"):
            row[column] = None if pair is None else getattr(pair, names.get(column, column))
        rows.append(row)
    return rows
