"""Find known reasons why a training does not learn in the records of a run.

Each check reads a few columns of metrics.jsonl, or games.jsonl, and is silent if they are missing. Most compare the
first fifth of the steps with the last. Thresholds are wide, so a run that learns raises no alarm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from wordle_rl.report.run_record import ReportError
from wordle_rl.runs import CHOICE_FILE, is_number, read_jsonl, read_object

PAGE = "docs/guides/troubleshooting.md"
STAGES = ("grpo", "expert_iteration", "dpo", "distill")
FEWEST_STEPS = 5  # below, a fifth of them is empty
FEWEST_GUESSES = 40  # in a half of the games, to count favourite words


class Row(NamedTuple):
    """A line of a file with its number, from 1."""

    line: int
    values: dict[str, Any]

    def has(self, *names: str) -> bool:
        """True if all of these are numbers."""
        return all(is_number(self.values.get(name)) for name in names)


@dataclass(frozen=True, slots=True)
class Finding:
    """A pattern that a run shows: its name, a line of a file with the numbers, and what goes wrong."""

    pattern: str
    evidence: str
    meaning: str

    @property
    def page(self) -> str:
        """The section of the documentation with the fix."""
        return f"{PAGE}#{self.pattern.replace(' ', '-')}"


@dataclass(frozen=True, slots=True)
class Records:
    """What the checks read: rows of metrics.jsonl (RL stage, validations) and of games.jsonl, in order.

    `kept_step` is the step of the selected checkpoint; None without selection.
    """

    steps: Sequence[Row]
    validations: Sequence[Row]
    games: Sequence[Row]
    kept_step: int | None

    def ends(self, *names: str) -> tuple[list[Row], list[Row]] | None:
        """Return the first and the last fifth of the steps with these numbers; None if there are too few."""
        rows = [row for row in self.steps if row.has(*names)]
        size = len(rows) // 5
        return (rows[:size], rows[-size:]) if len(rows) >= FEWEST_STEPS else None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings about a run, its stage, and the number of steps."""

    stage: str
    num_steps: int
    findings: tuple[Finding, ...]


def diagnose(run_dir: Path) -> Diagnosis:
    """Check a run for all patterns."""
    if not run_dir.is_dir():
        raise ReportError(f"no run directory {run_dir}; give one that `wordle-rl run` wrote")
    rows = _rows(run_dir / "metrics.jsonl")
    stage = next((name for name in STAGES if any(row.values.get("stage") == name for row in rows)), "")
    if not stage:
        raise ReportError(f"{run_dir} has no steps of RL in metrics.jsonl yet; name a run that has played")
    choice = run_dir / stage / CHOICE_FILE
    records = Records(
        [row for row in rows if row.values.get("stage") == stage],
        [row for row in rows if row.values.get("stage") == "validation"],
        [row for row in _rows(run_dir / "games.jsonl") if row.values.get("stage") == stage],
        int(read_object(choice)["step"]) if choice.is_file() else None,
    )
    found = ((pattern, check(records), meaning) for pattern, (check, meaning) in CHECKS.items())
    findings = tuple(Finding(pattern, evidence, meaning) for pattern, evidence, meaning in found if evidence)
    return Diagnosis(stage, len(records.steps), findings)


def _rows(path: Path) -> list[Row]:
    return [Row(*numbered) for numbered in enumerate(read_jsonl(path), start=1)] if path.is_file() else []


def _mean(rows: Sequence[Row], name: str) -> float:
    return fmean(row.values[name] for row in rows)


def _evidence(row: Row, *told: str, file: str = "metrics.jsonl") -> str:
    return f"{file}:{row.line} step {row.values['step']}: {', '.join(told)}"


def _steps_not_finite(records: Records) -> str | None:
    # A single bad step is skipped and forgotten; one in twenty means that the training is unstable.
    bad = [
        row for row in records.steps if row.values.get("skipped_steps") or "loss" in row.values.get("not_finite", ())
    ]
    if len(bad) < max(2, len(records.steps) / 20):
        return None
    return _evidence(bad[-1], f"loss or gradient not finite, as in {len(bad)} of {len(records.steps)} rows")


def _dead_groups(records: Records) -> str | None:
    # Groups whose games all earn the same have zero advantages. The metric is about the first draw of a step: groups
    # that were redrawn have been played for nothing, too.
    ends = records.ends("zero_variance_share")
    if ends is None or _mean(ends[1], "zero_variance_share") < 0.75:
        return None
    worst = max(ends[1], key=lambda row: row.values["zero_variance_share"])
    wins = worst.values.get("win_rate")
    also = [f"win_rate {wins:.2f}"] if is_number(wins) else []
    return _evidence(worst, f"zero_variance_share {worst.values['zero_variance_share']:.2f}", *also)


def _format_drift(records: Records) -> str | None:
    # Once no reply in any group gets marks, nothing pulls the policy back.
    ends = records.ends("format_compliance")
    if ends is None:
        return None
    rows = [row for row in records.steps if row.has("format_compliance")]
    size = len(rows) // 5
    best = max(_mean(rows[i : i + size], "format_compliance") for i in range(0, len(rows) - size + 1, size))
    if best - _mean(ends[1], "format_compliance") < 0.1:
        return None
    worst = min(ends[1], key=lambda row: row.values["format_compliance"])
    return _evidence(worst, f"format_compliance {worst.values['format_compliance']:.2f}", f"{best:.2f} at its best")


