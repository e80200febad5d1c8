"""The charts of a training stage: which metrics share a chart, and what they mean, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wordle_rl.config.stages import is_stage, kind_of, stage_title
from wordle_rl.report.run_record import RunRecord
from wordle_rl.report.svg import COLORS, DASHES, Series, format_value, line_chart, series_of
from wordle_rl.runs import BY_TURN, PASS_AT, VALIDATED, is_number

Rows = Sequence[Mapping[str, Any]]

_TITLES = {
    "sft": "Supervised fine-tuning",
    "grpo": "Reinforcement learning (GRPO)",
    "expert_iteration": "Expert iteration",
    "dpo": "Direct preference optimization",
    "distill": "Distillation",
}
_PARTS = {
    "validation": "checkpoint selection, on validation secrets",
    "blend": "weights interpolated between the start and the last step, on validation secrets",
}


def title_of(name: str) -> str:
    """Return the title of a stage's part of metrics.jsonl, such as `grpo_2` or `grpo/validation`."""
    stage, _, part = name.partition("/")
    if not is_stage(stage):
        return name
    kind = kind_of(stage)
    title = f"{_TITLES[kind]}{stage.removeprefix(kind).replace('_', ' ')}"
    return f"{title}: {_PARTS.get(part, part)}" if part else title


@dataclass(frozen=True)
class Chart:
    """A chart of the page: `curves` maps metrics to the names of their curves, `percent` shows rates in percent."""

    title: str
    caption: str
    curves: Mapping[str, str]
    percent: bool = False


