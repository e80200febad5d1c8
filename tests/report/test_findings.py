"""Laws of what the curves say: a planted pattern is found and named, and a healthy run is left alone."""

import json
import random
from collections.abc import Sequence
from html import escape
from pathlib import Path

import pytest
from report_runs import write_lines

from wordle_rl.report import read_run
from wordle_rl.report.findings import PATTERNS, Curves, findings_of, told_in_lines
from wordle_rl.report.page import render
from wordle_rl.runs import CHOICE_FILE

STEPS = 40
WORDS = ("crane", "slate", "moist", "build", "horde", "pulpy", "fjord", "light", "stone", "vivid", "amaze", "ocean")


def healthy(step: int) -> dict[str, float]:
    """A step of a training that learns, with the noise that any has."""
    way, noise = step / STEPS, random.Random(step).uniform(-0.02, 0.02)
    return {
        "loss": noise,
        "win_rate": 0.3 + 0.4 * way + noise,
        "constant_group_rate": 0.2 + 0.2 * way + noise,
        "format_compliance": min(1.0, 0.97 + noise),
        "entropy": 0.3 - 0.2 * way + noise,
        "importance_ratio/mean": 1.0 + noise / 10,
        "sampler_kl": 1e-3,
        "reply_tokens": 60.0 + 25 * way,
        "cut_off_rate": 0.01,
        "gradient/cosine": 0.02 + noise,
    }


def ramp(first: float, last: float):
    """A column that goes from one value to another."""
    return lambda step: first + (last - first) * step / STEPS


def make_run(where: Path, columns: dict | None = None, *, guesses=lambda step, rng: rng.choice(WORDS), end=0.6) -> Path:
    """A run whose columns are the healthy ones, but for some."""
    where.mkdir()
    (where / "config.json").write_text(json.dumps({"stages": ["sft", "grpo"]}))
    rows = [
        {"stage": "grpo", "step": step, **healthy(step), **{name: of(step) for name, of in (columns or {}).items()}}
        for step in range(1, STEPS + 1)
    ]
    rows += [{"stage": "sft", "step": step, "loss": 1.0} for step in range(STEPS)]
    for step, rate, p in ((0, 0.4, 1.0), (STEPS, end, 0.001 if end < 0.3 else 1.0)):
        rows.append({"stage": "grpo/validation", "step": step, "greedy_win_rate": rate, "p_below_start": p})
    write_lines(where / "metrics.jsonl", rows)
    rng = random.Random(0)
    played = [[{"guess": "slate"}, *({"guess": guesses(step, rng)} for _ in range(3))] for step in range(STEPS)]
    games = [
        {"stage": "grpo", "step": step, "secret": "crane", "turns_used": 4, "turns": turns}
        for step, turns in enumerate(played)
    ]
    write_lines(where / "games.jsonl", games)
    return where


PLANTED = {
    "steps not finite": {"columns": {"not_finite": lambda step: ["loss"] if step % 8 == 0 else []}},
    "groups that teach nothing": {"columns": {"constant_group_rate": ramp(0.3, 1.0)}},
    "format drift": {"columns": {"format_compliance": ramp(0.98, 0.6)}},
    "entropy collapse": {"columns": {"entropy": lambda step: 0.3 * 0.8**step}},
    "sampler mismatch": {"columns": {"importance_ratio/mean": lambda _: 0.896, "sampler_kl": lambda _: 0.0058}},
    "replies growing": {
        "columns": {"reply_tokens": ramp(60, 400), "win_rate": lambda _: 0.3, "gradient/cosine": lambda _: 0.3}
    },
    "few safe words": {"guesses": lambda step, rng: rng.choice(WORDS[:3] if step > 15 else WORDS)},
    "noise of the gradient": {"columns": {"win_rate": lambda _: 0.3}},
    "start better than end": {"end": 0.2},
}


def test_a_healthy_run_is_called_so(tmp_path: Path) -> None:
    assert list(PLANTED) == list(PATTERNS)
    run = read_run(make_run(tmp_path / "run"))
    assert findings_of(run) == []
    [line] = told_in_lines(run, [])
    assert line.startswith("The curves of GRPO show none of 9 known faults")


@pytest.mark.parametrize("pattern", PLANTED)
def test_a_planted_pattern_is_the_one_finding_and_its_numbers_show_it(tmp_path: Path, pattern: str) -> None:
    run = read_run(make_run(tmp_path / "run", **PLANTED[pattern]))
    [finding] = findings_of(run)
    assert (finding.stage, finding.pattern) == ("grpo", pattern)
    place, _, numbers = finding.evidence.partition(": ")
    if place.startswith("metrics.jsonl"):
        rows = run.metrics["grpo/validation" if pattern.startswith("start") else "grpo"]
        [row] = [row for row in rows if row["step"] == int(place.split("step ")[1])]
        if pattern == "steps not finite":
            assert row["not_finite"] == ["loss"]
        else:
            name, value = numbers.split()[:2]
            assert float(value.rstrip(",")) == pytest.approx(row[name], rel=0.05)
    [line] = told_in_lines(run, [finding])
    assert finding.evidence in line
    assert f"<li>{escape(line)}</li>" in render(run)
    assert finding.page == f"docs/flat-curve.md#{pattern.replace(' ', '-')}"


