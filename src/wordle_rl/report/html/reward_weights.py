"""Weights of a run's reward as the page shows them: as set, as used, and the share of each in percent."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from wordle_rl.config import RewardSettings, fields_only
from wordle_rl.import_paths import is_import_path
from wordle_rl.report.html.charts import bar_of_shares, format_value
from wordle_rl.reward import Rubric
from wordle_rl.runs.progress import in_percent


def weights_section(config: Mapping[str, Any]) -> str:
    """Table of the reward's components for each set of weights; empty for a run that was not paid by a reward.

    A share is the weight's amount over the sum of all amounts, costs included. Weights used differ from those set
    where the order of wins and losses had to be kept.

    Args:
        config: The run's settings, as stored.
    """
    shared = config.get("rl")
    algorithm = config.get("algorithm", "grpo")
    is_paid = algorithm == "grpo" or (algorithm == "dpo" and config.get("dpo", {}).get("judge") == "outcome")
    if not isinstance(shared, Mapping) or not isinstance(shared.get("reward"), Mapping) or not is_paid:
        return ""
    if algorithm == "grpo" and not config.get("grpo", {}).get("steps", 1):
        return ""
    with fields_only():
        settings = RewardSettings.model_validate(dict(shared["reward"]))
    if any(map(is_import_path, settings.weights)):
        # A page is also made of runs of other people, whose settings must not choose what is imported here.
        return f"<section><h2>Weights of the reward</h2>{_table_as_set('', settings.weights)}</section>"
    schedule = settings.schedule()
    tables = [_table("" if schedule.end is None else "At first", schedule.rubric(None))]
    if schedule.end is not None:
        name = f"From a format compliance of {in_percent(schedule.threshold, 0)} % on"
        tables.append(_table(name, schedule.rubric(1.0)))
    return f"<section><h2>Weights of the reward</h2>{''.join(tables)}</section>"


def weight_shares(rubric: Rubric) -> dict[str, float]:
    """Share of each component's weight, 0 to 1, costs by their amount; they sum to 1.

    Examples:
        >>> shares = weight_shares(Rubric({"format": 1.0, "feedback": 0.5, "quick_regret": -0.5}, keep_order=False))
        >>> shares
        {'format': 0.5, 'feedback': 0.25, 'quick_regret': 0.25}
    """
    used = rubric.effective_weights
    total = sum(abs(weight) for weight in used.values())
    return {name: abs(weight) / total for name, weight in used.items() if weight} if total else {}


def _table(title: str, rubric: Rubric) -> str:
    shares = weight_shares(rubric)
    rows = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td>{_set(rubric, name)}</td>"
        f"<td>{format_value(weight)}</td><td>{in_percent(shares.get(name, 0.0))} %</td></tr>"
        for name, weight in rubric.effective_weights.items()
    )
    head = "<th scope='col'>component</th><th scope='col'>weight set</th><th scope='col'>weight used</th>"
    bar = bar_of_shares([*shares.items()], "") if shares else ""
    bar = bar.partition("<table")[0]
    return (
        f"{f'<h3>{escape(title)}</h3>' if title else ''}{bar}<div class='scroll'><table><thead><tr>{head}"
        f"<th scope='col'>share of all weights</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _table_as_set(title: str, weights: Mapping[str, float]) -> str:
    """Weights as set, without those used, for which the components would have to be imported."""
    rows = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td>{format_value(weight)}</td></tr>"
        for name, weight in weights.items()
    )
    return (
        f"{f'<h3>{escape(title)}</h3>' if title else ''}<div class='scroll'><table><thead><tr><th scope='col'>component"
        f"</th><th scope='col'>weight set</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _set(rubric: Rubric, name: str) -> str:
    return format_value(rubric.weights[name]) if name in rubric.weights else "–"
