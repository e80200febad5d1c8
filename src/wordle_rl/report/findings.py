"""What the curves of a run say: known reasons why a training does not learn, each with the numbers that show it.

A check reads a few columns of a stage's rows in metrics.jsonl, or its games, and is silent where they are missing. Most
compare the first fifth of the rows with the last. Thresholds are wide, so that a run that learns is left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from wordle_rl.config.stages import is_stage, kind_of, stage_title
from wordle_rl.report.run_record import RunRecord
from wordle_rl.runs import is_number

PAGE = "docs/flat-curve.md"
FEWEST_ROWS = 5
"""Below, a fifth of the rows is empty, and it is too early to tell."""
FEWEST_GUESSES = 40
"""Guesses in each half of the games, to count favourite words."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """A pattern in a stage of a run: its name, where and by which numbers it shows, and what it means."""

    stage: str
    pattern: str
    evidence: str
    meaning: str

    @property
    def page(self) -> str:
        """The section of the documentation that mends it."""
        return f"{PAGE}#{self.pattern.replace(' ', '-')}"


@dataclass(frozen=True, slots=True)
class Curves:
    """What is known of a stage: rows of its steps or rounds, of its validations, its games, and the step it kept.

    `kept_step` is None without checkpoint selection.
    """

    rows: Sequence[Row]
    validations: Sequence[Row]
    games: Sequence[Row]
    kept_step: int | None

    def ends(self, *names: str) -> tuple[list[Row], list[Row]] | None:
        """Return the first and the last fifth of the rows with all these numbers; None if there are too few."""
        rows = [row for row in self.rows if all(is_number(row.get(name)) for name in names)]
        size = len(rows) // 5
        return (rows[:size], rows[-size:]) if len(rows) >= FEWEST_ROWS else None


def findings_of(run: RunRecord) -> list[Finding]:
    """Check each stage of a run that learnt by play for all patterns, in the order in which to mend them."""
    found = []
    for stage in _played(run):
        curves = _curves_of(run, stage)
        for pattern, (check, meaning) in PATTERNS.items():
            evidence = check(curves)
            if evidence:
                found.append(Finding(stage, pattern, evidence, meaning))
    return found


def told_in_lines(run: RunRecord, found: Sequence[Finding]) -> Iterator[str]:
    """Say in lines for a terminal what was found, or that nothing was; silent about a run that never played."""
    for finding in found:
        title = stage_title(finding.stage)
        yield f"{title}: {finding.pattern}. {finding.meaning} {finding.evidence}. How to mend it: {finding.page}"
    seen = [stage for stage in _played(run) if len(run.metrics[stage]) >= FEWEST_ROWS]
    if seen and not found:
        yield f"The curves of {', '.join(map(stage_title, seen))} show none of {len(PATTERNS)} known faults ({PAGE})."


def _played(run: RunRecord) -> list[str]:
    return [stage for stage in run.stages if stage in run.metrics and is_stage(stage) and kind_of(stage) != "sft"]


def _curves_of(run: RunRecord, stage: str) -> Curves:
    step = run.chosen.get(stage, {}).get("step")
    return Curves(
        run.metrics[stage],
        run.metrics.get(f"{stage}/validation", ()),
        [game for game in run.games if game.get("stage") == stage],
        int(step) if is_number(step) else None,
    )


# --- the checks: each returns the numbers that show its pattern, or None --------------------------------------------


def _mean(rows: Sequence[Row], name: str) -> float:
    return fmean(row[name] for row in rows)


def _at(row: Row, *told: str) -> str:
    return f"metrics.jsonl, step {row['step']:g}: {', '.join(told)}"


def _steps_not_finite(curves: Curves) -> str | None:
    # A single bad step is skipped and forgotten; one in twenty means that the training is unstable.
    bad = [row for row in curves.rows if row.get("skipped_steps") or "loss" in row.get("not_finite", ())]
    if len(bad) < max(2, len(curves.rows) / 20):
        return None
    return _at(bad[-1], f"loss or gradient not finite, as in {len(bad)} of {len(curves.rows)} rows")


def _constant_groups(curves: Curves) -> str | None:
    ends = curves.ends("constant_group_rate")
    if ends is None or _mean(ends[1], "constant_group_rate") < 0.75:
        return None
    worst = max(ends[1], key=lambda row: row["constant_group_rate"])
    wins = worst.get("win_rate")
    also = [f"win_rate {wins:.2f}"] if is_number(wins) else []
    return _at(worst, f"constant_group_rate {worst['constant_group_rate']:.2f}", *also)


def _format_drift(curves: Curves) -> str | None:
    # Against the best fifth, not the first: a form may be learnt and then lost.
    ends = curves.ends("format_compliance")
    if ends is None:
        return None
    rows = [row for row in curves.rows if is_number(row.get("format_compliance"))]
    size = len(rows) // 5
    best = max(_mean(rows[at : at + size], "format_compliance") for at in range(0, len(rows) - size + 1, size))
    if best - _mean(ends[1], "format_compliance") < 0.1:
        return None
    worst = min(ends[1], key=lambda row: row["format_compliance"])
    return _at(worst, f"format_compliance {worst['format_compliance']:.2f}, {best:.2f} at its best")


def _entropy_collapse(curves: Curves) -> str | None:
    # Where nearly every game is won, little entropy is what one wants.
    ends = curves.ends("entropy", "win_rate")
    if ends is None:
        return None
    first, last = (_mean(rows, "entropy") for rows in ends)
    if last > first / 10 or _mean(ends[1], "win_rate") > 0.95:
        return None
    lowest = min(ends[1], key=lambda row: row["entropy"])
    told = f"entropy {lowest['entropy']:.2g} nats a token, {first:.2g} in the first steps"
    return _at(lowest, told, f"win_rate {lowest['win_rate']:.2f}")


def _sampler_mismatch(curves: Curves) -> str | None:
    # With the same weights, other kernels move the mean ratio by 0.01 at most. A sampler with top_p 0.8 gives a mean
    # ratio of 0.9, the probability that it kept.
    ends = curves.ends("importance_ratio/mean", "sampler_kl")
    if ends is None:
        return None
    if abs(_mean(ends[1], "importance_ratio/mean") - 1) < 0.05 and _mean(ends[1], "sampler_kl") < 0.02:
        return None
    worst = max(ends[1], key=lambda row: row["sampler_kl"])
    return _at(worst, *(f"{name} {worst[name]:.3f}" for name in ("importance_ratio/mean", "sampler_kl")))


def _replies_growing(curves: Curves) -> str | None:
    # They grow by half without more wins, or are cut at their limit more often.
    ends = curves.ends("reply_tokens", "win_rate")
    if ends is None:
        return None
    (first, last), (before, now) = ([_mean(rows, name) for rows in ends] for name in ("reply_tokens", "win_rate"))
    cut_before, cut_now = (fmean(row.get("cut_off_rate", 0.0) for row in rows) for rows in ends)
    if not (cut_now - cut_before > 0.05 or (last > 1.5 * first and now < before + 0.05)):
        return None
    longest = max(ends[1], key=lambda row: row["reply_tokens"])
    told = f"reply_tokens {longest['reply_tokens']:.0f}, {first:.0f} in the first steps"
    return _at(longest, told, f"{cut_now:.0%} cut at the limit")


def _few_safe_words(curves: Curves) -> str | None:
    # Five words make up half of all guesses after the opener, and did not before. (Good play has one opener.)
    later: list[str] = []
    for game in curves.games:
        later += [turn["guess"] for turn in game["turns"][1:] if turn.get("guess")]
    half = len(later) // 2
    if half < FEWEST_GUESSES:
        return None
    common = [Counter(guesses).most_common(5) for guesses in (later[:half], later[-half:])]
    before, now = (sum(count for _, count in words) / half for words in common)
    if now < 0.5 or now < before + 0.2:
        return None
    words = ", ".join(word for word, _ in common[1])
    return f"games.jsonl, second half: {words} are {now:.0%} of the guesses after the first, {before:.0%} before"


def _noise(curves: Curves) -> str | None:
    # A small cosine alone is no fault: many small steps of mostly noise still add up.
    ends, measured = curves.ends("win_rate"), curves.ends("gradient/cosine")
    if ends is None or measured is None:
        return None
    cosines = [row["gradient/cosine"] for row in curves.rows if is_number(row.get("gradient/cosine"))]
    if fmean(cosines) > 0.03 or _mean(ends[1], "win_rate") > _mean(ends[0], "win_rate") + 0.02:
        return None
    last = measured[1][-1]
    told = f"gradient/cosine {last['gradient/cosine']:.3f}, {fmean(cosines):.3f} on average"
    return _at(last, told, f"win_rate {_mean(ends[1], 'win_rate'):.2f}, {_mean(ends[0], 'win_rate'):.2f} at first")


def _start_better(curves: Curves) -> str | None:
    # Greedy play of validation secrets is significantly worse than the start's, or selection kept the start.
    rows = [row for row in curves.validations if is_number(row.get("greedy_win_rate"))]
    if len(rows) < 2:
        return None
    start, last = rows[0], rows[-1]
    if curves.kept_step != 0 and last.get("p_below_start", 1.0) >= 0.05:
        return None
    kept = ["the start's weights were kept"] if curves.kept_step == 0 else []
    told = f"greedy_win_rate {last['greedy_win_rate']:.3f}, {start['greedy_win_rate']:.3f} at the start"
    return _at(last, told, *kept)


PATTERNS: dict[str, tuple[Callable[[Curves], str | None], str]] = {
    "steps not finite": (
        _steps_not_finite,
        "Such steps change no weight: the rate is too high, or the precision too low.",
    ),
    "groups that teach nothing": (
        _constant_groups,
        "All games of most groups earn the same: no advantage, no gradient.",
    ),
    "format drift": (_format_drift, "Replies leave the form that the game can read."),
    "entropy collapse": (_entropy_collapse, "The policy says the same in every game, and games are still lost."),
    "sampler mismatch": (
        _sampler_mismatch,
        "The games are played by another policy than the one that learns: other weights, temperature, top_p or dtype.",
    ),
    "replies growing": (_replies_growing, "Replies grow and wins do not; soon they are cut and earn nothing."),
    "few safe words": (_few_safe_words, "The same words are played whatever the marks say: the reward pays for it."),
    "noise of the gradient": (_noise, "Two halves of a step hardly agree on a direction, and wins do not rise."),
    "start better than end": (
        _start_better,
        "Greedy play of validation words became worse: steps too large, or a reward that teaches something else.",
    ),
}
"""Check and meaning of each pattern, in the order in which to mend them."""
