"""What `wordle-rl eval` shows of an evaluation: figures by part of the secrets, by board, and of the reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import RenderableType

from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.eval_secrets import by_earlier_turns, marked
from wordle_rl.evaluate.figures import Figures, RewardFigures, measure, results_table, reward_figures
from wordle_rl.evaluate.forgetting import English
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.stats import smallest_difference
from wordle_rl.game import Rules
from wordle_rl.report.terminal import figures_table, reward_table
from wordle_rl.words.split import Split


@dataclass(frozen=True)
class Results:
    """Figures of an evaluation; empty where there is nothing to show.

    Attributes:
        part: The secrets that were asked for: a part of the split, or the name of others.
        figures: By part of the secrets, `part` first.
        by_turns: By number of earlier turns on the board.
        rewards: By part of the secrets, if games were scored.
    """

    evaluation: Evaluation
    part: str
    figures: Mapping[str, Figures]
    by_turns: Mapping[str, Figures]
    rewards: Mapping[str, RewardFigures]
    english: English | None = None

    @classmethod
    def of(cls, evaluation: Evaluation, split: Split, part: str, english: English | None = None) -> Results:
        """Compute the figures of an evaluation of secrets called `part`."""
        turns, preset, groups = evaluation.rules.max_turns, evaluation.reward_preset, _by_part(evaluation, split, part)
        boards = {} if evaluation.conditions.boards is None else by_earlier_turns(evaluation.records)
        scored = {} if preset is None else {name: reward_figures(games, preset) for name, games in groups.items()}
        return cls(
            evaluation,
            part,
            {name: measure(games, turns) for name, games in groups.items()},
            {str(count): measure(games, turns) for count, games in boards.items()},
            {name: figures for name, figures in scored.items() if figures is not None},
            english,
        )

    def to_json(self) -> dict[str, Any]:
        """Return every figure as a JSON object: those of `part` at its top, those of all parts under `parts`."""
        shown = {part: asdict(found) for part, found in self.figures.items()}
        # Scripts read the figures of what was asked for at the top, however many parts it falls into.
        told: dict[str, Any] = shown.get(self.part, {})
        if len(shown) > 1 or not told:
            told = {**told, "parts": shown}
        for name, found in (("by_earlier_turns", self.by_turns), ("reward", self.rewards)):
            if found:
                told[name] = {key: asdict(figures) for key, figures in found.items()}
        if self.english is not None:
            told["english"] = asdict(self.english)
        about = {"player": self.evaluation.player, "split": self.part, "constrain": self.evaluation.constrain}
        return {**about, **told}

    def lines(self) -> Iterator[RenderableType]:
        """Yield tables and lines for a terminal."""
        label = self.evaluation.label
        yield figures_table(results_table({label: self.figures}), f"{label}{_unusual(self.evaluation)}")
        yield ""
        if self.by_turns:
            yield figures_table(results_table({label: self.by_turns}), "By earlier turns on the board: 0, 1, …")
            yield ""
        if self.rewards:
            yield reward_table(self.rewards)
            yield ""
        if self.english is not None:
            yield f"English: {self.english}"
        if line := power_line(self.figures):
            yield line


def _by_part(evaluation: Evaluation, split: Split, part: str) -> dict[str, Sequence[GameRecord]]:
    # All games first, unless some of every part were played: that would skew figures of all. Other secrets than those
    # of the split are grouped by what training knew of them.
    whole: dict[str, Sequence[GameRecord]] = {part: evaluation.records}
    if evaluation.parts == (part,):
        return whole
    if evaluation.parts:
        return {each: evaluation.only(split.named(each)).records for each in evaluation.parts}
    groups = marked(list(evaluation.secrets), split)
    return whole | {name: evaluation.only(words).records for name, words in groups.items()}


def _unusual(evaluation: Evaluation) -> str:
    # Rules and boards that differ from those of other tables, so that their figures are not compared.
    rules, usual = evaluation.rules, Rules()
    unusual = [f"{rules.dictionary} dictionary"] if rules.dictionary is not usual.dictionary else []
    unusual += ["hard mode"] if rules.hard_mode else []
    unusual += [f"{rules.max_turns} turns"] if rules.max_turns != usual.max_turns else []
    unusual += [f"boards with {evaluation.conditions.boards}"] if evaluation.conditions.boards else []
    return f", not the usual rules: {', '.join(unusual)}" if unusual else ""


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
