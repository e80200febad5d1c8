"""Hold the figures of README and docs to the records behind them.

    python benchmarks/figures.py                       # lists every figure that its page does not have
    python benchmarks/figures.py --run runs/quickstart  # records a run of the quickstart

A page quotes a record by a row of its table. The row is written here from the record and looked for in the page, so a
record that is measured again, or a row that is edited by hand, is told.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tyro

from wordle_rl.evaluate.records import Evaluation
from wordle_rl.report import read_run

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "records"
QUICKSTART = RECORDS / "quickstart.json"
PARTS = ("all", "train", "held_out")
GRPO = "docs/grpo*.md"

Claim = tuple[str, str]
"""A page, or a pattern of pages, and the text that it must have."""


def percent(won: int, games: int) -> str:
    """Return a share in percent with one decimal."""
    return f"{100 * won / games:.1f}"


def keep(run: Path) -> None:
    """Record the wins of a run's stages, greedy and sampled, and what it took."""
    record = read_run(run)
    wins: dict[str, dict[str, list[int]]] = {}
    for name, games in record.evaluations.items():
        stage, _, how = name.partition("-")
        for part in PARTS if how in ("", "sampled") and games.constrain == "none" else ():
            chosen = games if part == "all" else games.only(record.secrets_of(part))
            won = sum(game.won for game in chosen.records)
            wins.setdefault(stage, {})[f"{part}{', T = 1' if how else ''}"] = [won, len(chosen.records)]
    made = {
        "command": "wordle-rl run quickstart",
        "seed": record.manifest["seed"],
        "hardware": record.manifest["hardware"],
        "seconds": record.facts["seconds"],
        "guesses": {name: _guesses(games) for name, games in record.evaluations.items() if "-" not in name},
        "wins": wins,
    }
    QUICKSTART.write_text(json.dumps(made, indent=1) + "\n")


def _guesses(games: Evaluation) -> float:
    won = [game.turns_used for game in games.records if game.won]
    return round(sum(won) / len(won), 3)


def claims() -> Iterator[Claim]:
    """Yield every row that a page quotes from a record."""
    yield from of_grpo()
    if QUICKSTART.is_file():
        yield from of_quickstart(json.loads(QUICKSTART.read_text()))


def of_grpo() -> Iterator[Claim]:
    """Yield rows of long GRPO runs, of the third act and of short trials, in percent as recorded."""
    rows = [json.loads(line) for line in (RECORDS / "grpo.jsonl").read_text().splitlines()]
    judged = ("train/greedy", "train/T=1", "test/greedy", "test/T=1", "val/greedy")
    for row in rows:
        before, after = row["before"], row["after"]
        if row["seconds"] == 1200:
            yield GRPO, " | ".join(f"{before[part]} -> {after[part]}" for part in judged)
            if row["seed"] == 0 and not row["way"].startswith("dense"):
                yield "README.md", f"| {after['all/greedy']} | {after['all/T=1']} | {after['test/greedy']} |"
        elif row["start"] == "SFT of the quickstart":
            if "2,000" not in row["way"]:
                yield GRPO, f"{after['train/greedy']} / {after['train/T=1']}"
        elif row["seconds"] == 120 and row["way"] != "third act":
            train, val = (f"{after[f'{part}/greedy']} / {after[f'{part}/T=1']}" for part in ("train", "val"))
            yield GRPO, f"| {train} | {after['train/greedy/unlisted']:.0f} | {val} |"
        elif row["seconds"] == 18 and row["way"].endswith(("T=1", "T=1.0")):
            yield GRPO, of_gradient(row["curve"])
        elif row["way"].startswith("wins") and row["seconds"] == 600 and row["seed"]:
            yield GRPO, f"{before['train/T=1']} -> {after['train/T=1']}"
    acts = [row for row in rows if row["way"] == "third act"]
    for seconds in {row["seconds"] for row in acts}:
        seeds = [row for row in acts if row["seconds"] == seconds]
        for moment in ("before", "after"):
            parts = ("all/greedy", "train/greedy", "train/T=1", "test/greedy", "all/T=1")
            cells = (", ".join(str(row[moment][part]) for row in seeds) for part in parts)
            if moment == "after" or seconds != 60:  # which begins where seed 0 of the others does
                yield GRPO, f"| {' | '.join(cells)} |"


def of_gradient(curve: list[dict[str, float]]) -> str:
    """Write the mean cosine of the halves of a step, and its noise scale in games to two digits."""
    found = [point["gradient/cosine"] for point in curve if "gradient/cosine" in point]
    cosine, half = sum(found) / len(found), curve[0]["games"] / 2
    return f"| {cosine:.2f} | {int(float(f'{half * (1 / cosine - 1):.2g}')):,} |"


def of_quickstart(record: dict[str, Any]) -> Iterator[Claim]:
    """Yield README's rows of the quickstart."""
    titles = {
        "sft": "act one: SFT on 2,000 games",
        "expert_iteration": "act two: expert iteration on 24,576 own games",
        "grpo": "act three: GRPO by wins, 82,000 games",
    }
    for stage, title in titles.items():
        won = record["wins"][stage]
        cells = [percent(*won[part]) for part in ("all", "all, T = 1", "held_out")]
        yield "README.md", f"| {title} | {' | '.join(cells)} |"


def missing() -> list[str]:
    """Return a line for every row that its page does not have."""
    pages: dict[str, str] = {}
    lines = []
    for page, text in claims():
        if page not in pages:
            texts = (path.read_text(encoding="utf-8") for path in ROOT.glob(page))
            # Bold marks and intervals are the page's.
            pages[page] = re.sub(r"\*\*| \([\d.]+ to [\d.]+\)", "", "".join(texts))
        said = pages[page]
        if text not in said:
            lines.append(f"{page} lacks: {text}")
    return lines


def main(run: Path | None = None) -> int:
    """Record a run, or compare pages with records; the exit code is 1 if a page lacks a row.

    Args:
        run: A run of the quickstart to record.
    """
    if run is not None:
        keep(run)
    lines = missing()
    print("\n".join(lines) or "every figure is that of its record")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
