"""`conformance`: check a Wordle environment, or a trainer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table
from rich.text import Text

import wordle_rl
from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json, Seed, Words
from wordle_rl.config.base import ConfigError
from wordle_rl.conformance.environment_checks import CHECKS, CheckResult, examine
from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.targets import Dialect, Target, TargetError, module_target
from wordle_rl.import_paths import resolve
from wordle_rl.runs import write_json
from wordle_rl.solver import Solver
from wordle_rl.words import load_words


def conformance(
    target: Annotated[str, tyro.conf.Positional] = "",
    trainer: str = "",
    dialect: Dialect = Dialect.TAGGED,
    words: Words = "default",
    games: int = 30,
    only: tuple[str, ...] = (),
    seed: Seed = 0,
    token_variable: str = "",
    out: Path | None = None,
    as_json: Json = False,
) -> int:
    """Check a Wordle environment from outside, or a trainer on recorded games. The exit code is 1 if a check fails.

    Args:
        target: URL of an OpenEnv server, or package.module:factory of an environment with reset and step.
        trainer: package.module:adapter of a trainer, instead of an environment. The options below do not apply to it.
        dialect: How guesses are written: tagged <guess>crane</guess>, bracketed [crane], or plain crane.
        games: Games per player in checks that compare rewards.
        only: Ids of the checks to run. Default: all.
        token_variable: Environment variable that holds a server's bearer token.
        out: Directory to write conformance.json to.
    """
    if bool(target) == bool(trainer):
        raise ConfigError("name either an environment or a --trainer")
    if games < 1:
        raise ConfigError(f"--games {games} plays none; give at least 1")
    known = [check.check_id for check in CHECKS]
    if unknown := [name for name in only if name not in known]:
        raise ConfigError(f"no check {', '.join(unknown)}; there are {', '.join(known)}")
    facts: dict[str, Any] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "wordle_rl": wordle_rl.__version__}
    try:
        if trainer:
            from wordle_rl.conformance.trainer_checks import examine_trainer

            checked = examine_trainer(resolve(trainer, "--trainer", ConfigError, takes="case"))
        else:
            subject, found = _open(target, token_variable), load_words(words)
            examiner = Examiner(subject, Solver(found), dialect, games, seed)
            with examiner.session(seed):  # a target that opens no game is a wrong input, not a failed check
                pass
            facts |= {"words": found.fingerprint, "dialect": dialect, "games": games, "seed": seed}
            checked = examine(examiner, [check for check in CHECKS if check.check_id in (only or known)])
    except TargetError as error:
        raise ConfigError(str(error)) from None
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    results = []
    for result in checked:
        console.messages.print(f"{result.status:5} {result.check_id}")
        results.append(result)
    counts, name = dict(Counter(result.status for result in results)), trainer or subject.name
    conforms = not counts.keys() & {"fail", "error"}
    rows = [asdict(result) for result in results]
    report = {"target": name, "conforms": conforms, "counts": counts, "facts": facts, "results": rows}
    shown = _table(results), Text(f"{name} {'conforms' if conforms else 'does not conform'}: {counts}")
    if out is not None:
        write_json(out / "conformance.json", report)
    if as_json:
        console.print_json(report)
    else:
        console.out.print(*shown)
    return 0 if conforms else 1


def _open(name: str, token_variable: str) -> Target:
    if "://" not in name:
        return module_target(name)
    try:
        from wordle_rl.conformance.openenv import OpenEnvTarget
    except ImportError:
        raise TargetError('an address needs openenv: pip install "wordle-rl[serve]"') from None
    token = os.environ.get(token_variable, "")
    if token_variable and not token:
        raise TargetError(f"--token-variable names {token_variable}, which is empty or not set")
    return OpenEnvTarget(name, token)


def _table(results: Sequence[CheckResult]) -> Table:
    table = Table("check", "finding", "evidence", show_lines=True)
    for result in results:
        style = {"pass": "green", "skip": "yellow"}.get(result.status, "bold red")
        seen = [result.requirement, *result.evidence] if result.status == "fail" else result.evidence
        table.add_row(result.check_id, Text(result.status, style), Text("\n".join(seen)))
    return table
