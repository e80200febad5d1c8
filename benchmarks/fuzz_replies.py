"""Millions of adversarial replies, read by the parser and by a second one written from the grammar alone.

    python benchmarks/fuzz_replies.py [--count 10000000] [--seed 0] [--record FILE] [--json]

A reply counts as a crash if the parser raises, as a false guess if it finds a guess, or another one, where the grammar
has none, as a missed guess if it finds none where there is one. The exit code is 1 if there is any. The kinds of
replies are in `reply_grammar.py`. `benchmarks/records/fuzz_replies.json` is the record of the last full run.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import hardware
from reply_grammar import random_reply, read_reply

from wordle_rl import __version__
from wordle_rl.prompt import Guess, Thinking, parse_reply

_SHOWN = 5
_MODES = [(thinking, brackets) for thinking in Thinking for brackets in (False, True)]


@dataclass
class Tally:
    """Counts of a run.

    Attributes:
        replies: Replies read.
        guesses: Of these, guesses by both readers.
        characters: Of all replies together.
        faults: Kind of fault -> how often.
        examples: The first few faulty replies, with the mode they were read in.
    """

    replies: int = 0
    guesses: int = 0
    characters: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def read(self, reply: str, thinking: Thinking, *, brackets: bool) -> None:
        """Read a reply by both readers and count the outcome."""
        self.replies += 1
        self.characters += len(reply)
        expected = read_reply(reply, thinking.value, brackets=brackets)
        fault = self._fault(reply, expected, thinking, brackets)
        if fault:
            self.faults[fault] += 1
            if len(self.examples) < _SHOWN:
                self.examples.append(f"{fault}: {reply[:200]!r} ({thinking.value}, brackets {brackets})")
        self.guesses += expected is not None and not fault

    def _fault(self, reply: str, expected: tuple[str, str] | None, thinking: Thinking, brackets: bool) -> str:
        try:
            parsed = parse_reply(reply, thinking, brackets=brackets)
        except Exception as error:  # any error at all is what this run looks for
            return f"crash ({type(error).__name__})"
        found = (parsed.word, parsed.thinking) if isinstance(parsed, Guess) else None
        if found == expected:
            return ""
        return "missed guess" if found is None else "false guess"


def fuzz(count: int, seed: int) -> dict[str, Any]:
    """Read `count` replies, drawn from a seed, and return the record of the run."""
    rng, tally = random.Random(seed), Tally()
    started, cpu_started = time.perf_counter(), time.process_time()
    for number in range(count):
        thinking, brackets = _MODES[number % len(_MODES)]
        tally.read(random_reply(rng), thinking, brackets=brackets)
    wall_s = time.perf_counter() - started
    return {
        "benchmark": "fuzz_replies",
        "version": __version__,
        "seed": seed,
        "replies": tally.replies,
        "guesses": tally.guesses,
        "characters": tally.characters,
        "crashes": sum(times for fault, times in tally.faults.items() if fault.startswith("crash")),
        "false_guesses": tally.faults["false guess"],
        "missed_guesses": tally.faults["missed guess"],
        "examples": tally.examples,
        "wall_s": round(wall_s, 1),
        "cpu_s": round(time.process_time() - cpu_started, 1),
        "hardware": hardware(),
    }


def main() -> int:
    """Read the replies, print the record and keep it if a file is named; 1 if a reply was read wrongly."""
    parser = argparse.ArgumentParser(description="Hold the parser of replies against a second one.")
    parser.add_argument("--count", type=int, default=10_000_000, help="replies")
    parser.add_argument("--seed", type=int, default=0, help="seed of the replies")
    parser.add_argument("--record", type=Path, help="also write the record to this file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    options = parser.parse_args()
    if options.count < 1:
        parser.error(f"--count {options.count} reads no reply; give at least 1")
    record = fuzz(options.count, options.seed)
    text = json.dumps(record, indent=2, ensure_ascii=True) + "\n"
    if options.record is not None:
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(text, encoding="utf-8")
    if options.json:
        sys.stdout.write(text)
    else:
        for name, value in record.items():
            print(f"{name:<15} {value}")
    return 1 if record["examples"] else 0


if __name__ == "__main__":
    sys.exit(main())
