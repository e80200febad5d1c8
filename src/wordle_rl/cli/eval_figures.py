"""Figures of `eval`: by part of the split, by earlier turns, rewards, and the words guessed most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from wordle_rl.cli import console
from wordle_rl.cli.eval_secrets import OUTSIDE, Source, marked
from wordle_rl.config import PlayerEvalSettings
from wordle_rl.evaluate import Evaluation, Figures, measure
from wordle_rl.evaluate.boards import by_earlier_turns
from wordle_rl.evaluate.rewards import RewardFigures, commonest_guesses, reward_figures
from wordle_rl.evaluate.stats import smallest_difference
from wordle_rl.game import Rules
from wordle_rl.report import terminal
from wordle_rl.report.rewards import guesses_line, reward_table
from wordle_rl.words.split import Split


def show_figures(
    evaluation: Evaluation, split: Split, source: Source, settings: PlayerEvalSettings, as_json: bool
) -> None:
    """Print the figures of an evaluation, as tables or as JSON."""
    figures = figures_shown(evaluation, split, source)
    by_turns = earlier_turns_figures(evaluation)
    guesses = commonest_guesses(evaluation.records, settings.top_guesses)
    rewards = _rewards(evaluation, split, source)
    if as_json:
        shown = {part: asdict(found) for part, found in figures.items()}
        part = source.part if source.named is None else source.named
        told: dict[str, Any] = shown.get(part, {})
        if len(shown) > 1 or not told:
            told = {**told, "parts": shown}
        if by_turns:
            told["by_earlier_turns"] = {name: asdict(found) for name, found in by_turns.items()}
        if rewards:
            told["reward"] = {name: asdict(found) for name, found in rewards.items()}
        told["commonest_guesses"] = [asdict(guess) for guess in guesses]
        console.print_json({"player": evaluation.player, "split": part, "constrain": evaluation.constrain, **told})
        return
    console.out.print(terminal.results_table({evaluation.label: figures}, title=_title(evaluation)))
    if by_turns:
        console.out.print(
            terminal.results_table({evaluation.label: by_turns}, title="By earlier turns on the board: 0, 1, …")
        )
    if rewards:
        console.out.print(reward_table(rewards))
    if guesses:
        console.out.print(guesses_line(guesses), highlight=False, soft_wrap=True)
    if line := power_line(figures):
        console.out.print(line, highlight=False, markup=False, soft_wrap=True)


def power_line(figures: Mapping[str, Figures]) -> str:
    """The difference that the largest part can show; '' where secrets were played more than once."""
    part = max(figures, key=lambda name: figures[name].num_games, default="")
    if not part:
        return ""
    rate, num_games = figures[part].win_rate, figures[part].num_games
    if rate is None or figures[part].pass_at:
        return ""
    # Towards one half, where games vary most: no smaller one shows in the other direction either.
    rise = smallest_difference(min(rate, 1 - rate), num_games)
    if rise is None:
        return f"{num_games:,} games of {part} show no difference at all; `wordle-rl power` counts how many do"
    return f"{num_games:,} games of {part} can show a difference of {100 * rise:.1f} points (5 %, power 80 %)"


def figures_shown(evaluation: Evaluation, split: Split, source: Source) -> dict[str, Figures]:
    """The figures by part.

    Of words that were named there is a column for each part of the split that they belong to, and one for all of them;
    if `all` of the split was cut, one for each of its parts.
    """
    if source.named is not None:
        parts = marked([record.secret for record in evaluation.records], split)
        of_parts = {part: evaluation.figures(words) for part, words in parts.items()}
        return of_parts if [*of_parts] == [source.named] else of_parts | {source.named: evaluation.figures()}
    if evaluation.parts == (source.part,):
        return {source.part: evaluation.figures()}
    return {each: evaluation.figures(split.named(each)) for each in evaluation.parts}


def earlier_turns_figures(evaluation: Evaluation) -> dict[str, Figures]:
    """Figures by the number of turns on the board when play began; none if every board was empty."""
    if evaluation.conditions.boards is None:
        return {}
    turns = evaluation.rules.max_turns
    return {f"{count}": measure(records, turns) for count, records in by_earlier_turns(evaluation.records).items()}


def _rewards(evaluation: Evaluation, split: Split, source: Source) -> dict[str, RewardFigures]:
    """Rewards of all games, and of those by part where there are several."""
    if evaluation.reward_preset is None:
        return {}
    groups = {"all games": evaluation.records}
    if source.named is not None and source.named != OUTSIDE:
        parts = marked([record.secret for record in evaluation.records], split)
        groups |= {part: evaluation.only(words).records for part, words in parts.items()}
    found = {name: reward_figures(records, evaluation.reward_preset) for name, records in groups.items()}
    return {name: figures for name, figures in found.items() if figures is not None}


def _title(evaluation: Evaluation) -> str | None:
    """Rules and boards that are not those of every other table; None: they are."""
    rules, usual = evaluation.rules, Rules()
    unusual = [f"{rules.dictionary} dictionary"] if rules.dictionary is not usual.dictionary else []
    unusual += ["hard mode"] if rules.hard_mode else []
    unusual += [f"{rules.max_turns} turns"] if rules.max_turns != usual.max_turns else []
    unusual += [f"boards with {evaluation.conditions.boards}"] if evaluation.conditions.boards else []
    return f"Not the usual rules: {', '.join(unusual)}" if unusual else None
