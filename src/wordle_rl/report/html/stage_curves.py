"""The curves of a run's stages, each with a sentence that says what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from wordle_rl.report.html.charts import NUM_COLORS, Series, line_chart, time_bar
from wordle_rl.runs import BY_TURN, PASS_AT, VALIDATED, is_number

_CURVES = {
    "win_rate": (
        "Win rate",
        "Share of the step's games won, at the temperature of training, of those whose secret is an answer; secrets "
        "that are hard for the policy may be preferred.",
    ),
    "scouted_win_rate": (
        "Greedy wins, secrets trained on",
        "Share of all of them found by greedy play, measured now and then.",
    ),
    "reward": ("Reward", "Mean total reward of the step's games."),
    "reward_std": ("Std of rewards", "Standard deviation of the total rewards within a step."),
    "cumulative_wins": ("Wins so far", "Training games won since the start."),
    "mean_guesses": ("Guesses", "Mean guesses of the step's games that were won."),
    "format_compliance": ("Format", "Share of replies with a listed word of the right length."),
    "zero_variance_share": (
        "Groups without variance",
        "Share of groups whose games all earned the same: nothing to learn. Before refills.",
    ),
    "kept_games": ("Games kept", "Games of the round good enough to learn from."),
    "pairs": ("Pairs", "Replies to the same prompt that differ enough to learn from."),
    "agreement_rate": ("Agreement", "Share of the boards reached on which the policy's guess was the teacher's."),
    "teacher_entropy": ("Entropy of the teacher", "How undecided the teacher is at the boards labelled, in nats."),
    "labels": ("Boards labelled", "Different boards of the round to which the teacher gave a guess."),
    "new_boards": ("New boards", "Labelled boards that no earlier round still in use had reached."),
    "rewards/accuracies": ("Pairs in order", "Share of pairs whose chosen reply gained more than the rejected one."),
    "reply_tokens": ("Tokens of a reply", "Mean over all replies, including the closing token."),
    "overlong_share": ("Replies cut", "Share of replies that were cut at max_completion_tokens."),
    "entropy": ("Entropy", "How undecided the policy is, per token; a fall to zero ends exploration."),
    "loss": ("Loss", "The training objective."),
    "refilled_groups": ("Groups refilled", "Groups without variance that were replaced by games of other secrets."),
    "skipped_groups": ("Groups skipped", "Groups without variance that could not be replaced: they teach nothing."),
    "cost": (
        "Cost of sampled play",
        "Mean guesses on validation secrets, a loss counted as one more than the last turn.",
    ),
    "greedy_cost": (
        "Cost of greedy play",
        "The same for validation and training secrets; of the candidates, those of the lowest cost are kept.",
    ),
    "validation_cost": (
        "Cost of greedy play, validation",
        "Of validation secrets alone; weights that cost more than the start are not kept.",
    ),
    "train_win_rate": ("Greedy wins, training", "Share of some training secrets found by greedy play."),
    "greedy_win_rate": ("Greedy wins", "Share of the validation secrets found by greedy play."),
    "sampled_win_rate": ("Sampled wins", "Share found at the temperature of training."),
    "p_below_start": (
        "p below the start",
        "Probability of as few greedy wins if these weights played like the start; near zero, play has become worse.",
    ),
    "regret_per_turn": (
        "Regret per turn",
        "What a guess of greedy play gives away to the solver's best play, in expected guesses.",
    ),
    "kl_to_start": ("KL to the start", "Divergence of the policy from the model it started from, in nats per token."),
    "sampler_kl": (
        "KL of the sampler",
        "Divergence of the sampler from the policy in training, in nats per token; near zero if both compute alike.",
    ),
    "importance_ratio/mean": (
        "Importance ratio, mean",
        "Probability of a sampled token in training over its probability when it was sampled; 1 if both compute alike.",
    ),
    "importance_ratio/max": ("Importance ratio, largest", "The largest of the step's tokens."),
    "mean_token_accuracy": ("Token accuracy", "Share of the teacher's tokens the model would have chosen."),
    "grad_norm": ("Gradient norm", "Before clipping."),
    "learning_rate": ("Learning rate", "As scheduled."),
    "num_tokens": ("Tokens", "Tokens trained on since the start, prompts included."),
    "step_time": ("Seconds of a step", "Games included."),
    "resident_memory_gib": ("Memory", "Resident memory of the training process, in GiB."),
}
_STAGE_NAMES = {
    "sft": "Supervised fine-tuning",
    "grpo": "Reinforcement learning (GRPO)",
    "expert_iteration": "Expert iteration, by round",
    "dpo": "Direct preference optimization, by round",
    "distill": "Distillation, by round",
    "validation": "Choice of weights, on validation secrets",
    "blend": "Weights on the way from the start to the last step, by percent of it, on validation secrets",
}
_VALIDATION_NOTE = (
    " Validation: teacher games of the validation secrets, which are never trained on; if that curve turns back while "
    "training keeps improving, games are memorised."
)
_FAR = 20
_EXACT = {
    "cumulative_wins",
    "learning_rate",
    "num_tokens",
    "resident_memory_gib",
    "cost",
    "greedy_cost",
    "validation_cost",
}
_NOT_CURVES = {"stage", "step", "seconds", "epoch", "skipped_steps"}


def curves_of(metrics: Mapping[str, Sequence[Mapping[str, Any]]], stage: str) -> str:
    """The charts of a stage among all; empty if there is nothing to draw."""
    rows = metrics[stage]
    if stage == "blend" and (validated := metrics.get("validation")):
        # The ends of the way were validated as steps.
        rows = [{**validated[0], "step": 0}, *rows, {**validated[-1], "step": 100}]
    return curves_section(stage, rows)


def curves_section(stage: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Every metric of one stage over its steps."""
    series = _series_of(rows)
    if not series:
        return ""
    # Games that are learnt once, by the weights that played them, are never clipped.
    series = {name: s for name, s in series.items() if not name.startswith("clip_ratio/") or s.values.any()}
    found = [name for name in series if name.startswith(VALIDATED)] if stage == "sft" else []
    validated = {name.removeprefix(VALIDATED): series.pop(name) for name in found}
    rewards = [name for name in series if name.startswith("reward/")]
    by_turn = [name for name in series if name.startswith(BY_TURN)]
    passes = [name for name in series if name.startswith(PASS_AT)]
    known = [name for name in _CURVES if name in series or name in validated]
    others = sorted(
        set(series) - {*known, *rewards, *by_turn, *passes} - {n for n in series if n.startswith("seconds/")}
    )
    axis, counted = ("percent of the way", "weights") if stage == "blend" else ("step", "logged steps")
    groups = {
        "reward": _reward_charts([series[name] for name in rewards]),
        "win_rate": _turn_charts([series[name] for name in by_turn]) + _pass_charts([series[name] for name in passes]),
    }
    charts = [chart for name, group in groups.items() if name not in known for chart in group]
    for name in known + others:
        title, note = _CURVES.get(name, (name.replace("_", " ").capitalize(), ""))
        curves = [series[name]] if name in series else []
        if name in validated:
            note += _VALIDATION_NOTE
            curves = [*(_named("training", c) for c in curves), _named("validation", validated[name])]
        log = name == "loss" and _fall_far(curves)
        if log:
            note += " On a logarithmic scale."
        charts.append(
            line_chart(title, note, curves, percent=_is_rate(name), smooth=name not in _EXACT, log=log, axis=axis)
        )
        charts += groups.get(name, [])
    times = [
        (name.removeprefix("seconds/"), float(s.values.mean())) for name, s in series.items() if "seconds/" in name
    ]
    num_steps = len({row["step"] for row in rows})
    return (
        f"<section><h2>{escape(_STAGE_NAMES.get(stage, stage))}</h2>"
        f"<p>{num_steps} {counted}.{_skipped(rows)} Faint lines: each value; bold lines: running mean. "
        "Point at a curve to read its values.</p>"
        f"<div class='grid'>{''.join(charts)}</div>{time_bar('Mean seconds of a step', times)}</section>"
    )


