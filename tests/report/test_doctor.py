"""Laws of the diagnosis: each pattern is named in a run that was planted with it, and a healthy run is left alone."""

import json
import random
import re
from pathlib import Path

import pytest
from report_runs import write_lines

from wordle_rl.report import ReportError
from wordle_rl.report.doctor import CHECKS, PAGE, diagnose, lines_of
from wordle_rl.runs import CHOICE_FILE

ROOT = Path(__file__).resolve().parents[2]
STEPS = 40
WORDS = ("crane", "slate", "moist", "build", "horde", "pulpy", "fjord", "light", "stone", "vivid", "amaze", "ocean")


def healthy(step: int) -> dict[str, float]:
    """A step of a training that learns, with the noise that any has."""
    way, noise = step / STEPS, random.Random(step).uniform(-0.02, 0.02)
    return {
        "loss": noise,
        "win_rate": 0.3 + 0.4 * way + noise,
        "zero_variance_share": 0.2 + 0.2 * way + noise,
        "format_compliance": min(1.0, 0.97 + noise),
        "entropy": 0.3 - 0.2 * way + noise,
        "importance_ratio/mean": 1.0 + noise / 10,
        "sampler_kl": 1e-3,
        "reply_tokens": 60.0 + 25 * way,
        "overlong_share": 0.01,
    }


def ramp(first: float, last: float):
    """A column that goes from one value to another."""
    return lambda step: first + (last - first) * step / STEPS


def make_run(where: Path, columns: dict | None = None, *, guesses=lambda step, rng: rng.choice(WORDS), end=0.6) -> Path:
    """A run whose columns are the healthy ones, but for some."""
    where.mkdir()
    rows = [
        {"stage": "grpo", "step": step, **healthy(step), **{name: of(step) for name, of in (columns or {}).items()}}
        for step in range(1, STEPS + 1)
    ]
    for step, rate, p in ((0, 0.4, 1.0), (STEPS, end, 0.001 if end < 0.3 else 1.0)):
        rows.append({"stage": "validation", "step": step, "greedy_win_rate": rate, "p_below_start": p})
    write_lines(where / "metrics.jsonl", rows)
    rng = random.Random(0)
    games = [
        {
            "stage": "grpo",
            "step": step,
            "turns": [{"guess": "slate"}, *({"guess": guesses(step, rng)} for _ in range(3))],
        }
        for step in range(STEPS)
    ]
    write_lines(where / "games.jsonl", games)
    return where


PLANTED = {
    "steps not finite": {"columns": {"not_finite": lambda step: ["loss"] if step % 8 == 0 else []}},
    "groups that teach nothing": {"columns": {"zero_variance_share": ramp(0.3, 1.0)}},
    "format drift": {"columns": {"format_compliance": ramp(0.98, 0.6)}},
    "entropy collapse": {"columns": {"entropy": lambda step: 0.3 * 0.8**step}},
    "sampler mismatch": {"columns": {"importance_ratio/mean": lambda _: 0.896, "sampler_kl": lambda _: 0.0058}},
    "replies growing": {"columns": {"reply_tokens": ramp(60, 400), "win_rate": lambda _: 0.3}},
    "few safe words": {"guesses": lambda step, rng: rng.choice(WORDS[:3] if step > 15 else WORDS)},
    "start better than end": {"end": 0.2},
}


def test_a_healthy_run_is_called_so(tmp_path: Path) -> None:
    assert len(PLANTED) == len(CHECKS)
    found = diagnose(make_run(tmp_path / "run"))
    assert found.findings == ()
    assert (found.stage, found.num_steps) == ("grpo", STEPS)
    assert next(iter(lines_of(found))).startswith("healthy")


@pytest.mark.parametrize("pattern", PLANTED)
def test_a_planted_pattern_is_the_one_finding_and_its_line_shows_it(tmp_path: Path, pattern: str) -> None:
    run = make_run(tmp_path / "run", **PLANTED[pattern])
    [finding] = diagnose(run).findings
    assert finding.pattern == pattern
    file, line, step = re.match(r"(\S+):(\d+) step (\d+): ", finding.evidence).groups()
    row = json.loads((run / file).read_text().splitlines()[int(line) - 1])
    assert row["step"] == int(step)
    assert finding.page == f"{PAGE}#{pattern.replace(' ', '-')}"
    assert re.search(rf"^#+ {pattern}$", (ROOT / PAGE).read_text(encoding="utf-8"), re.MULTILINE | re.IGNORECASE)


@pytest.mark.parametrize(
    "columns",
    [
        {"entropy": lambda step: 0.3 * 0.8**step, "win_rate": lambda step: min(0.99, step / 10)},
        {"reply_tokens": ramp(60, 400)},
    ],
    ids=["wins everything without entropy", "longer replies that win more"],
)
def test_what_looks_like_a_pattern_is_no_fault(tmp_path: Path, columns: dict) -> None:
    assert diagnose(make_run(tmp_path / "run", columns)).findings == ()


def test_weights_of_the_start_that_were_kept_are_a_finding(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", end=0.4)
    (run / "grpo").mkdir()
    (run / "grpo" / CHOICE_FILE).write_text(json.dumps({"step": 0, "alpha": 1.0}))
    assert [finding.pattern for finding in diagnose(run).findings] == ["start better than end"]


@pytest.mark.parametrize("rows", [[], [{"stage": "sft", "step": 1, "loss": 2.0}]], ids=["nothing", "sft alone"])
def test_a_run_that_has_not_played_is_refused(tmp_path: Path, rows: list) -> None:
    write_lines(tmp_path / "metrics.jsonl", rows)
    with pytest.raises(ReportError):
        diagnose(tmp_path)


def test_the_command_says_by_its_exit_code_whether_it_found_something(cli, tmp_path: Path) -> None:
    assert cli("doctor", make_run(tmp_path / "well"))[0] == 0
    code, out, _ = cli("doctor", make_run(tmp_path / "ill", **PLANTED["format drift"]), "--json")
    assert code == 1
    assert [finding["pattern"] for finding in json.loads(out)["findings"]] == ["format drift"]