def _entropy_collapse(records: Records) -> str | None:
    # A tenth of the entropy is left although games are still lost: without exploration nothing better is found.
    ends = records.ends("entropy", "win_rate")
    if ends is None:
        return None
    first, last = (_mean(rows, "entropy") for rows in ends)
    if last > first / 10 or _mean(ends[1], "win_rate") > 0.95:
        return None
    lowest = min(ends[1], key=lambda row: row.values["entropy"])
    told = f"entropy {lowest.values['entropy']:.2g} nats per token", f"{first:.2g} in the first steps"
    return _evidence(lowest, *told, f"win_rate {lowest.values['win_rate']:.2f}")


def _sampler_mismatch(records: Records) -> str | None:
    # With the same weights, other kernels change the mean ratio by 0.01 at most. A sampler with top_p 0.8 gives a mean
    # ratio of 0.9, the probability mass it kept.
    ends = records.ends("importance_ratio/mean", "sampler_kl")
    if ends is None:
        return None
    ratio, divergence = _mean(ends[1], "importance_ratio/mean"), _mean(ends[1], "sampler_kl")
    if abs(ratio - 1) < 0.05 and divergence < 0.02:
        return None
    worst = max(ends[1], key=lambda row: row.values["sampler_kl"])
    told = (f"{name} {worst.values[name]:.3f}" for name in ("importance_ratio/mean", "sampler_kl"))
    return _evidence(worst, *told)


def _replies_growing(records: Records) -> str | None:
    # Replies grow by half without more wins, or are cut at their limit more often.
    ends = records.ends("reply_tokens", "win_rate")
    if ends is None:
        return None
    (first, last), (before, now) = ([_mean(rows, name) for rows in ends] for name in ("reply_tokens", "win_rate"))
    cut_first, cut_last = (fmean(row.values.get("overlong_share", 0.0) for row in rows) for rows in ends)
    if not (cut_last - cut_first > 0.05 or (last > 1.5 * first and now < before + 0.05)):
        return None
    longest = max(ends[1], key=lambda row: row.values["reply_tokens"])
    told = f"reply_tokens {longest.values['reply_tokens']:.0f}", f"{first:.0f} in the first steps"
    return _evidence(longest, *told, f"{cut_last:.0%} cut at the limit")


def _few_safe_words(records: Records) -> str | None:
    # Five words make up half of all guesses after the opener, and did not before. (Good play always has one opener.)
    later: list[tuple[Row, str]] = []
    for row in records.games:
        own = [turn.get("guess") for turn in row.values.get("turns", ())][1:]
        later += [(row, guess) for guess in own if guess]
    half = len(later) // 2
    if half < FEWEST_GUESSES:
        return None
    shares, favourites = [], ""
    for guesses in (later[:half], later[half:]):
        common = Counter(guess for _, guess in guesses).most_common(5)
        shares.append(sum(count for _, count in common) / len(guesses))
        favourites = ", ".join(word for word, _ in common)
    if shares[1] < 0.5 or shares[1] < shares[0] + 0.2:
        return None
    return _evidence(
        later[-1][0],
        f"{favourites} are {shares[1]:.0%} of the guesses after the first, {shares[0]:.0%} before",
        file="games.jsonl",
    )


def _start_better(records: Records) -> str | None:
    # Greedy play on validation secrets is significantly worse than the start, or selection kept the start.
    rows = [row for row in records.validations if row.has("greedy_win_rate")]
    if len(rows) < 2:
        return None
    start, last = rows[0], rows[-1]
    if records.kept_step != 0 and last.values.get("p_below_start", 1.0) >= 0.05:
        return None
    told = (
        f"greedy_win_rate {last.values['greedy_win_rate']:.3f}",
        f"{start.values['greedy_win_rate']:.3f} at the start",
    )
    kept = ["the start's weights were kept"] if records.kept_step == 0 else []
    return _evidence(last, *told, *kept)


CHECKS: dict[str, tuple[Callable[[Records], str | None], str]] = {
    "steps not finite": (
        _steps_not_finite,
        "Such steps change no weight. The rate is too high, or the precision too low.",
    ),
    "groups that teach nothing": (
        _dead_groups,
        "Most groups have one reward for all their games: no advantage, no gradient.",
    ),
    "format drift": (_format_drift, "Training pulls replies away from the form that the game can read."),
    "entropy collapse": (
        _entropy_collapse,
        "The policy says the same in every game, so games of a group no longer differ.",
    ),
    "sampler mismatch": (
        _sampler_mismatch,
        "The engine samples from another policy than the one in training: other weights, temperature, top_p or dtype.",
    ),
    "replies growing": (_replies_growing, "Replies grow but wins do not; soon replies are cut and earn nothing."),
    "few safe words": (
        _few_safe_words,
        "The policy plays the same words whatever the marks say: the reward pays for being safe.",
    ),
    "start better than end": (
        _start_better,
        "Greedy play became worse: the steps are too large, or the rewards teach something else.",
    ),
}
"""Check and meaning of every pattern, in the order in which to fix them."""


def lines_of(diagnosis: Diagnosis) -> Iterator[str]:
    """Format a diagnosis for a terminal."""
    seen = f"{diagnosis.num_steps} {'rounds' if diagnosis.stage != 'grpo' else 'steps'} of {diagnosis.stage}"
    if not diagnosis.findings:
        if diagnosis.num_steps < FEWEST_STEPS:
            yield f"too early to tell: {seen} so far, and most patterns show from {FEWEST_STEPS} on"
        else:
            yield f"healthy: none of {len(CHECKS)} patterns in {seen}"
        return
    yield f"{len(diagnosis.findings)} of {len(CHECKS)} patterns in {seen}:"
    for finding in diagnosis.findings:
        yield ""
        yield finding.pattern
        yield from (f"  {text}" for text in (finding.evidence, finding.meaning, finding.page))
