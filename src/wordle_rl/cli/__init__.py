"""The `wordle-rl` command: each command's arguments, and under them what it does and prints.

program.py       a command as a value; reading its arguments, carrying it out, exit codes
settings.py      a config file, and options that complete it
options.py       options shared by several commands
refusals.py      wrong arguments in one line
console.py       where commands print
words.py         words, solve
traces.py        traces
data.py          analyze, dataset, import
run.py           run
preflight.py     preflight
eval.py          eval; its request: eval_request.py
compare.py       compare
report.py        report, card, push
plot.py          plot
audit.py         audit
rewards.py       rewards
doctor.py        doctor, power
export.py        merge, consolidate
play.py          play
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import get_args

from wordle_rl import __version__
from wordle_rl.cli import (
    audit,
    compare,
    data,
    doctor,
    export,
    play,
    plot,
    preflight,
    report,
    rewards,
    run,
    traces,
    words,
)
from wordle_rl.cli import eval as evaluating
from wordle_rl.cli.program import Command, Program
from wordle_rl.config import RunStage

COMMANDS = {
    "words": Command(words.words),
    "solve": Command(words.solve),
    "rewards": Command(rewards.rewards),
    "traces": Command(traces.traces, traces.resumes),
    "analyze": Command(data.analyze),
    "dataset": Command(data.dataset),
    "import": Command(data.import_data),
    "eval": Command(evaluating.eval_player, evaluating.resumes),
    "compare": Command(compare.compare),
    "report": Command(report.report),
    "card": Command(report.card),
    "push": Command(report.push),
    "plot": Command(plot.plot),
    "audit": Command(audit.audit),
    "doctor": Command(doctor.doctor),
    "power": Command(doctor.power),
    "merge": Command(export.merge),
    "consolidate": Command(export.consolidate),
    "play": Command(play.play),
    "run": Command(run.run, lambda **_: True),
    "preflight": Command(preflight.preflight),
}


def main(arguments: list[str] | None = None, further: Mapping[str, Command] | None = None) -> int:
    """Run one command; the exit code is 0, 2 after a wrong input, 130 after Ctrl-C.

    Args:
        arguments: Those of the command line, if left out.
        further: Commands of rooms that this one must not import, by name.

    Raises:
        ValueError: If a further command has the name of another.
    """
    if taken := COMMANDS.keys() & (further or {}).keys():
        raise ValueError(f"commands {sorted(taken)} are already defined; give other names")
    program = Program(
        "wordle-rl",
        {**COMMANDS, **(further or {})},
        "Teach language models to play Wordle, and measure honestly what they learned. `wordle-rl COMMAND --help` "
        "explains a command with all its options, `wordle-rl --version` prints the version.",
        version=__version__,
        hint=_stage_hint,
    )
    return program((sys.argv[1:] if arguments is None else arguments) or ["--help"])


def _stage_hint(word: str) -> str:
    """Error message if the name of a stage is given for a command, else ''."""
    if word in COMMANDS or word not in get_args(RunStage):
        return ""
    return f"{word} is a stage of a run; use: wordle-rl run CONFIG.toml --out DIR --until {word}"
