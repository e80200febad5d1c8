"""Pay without winning under every shipped reward: adversarial floor, and gap to honest play.

    python benchmarks/gameability.py [--answers 400] [--secrets 12] [--steps 60] [--seed 0] [--record FILE] [--json]

Shipped are the presets with order kept, and the weights of the embedded model's configs. Presets with the weights as
published (`keep_order = false`) stand beside them. `wordle-rl rewards --attack` does the same for one's own. The exit
code is 1 if a shipped reward can be had without winning.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure import hardware
from rich.console import Console

from wordle_rl import __version__
from wordle_rl.cli.rewards import attacked, table_of
from wordle_rl.config.files import load_config
from wordle_rl.reward import PRESETS, Rubric
from wordle_rl.reward.attack import Effort, Gameability, words_for
from wordle_rl.words import load_words

BARE = ", as published"
IMITATION = Path(__file__).resolve().parents[1] / "src" / "wordle_rl" / "config" / "presets" / "imitation.toml"


def rubrics() -> dict[str, Rubric]:
    """Every shipped reward by name, then the presets with the weights they were published with."""
    shipped = {**PRESETS, "imitation": load_config(IMITATION).grpo.reward.schedule().rubric()}
    return shipped | {name + BARE: Rubric(preset.weights, keep_order=False) for name, preset in PRESETS.items()}


def main() -> int:
    """Attack every reward, print a table, and keep the record if a file is named; 1 if a shipped reward is had."""
    parser = argparse.ArgumentParser(description="Search for pay without winning.")
    parser.add_argument("--answers", type=int, default=400, help="answers of the list, where a reward asks the solver")
    parser.add_argument("--secrets", type=int, default=12, help="secrets that are played")
    parser.add_argument("--steps", type=int, default=60, help="changes tried on each policy")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything drawn")
    parser.add_argument("--record", type=Path, help="also write the record to this file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    words, effort = load_words(), Effort(options.secrets, options.steps, options.seed)
    found: dict[str, Gameability] = {}
    rows: dict[str, dict[str, Any]] = {}
    for name, rubric in rubrics().items():
        started = time.process_time()
        found[name] = each = attacked(rubric, words, options.answers, effort)
        rows[name] = {
            "answers": len(words_for(rubric, words, options.answers).answers),
            "gap": each.gap,
            **asdict(each),
            "cpu_s": round(time.process_time() - started, 1),
        }
    record = {
        "benchmark": "gameability",
        "version": __version__,
        "words": words.fingerprint,
        **asdict(effort),
        "rewards": rows,
        "replies": sum(each.replies for each in found.values()),
        "hardware": hardware(),
    }
    text = json.dumps(record, indent=2) + "\n"
    if options.record is not None:
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(text, encoding="utf-8")
    if options.json:
        sys.stdout.write(text)
    else:
        Console(width=140).print(table_of(found))
        print(hardware())
    return 1 if any(not each.holds for name, each in found.items() if not name.endswith(BARE)) else 0


if __name__ == "__main__":
    sys.exit(main())