def _fall_far(curves: Sequence[Series]) -> bool:
    """True if values lie so far apart that on an even scale their end could not be seen."""
    values = np.concatenate([curve.values for curve in curves])
    return bool(values.min() > 0 and values.max() > _FAR * values.min())


def _reward_charts(components: Sequence[Series]) -> list[str]:
    """All reward components in one chart, or in several if there are more of them than colours."""
    short = [_named(c.name.removeprefix("reward/"), c) for c in components]
    note = "Mean of each component over the games, before its weight."
    return [
        line_chart(_components_title(short), note, short[first : first + NUM_COLORS])
        for first in range(0, len(short), NUM_COLORS)
    ]


def _turn_charts(rates: Sequence[Series]) -> list[str]:
    """Win rates against the turn in one chart, or in several if there are more turns than colours."""
    note = "Share of the step's games, of those whose secret is an answer, that were won by this turn."
    turns = [_named(f"turn {rate.name.removeprefix(BY_TURN)}", rate) for rate in rates]
    return [
        line_chart("Win rate by turn", note, turns[first : first + NUM_COLORS], percent=True)
        for first in range(0, len(turns), NUM_COLORS)
    ]


def _pass_charts(passes: Sequence[Series]) -> list[str]:
    """pass@k of several k in one chart, the largest among them; none without games to choose from."""
    note = "Chance that one of k games of a group is won, unbiased; groups before refills, secrets that are answers."
    shown = [_named(f"k = {one.name.removeprefix(PASS_AT)}", one) for one in passes]
    return [line_chart("pass@k", note, shown[-NUM_COLORS:], percent=True)] if len(shown) > 1 else []


def _named(name: str, curve: Series) -> Series:
    return Series(name, curve.steps, curve.values)


def _components_title(components: Sequence[Series]) -> str:
    """A lone component has no legend to name it."""
    return "Reward components" if len(components) > 1 else f"Reward component {components[0].name}"


def _series_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Series]:
    """Finite values of each metric, in the order in which metrics first appear."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for name, value in row.items():
            if name not in _NOT_CURVES and is_number(value):
                points.setdefault(name, []).append((float(row["step"]), float(value)))
    return {name: Series(name, *np.array(found).T) for name, found in points.items()}


def _skipped(rows: Sequence[Mapping[str, Any]]) -> str:
    """A sentence about steps that changed nothing, if there were any."""
    count = sum(row.get("skipped_steps", 0) for row in rows)
    return f" <b>{count} skipped</b>: loss or gradient was not finite, and no weight was changed." if count else ""


def _is_rate(name: str) -> bool:
    return name in ("format_compliance", "agreement_rate", "rewards/accuracies") or name.endswith(
        ("win_rate", "_share", "_accuracy")
    )