_TRAINING_AND_VALIDATION = (
    " Validation: teacher games of the validation secrets, which are never trained on; if that curve turns back while "
    "training goes on improving, games are memorised."
)
CHARTS = (
    Chart(
        "Wins in training",
        "Share of a step's games won, sampled at the temperature of training. Secrets that are hard for the policy may "
        "be preferred, so the curve can stay level while play improves.",
        {"win_rate": "won"},
        percent=True,
    ),
    Chart(
        "Wins by turn",
        "Share of a step's games won by this turn, of those whose secret is an answer.",
        {BY_TURN: "turn "},
        percent=True,
    ),
    Chart(
        "pass@k",
        "Chance that at least one of k games of the same secret is won (unbiased estimate, before refills). Above the "
        "win rate: the policy can win words that it does not win reliably, which is what RL can teach.",
        {PASS_AT: "k = "},
        percent=True,
    ),
    Chart(
        "Greedy wins, secrets trained on",
        "Share of all training secrets found by greedy play, measured now and then.",
        {"probe_win_rate": "won"},
        percent=True,
    ),
    Chart(
        "Wins of the candidates",
        "Share of secrets won by the weights of each step. Validation secrets are never trained on. Sampled: at the "
        "temperature of training.",
        {
            "greedy_win_rate": "validation, greedy",
            "sampled_win_rate": "validation, sampled",
            "train_win_rate": "training, greedy",
        },
        percent=True,
    ),
    Chart(
        "Cost of play",
        "Mean guesses, a loss counted as one more than the last turn: lower is better. The weights of lowest greedy "
        "cost are kept; none that cost more on validation secrets than the start.",
        {
            "cost": "validation, sampled",
            "greedy_cost": "validation and training, greedy",
            "validation_cost": "validation, greedy",
        },
    ),
    Chart(
        "p below the start",
        "How likely so few greedy wins would be if these weights played exactly as well as the start. Near zero: play "
        "has become worse, and not by chance.",
        {"p_below_start": "p"},
    ),
    Chart(
        "Regret per turn",
        "Expected guesses that greedy play gives away to the solver's best guess on the same board. 0: perfect play.",
        {"regret_per_turn": "regret"},
    ),
    Chart(
        "Reward",
        "Total reward of a step's games: their mean, and how far they lie apart (standard deviation).",
        {"reward": "mean", "reward_std": "standard deviation"},
    ),
    Chart("Reward components", "Mean of each component over a step's games, before its weight.", {"reward/": ""}),
    Chart(
        "Groups that teach nothing",
        "Share of groups whose games all earned the same. Their advantages are zero. Counted before refills.",
        {"constant_group_rate": "share"},
        percent=True,
    ),
    Chart("Guesses", "Mean guesses of a step's won games: lower is better.", {"mean_guesses": "guesses"}),
    Chart(
        "Form of the replies",
        "Share of replies that name a listed word of the right length, and share cut at the longest reply allowed.",
        {"format_compliance": "listed word", "cut_off_rate": "cut"},
        percent=True,
    ),
    Chart("Tokens of a reply", "Mean over all replies, the closing token included.", {"reply_tokens": "tokens"}),
    Chart(
        "Entropy",
        "How undecided a player is, in nats: the policy per token, the teacher at the boards it labels. When the "
        "policy's falls to zero it always plays alike, and there is nothing left to compare.",
        {"entropy": "policy", "teacher_entropy": "teacher"},
    ),
    Chart(
        "Do two halves of a step agree?",
        "Cosine between the gradients of two halves of a step's groups. Near 0 the gradient is noise, and only low "
        "rates or many games carry; near 1 fewer games a step would do.",
        {"gradient/cosine": "cosine"},
    ),
    Chart(
        "Noise scale",
        "Games at which signal and noise of the gradient are equally long. Steps of far fewer games are mostly noise.",
        {"gradient/noise_scale": "games"},
    ),
    Chart(
        "Loss",
        "What training makes smaller. For GRPO it says little: watch the wins.",
        {"loss": "training", f"{VALIDATED}loss": "validation"},
    ),
    Chart(
        "Token accuracy",
        "Share of the teacher's tokens that the model would have chosen itself.",
        {"mean_token_accuracy": "training", f"{VALIDATED}mean_token_accuracy": "validation"},
        percent=True,
    ),
    Chart(
        "Sampler against trainer (KL)",
        "Whether the sampler that plays and the trainer that learns compute the same probabilities, in nats per token. "
        "Near 0: they do. If it grows, what is learnt from is not what was played.",
        {"sampler_kl": "KL"},
    ),
    Chart(
        "Importance ratio",
        "Probability of a played token under the weights in training over its probability when it was played. 1: "
        "unchanged. Far from 1: the games come from another policy, or sampler and trainer disagree.",
        {"importance_ratio/mean": "mean", "importance_ratio/max": "largest"},
    ),
    Chart(
        "Ratios clipped",
        "Share of tokens whose importance ratio left the range in which they are still learnt from.",
        {"clip_ratio/low_mean": "too low", "clip_ratio/high_mean": "too high"},
        percent=True,
    ),
    Chart(
        "Games kept",
        "Games of a round good enough to learn from, pairs of replies that differ enough, and boards labelled.",
        {
            "kept_games": "games kept",
            "pairs": "pairs",
            "boards": "boards",
            "labels": "boards labelled",
            "new_boards": "of these new",
            "own_guesses": "own guesses",
        },
    ),
    Chart(
        "Agreement with the teacher",
        "Share of the boards reached on which the policy's guess was the teacher's.",
        {"agreement_rate": "same guess"},
        percent=True,
    ),
    Chart(
        "Pairs in order",
        "Share of pairs whose chosen reply became likelier relative to the rejected one, compared with the start.",
        {"rewards/accuracies": "in order"},
        percent=True,
    ),
    Chart(
        "Margin of the pairs",
        "How much likelier the chosen reply became than the rejected one, in nats times beta.",
        {"rewards/margins": "margin"},
    ),
    Chart("Gradient norm", "Length of the gradient before clipping. A jump: an unusual batch.", {"grad_norm": "norm"}),
)
NUMBERS = {
    "learning_rate": "learning rate",
    "num_tokens": "tokens trained on",
    "cumulative_wins": "training games won",
    "step_time": "seconds of a step",
    "resident_memory_gib": "resident memory, GiB",
}
"""Metrics without a chart; their first and last values are enough."""
_NOT_CURVES = {"step", "seconds", "epoch", "skipped_steps"}


@dataclass(frozen=True)
class Drawn:
    """A drawn chart. `legend` has each curve's name, dash pattern, colour index, and first and last bold value."""

    title: str
    caption: str
    svg: str
    legend: list[tuple[str, str, int, str]]


@dataclass(frozen=True)
class StageCurves:
    """The charts of one stage.

    Attributes:
        num_skipped: Steps that were skipped because loss or gradient was not finite.
        numbers: Metrics that never changed or have no chart: name, and value or first and last value. Of the parts of a
            step the mean seconds.
    """

    title: str
    num_steps: int
    num_skipped: int
    charts: list[Drawn]
    numbers: list[tuple[str, str]]