def curves(
    count: int = 10, *, guesses: Sequence[str] = (), p: float = 1.0, kept: int | None = None, **columns: Sequence
) -> Curves:
    """Curves of so many steps, of which each value of a column fills an equal part.

    `guesses` are those of one game each, after an opener that is always the same; `p` is that of the last validation.
    """
    rows = [
        {"step": at, **{name: parts[at * len(parts) // count] for name, parts in columns.items()}}
        for at in range(count)
    ]
    games = [{"turns": [{"guess": "slate"}, {"guess": guess}]} for guess in guesses]
    validations = [{"step": at, "greedy_win_rate": 0.5, "p_below_start": p} for at in (0, count)]
    return Curves(rows, validations, games, kept)


def said(*counts: int) -> list[str]:
    """Forty guesses: words that are said so often, and others that are said once."""
    often = [word for word, count in zip(WORDS, counts, strict=False) for _ in range(count)]
    return often + [f"other{number}" for number in range(40 - len(often))]


def bad(number: int, count: int) -> dict:
    return {"count": count, "skipped_steps": [1] * number + [0] * (count - number)}


ALIKE = {"importance_ratio/mean": [1.0], "sampler_kl": [0.0]}
STEADY = {"win_rate": [0.5], "reply_tokens": [100.0, 100.0], "cut_off_rate": [0.0]}
NOISY = {"win_rate": [0.5], "gradient/cosine": [0.0]}
THRESHOLDS = [
    ("steps not finite", bad(2, 40), bad(1, 40)),
    ("steps not finite", bad(3, 60), bad(2, 60)),  # one in twenty
    ("steps not finite", bad(2, 10), bad(1, 10)),  # but one alone is forgotten
    ("groups that teach nothing", {"constant_group_rate": [0.0, 0.75]}, {"constant_group_rate": [1.0, 0.74]}),
    (
        "groups that teach nothing",
        {"count": 5, "constant_group_rate": [1.0]},
        {"count": 4, "constant_group_rate": [1.0]},
    ),
    ("format drift", {"format_compliance": [0.1, 0.0]}, {"format_compliance": [0.1, 0.001]}),
    (
        "format drift",
        {"format_compliance": [0.5, 0.9, 0.9, 0.9, 0.5]},
        {"format_compliance": [0.5, 0.5, 0.5, 0.5, 0.9]},
    ),
    ("entropy collapse", {"entropy": [1.0, 0.1], "win_rate": [0.95]}, {"entropy": [1.0, 0.101], "win_rate": [0.95]}),
    ("entropy collapse", {"entropy": [1.0, 0.1], "win_rate": [0.95]}, {"entropy": [1.0, 0.1], "win_rate": [0.951]}),
    ("sampler mismatch", ALIKE | {"importance_ratio/mean": [1.05]}, ALIKE | {"importance_ratio/mean": [1.049]}),
    ("sampler mismatch", ALIKE | {"importance_ratio/mean": [0.95]}, ALIKE | {"importance_ratio/mean": [0.951]}),
    ("sampler mismatch", ALIKE | {"sampler_kl": [0.02]}, ALIKE | {"sampler_kl": [0.019]}),
    ("replies growing", STEADY | {"cut_off_rate": [0.0, 0.051]}, STEADY | {"cut_off_rate": [0.0, 0.05]}),
    ("replies growing", STEADY | {"reply_tokens": [100.0, 151.0]}, STEADY | {"reply_tokens": [100.0, 150.0]}),
    (
        "replies growing",
        {"reply_tokens": [100.0, 151.0], "win_rate": [0.0, 0.049]},
        {"reply_tokens": [100.0, 151.0], "win_rate": [0.0, 0.05]},
    ),
    ("few safe words", {"guesses": said() + said(4, 4, 4, 4, 4)}, {"guesses": said() + said(4, 4, 4, 4, 3)}),
    ("few safe words", {"guesses": said(16) + said(24)}, {"guesses": said(16) + said(23)}),
    ("few safe words", {"guesses": said() + said(40)}, {"guesses": said()[1:] + said(40)[1:]}),
    ("noise of the gradient", NOISY | {"gradient/cosine": [0.06, 0.0]}, NOISY | {"gradient/cosine": [0.062, 0.0]}),
    ("noise of the gradient", NOISY | {"win_rate": [0.0, 0.02]}, NOISY | {"win_rate": [0.0, 0.021]}),
    ("start better than end", {"p": 0.049}, {"p": 0.05}),
    ("start better than end", {"kept": 0}, {"kept": 1}),
]
"""A pattern, curves that just show it, and curves that just do not."""


@pytest.mark.parametrize(("pattern", "there", "not_yet"), THRESHOLDS)
def test_a_pattern_begins_at_its_threshold(pattern: str, there: dict, not_yet: dict) -> None:
    check, _ = PATTERNS[pattern]
    assert check(curves(**there)) is not None
    assert check(curves(**not_yet)) is None


@pytest.mark.parametrize(
    "columns",
    [
        {"entropy": lambda step: 0.3 * 0.8**step, "win_rate": lambda step: min(0.99, step / 10)},
        {"reply_tokens": ramp(60, 400)},
        {"gradient/cosine": lambda _: 0.0},
    ],
    ids=["wins everything without entropy", "longer replies that win more", "noise that adds up"],
)
def test_what_looks_like_a_pattern_is_no_fault(tmp_path: Path, columns: dict) -> None:
    assert findings_of(read_run(make_run(tmp_path / "run", columns))) == []


def test_weights_of_the_start_that_were_kept_are_a_finding(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", end=0.4)
    (run / "grpo").mkdir()
    (run / "grpo" / CHOICE_FILE).write_text(json.dumps({"step": 0, "alpha": 1.0}))
    assert [finding.pattern for finding in findings_of(read_run(run))] == ["start better than end"]


def test_a_run_that_has_not_played_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"stages": ["sft"]}))
    write_lines(tmp_path / "metrics.jsonl", [{"stage": "sft", "step": step, "loss": 2.0} for step in range(STEPS)])
    run = read_run(tmp_path)
    assert findings_of(run) == []
    assert list(told_in_lines(run, [])) == []
