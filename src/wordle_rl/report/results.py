"""What `wordle-rl eval` shows of an evaluation: figures by part of the secrets, by board, and of the reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import RenderableType

from wordle_rl.evaluate.eval_secrets import OUTSIDE, by_earlier_turns, marked
from wordle_rl.evaluate.figures import Figures, RewardFigures, measure, results_table, reward_figures
from wordle_rl.evaluate.forgetting import English
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.stats import smallest_difference
from wordle_rl.game import Rules
from wordle_rl.report.terminal import figures_table, reward_table
from wordle_rl.words.split import Split


@dataclass(frozen=True)
class Results:
    """An evaluation of the secrets called `part`: a part of the split, or a name of other secrets."""

    evaluation: Evaluation
    split: Split
    part: str
    english: English | None = None

    def to_json(self) -> dict[str, Any]:
        """Return every figure as a JSON object: those of `part` at its top, those of all parts under `parts`."""
        shown = {part: asdict(found) for part, found in self._figures.items()}
        told: dict[str, Any] = shown.get(self.part, {})
        if len(shown) > 1 or not told:
            told = {**told, "parts": shown}
        for name, found in (("by_earlier_turns", self._by_turns), ("reward", self._rewards)):
            if found:
                told[name] = {key: asdict(figures) for key, figures in found.items()}
        if self.english is not None:
            told["english"] = asdict(self.english)
        about = {"player": self.evaluation.player, "split": self.part, "constrain": self.evaluation.constrain}
        return {**about, **told}

    def lines(self) -> Iterator[RenderableType]:
        """Yield tables and lines for a terminal."""
        label = self.evaluation.label
        yield figures_table(results_table({label: self._figures}), f"{label}{self._unusual}")
        if self._by_turns:
            yield ""
            yield figures_table(results_table({label: self._by_turns}), "By earlier turns on the board: 0, 1, …")
        if self._rewards:
            yield ""
            yield reward_table(self._rewards)
        yield ""
        if self.english is not None:
            yield f"English: {self.english}"
        if line := power_line(self._figures):
            yield line

    @property
    def _figures(self) -> dict[str, Figures]:
        return figures_by_part(self.evaluation, self.split, self.part)

    @property
    def _by_turns(self) -> dict[str, Figures]:
        if self.evaluation.conditions.boards is None:
            return {}
        turns = self.evaluation.rules.max_turns
        return {f"{n}": measure(found, turns) for n, found in by_earlier_turns(self.evaluation.records).items()}

    @property
    def _rewards(self) -> dict[str, RewardFigures]:
        preset, records = self.evaluation.reward_preset, self.evaluation.records
        if preset is None:
            return {}
        groups = {"all games": records}
        if not self.evaluation.parts and self.part != OUTSIDE:
            parts = marked([record.secret for record in records], self.split)
            groups |= {part: self.evaluation.only(words).records for part, words in parts.items()}
        found = {name: reward_figures(games, preset) for name, games in groups.items()}
        return {name: figures for name, figures in found.items() if figures is not None}

    @property
    def _unusual(self) -> str:
        # Rules and boards that differ from those of other tables, so that their figures are not compared.
        rules, usual = self.evaluation.rules, Rules()
        unusual = [f"{rules.dictionary} dictionary"] if rules.dictionary is not usual.dictionary else []
        unusual += ["hard mode"] if rules.hard_mode else []
        unusual += [f"{rules.max_turns} turns"] if rules.max_turns != usual.max_turns else []
        unusual += [f"boards with {self.evaluation.conditions.boards}"] if self.evaluation.conditions.boards else []
        return f", not the usual rules: {', '.join(unusual)}" if unusual else ""


def figures_by_part(evaluation: Evaluation, split: Split, part: str) -> dict[str, Figures]:
    """Return the figures of secrets called `part`.

    Other secrets than those of the split give one entry for each part they belong to, and one for all of them. A cut
    `all` gives one for each part.
    """
    if not evaluation.parts:
        marks = marked([record.secret for record in evaluation.records], split)
        of_parts = {name: evaluation.figures(words) for name, words in marks.items()}
        return of_parts if [*of_parts] == [part] else {part: evaluation.figures()} | of_parts
    if evaluation.parts == (part,):
        return {part: evaluation.figures()}
    return {each: evaluation.figures(split.named(each)) for each in evaluation.parts}


def power_line(figures: Mapping[str, Figures]) -> str:
    """Return a line with the smallest difference that the largest part can show; '' for repeated secrets."""
    part = max(figures, key=lambda name: figures[name].num_games, default="")
    if not part:
        return ""
    rate, num_games = figures[part].win_rate, figures[part].num_games
    if rate is None or figures[part].pass_at:
        return ""
    # Look towards one half, where wins vary most. A difference away from it shows no sooner.
    rise = smallest_difference(min(rate, 1 - rate), num_games)
    if rise is None:
        return f"{num_games:,} games of {part} show no difference at all; `wordle-rl power` counts how many do"
    return f"{num_games:,} games of {part} can show a difference of {100 * rise:.1f} points (5 %, power 80 %)"