def stage_curves(metrics: Mapping[str, Rows], stage: str) -> StageCurves:
    """Draw the metrics of a stage."""
    rows = list(metrics[stage])
    is_blend = stage.endswith("/blend")
    if is_blend and (validated := metrics.get(f"{stage.removesuffix('blend')}validation")):
        # Both ends of the interpolation were validated as steps.
        rows = [{**validated[0], "step": 0}, *rows, {**validated[-1], "step": 100}]
    series = {name: curve for name, curve in series_of(rows).items() if name not in _NOT_CURVES}
    drawn: list[Drawn] = []
    numbers = [(said, _ends_text(series[name], percent=False)) for name, said in NUMBERS.items() if name in series]
    # Popped, so that the parts of a step get no charts below.
    numbers += [
        (f"seconds of {name.removeprefix('seconds/')}", f"{series.pop(name).values.mean():.3g}")
        for name in list(series)
        if name.startswith("seconds/")
    ]
    # Metrics of other versions and of your own come last, under their own names.
    for chart in [*CHARTS, *_unknown(series)]:
        curves = _curves_of(chart, series)
        # A level line tells no more than its value, and most settings leave several metrics constant.
        if all(curve.is_flat for curve in curves):
            for curve in curves:
                name = chart.title + (f", {curve.name}" if len(chart.curves) > 1 or _prefix(chart) else "")
                numbers.append((name, _ends_text(curve, chart.percent)))
            continue
        drawn += [
            draw(chart, curves[first : first + len(COLORS)], "percent of the way" if is_blend else _unit(stage))
            # A chart has as many curves as there are colours to tell apart; the rest get another one.
            for first in range(0, len(curves), len(COLORS))
        ]
    num_skipped = int(sum(row.get("skipped_steps", 0) for row in rows))
    return StageCurves(title_of(stage), len({row["step"] for row in rows}), num_skipped, drawn, numbers)


def _unit(stage: str) -> str:
    name = stage.partition("/")[0]
    return "round" if is_stage(name) and kind_of(name) not in ("sft", "grpo") else "step"


def draw(chart: Chart, curves: Sequence[Series], axis: str = "step", size: tuple[int, int] = (340, 190)) -> Drawn:
    """Draw a chart."""
    caption = chart.caption
    if any(curve.name == "validation" for curve in curves):
        caption += _TRAINING_AND_VALIDATION
    legend = [
        (curve.name, " ".join(map(str, DASHES[place])), place, _ends_text(curve, chart.percent))
        for place, curve in enumerate(curves)
    ]
    summary = "; ".join(
        f"{name} {ends} from {axis} {curve.steps[0]:g} to {curve.steps[-1]:g}"
        for (name, _, _, ends), curve in zip(legend, curves, strict=True)
    )
    svg = line_chart(f"{chart.title}: {summary}", curves, percent=chart.percent, axis=axis, size=size)
    return Drawn(chart.title, caption, svg, legend)


_PLAYED = {"win_rate": "{how}", "sampled_win_rate": "validation, {how}", "greedy_win_rate": "validation, greedy"}
"""Metrics of wins -> the name of their curve after that of the stage."""


def curves_of_play(run: RunRecord) -> list[Series]:
    """Return wins over the games played by all stages that learn by play, a curve for each stage and way of playing.

    Games of a step or round: groups times the size of a group. Refills and probes are not counted.
    """
    curves: list[Series] = []
    before = 0.0
    for stage in [name for name in run.stages if kind_of(name) != "sft" and name in run.metrics]:
        asked = run.config.get(stage, {})
        groups = asked.get("groups_per_step", asked.get("groups_per_round", 1))
        size = groups * asked.get("group_size", 1)
        how = f"T = {asked['temperature']:g}" if is_number(asked.get("temperature")) else "sampled"
        found = series_of(run.metrics[stage]) | series_of(run.metrics.get(f"{stage}/validation", ()))
        for name, said in _PLAYED.items():
            if name in found:
                label = f"{stage_title(stage)}, {said.format(how=how)}"
                curves.append(Series(label, before + size * found[name].steps, found[name].values))
        before += size * max(row["step"] for row in run.metrics[stage])
    return curves


def _ends_text(curve: Series, percent: bool) -> str:
    # First and last value of the bold line; one value if it is flat.
    first, last = (format_value(float(curve.bold[end]), percent) for end in (0, -1))
    return first if curve.is_flat else f"{first} → {last}"


def _curves_of(chart: Chart, series: Mapping[str, Series]) -> list[Series]:
    prefix = _prefix(chart)
    if prefix:
        named = {name: chart.curves[prefix] + name.removeprefix(prefix) for name in series if name.startswith(prefix)}
        # pass@1 alone is the win rate, which has its chart.
        if prefix == PASS_AT and len(named) < 2:
            return []
    else:
        named = {name: said for name, said in chart.curves.items() if name in series}
    return [Series(said, series[name].steps, series[name].values) for name, said in named.items()]


def _prefix(chart: Chart) -> str:
    return next((name for name in chart.curves if name.endswith("/")), "")


def _unknown(series: Mapping[str, Series]) -> list[Chart]:
    known = {*NUMBERS, *(name for chart in CHARTS for name in chart.curves)}
    # A family such as `pass_at/` grows with the group size, so its names are not listed.
    prefixes = tuple(name for name in known if name.endswith("/"))
    return [
        Chart(name.replace("_", " ").capitalize(), f"As logged: {name}.", {name: name}, percent=name.endswith("_rate"))
        for name in series
        if name not in known and not name.startswith(prefixes)
    ]
