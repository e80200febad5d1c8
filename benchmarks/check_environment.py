"""Check a Wordle environment from outside. The exit code is 1 if a check fails.

    python benchmarks/check_environment.py http://127.0.0.1:8000 --out report
    python benchmarks/check_environment.py conformance_peers:OwnGame --json
    PYTHONPATH=. python benchmarks/check_environment.py my_package.games:make_env --dialect bracketed --words my-words

README.md lists the checks, and what they found.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from conformance.environment_checks import CHECKS, examine
from conformance.examiner import Examiner
from conformance.targets import Dialect, Target, TargetError, module_target

import wordle_rl
from wordle_rl.errors import UserError
from wordle_rl.runs import write_json
from wordle_rl.runs.foreign_text import visible
from wordle_rl.solver import Solver
from wordle_rl.words import load_words


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks and print what they find. Exit codes: 0, 1 after a failed check, 2 for a wrong input."""
    parser = make_parser()
    asked = parser.parse_args(arguments)
    chosen = [check for check in CHECKS if not asked.only or check.check_id in asked.only]
    try:
        target, words = open_target(asked.target, asked.token_variable), load_words(asked.words)
        examiner = Examiner(target, Solver(words), asked.dialect, asked.games, asked.seed)
        with examiner.session(asked.seed):  # a target that opens no game is a wrong input, not a failed check
            pass
    except (TargetError, UserError) as error:
        parser.error(str(error))
    results = []
    for result in examine(examiner, chosen):
        shown = [result.requirement, *result.evidence] if result.status == "fail" else result.evidence
        print(f"{result.status:5} {result.check_id:30} {visible('; '.join(shown))}", file=sys.stderr)
        results.append(result)
    counts = dict(Counter(result.status for result in results))
    report = {
        "target": target.name,
        "conforms": not counts.keys() & {"fail", "error"},
        "counts": counts,
        "facts": {"date": f"{datetime.now(UTC):%Y-%m-%d}", "wordle_rl": wordle_rl.__version__}
        | {"words": words.fingerprint, "dialect": asked.dialect, "games": asked.games, "seed": asked.seed},
        "results": [asdict(result) for result in results],
    }
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        write_json(asked.out / "conformance.json", report)
    verdict = f"{target.name} {'conforms' if report['conforms'] else 'does not conform'}: {counts}"
    print(json.dumps(report) if asked.json else verdict)
    return 0 if report["conforms"] else 1


def make_parser() -> argparse.ArgumentParser:
    """Declare the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="URL of an OpenEnv server, or package.module:factory of an environment")
    parser.add_argument("--dialect", type=Dialect, default=Dialect.TAGGED, choices=[*Dialect], help="how to guess")
    parser.add_argument("--words", default="default", help="the environment's own word list: a name or a directory")
    parser.add_argument("--games", type=int, choices=range(1, 10_001), default=30, metavar="N", help="per player")
    parser.add_argument("--only", nargs="+", default=(), choices=[check.check_id for check in CHECKS], metavar="ID")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--token-variable", default="", help="environment variable with a server's bearer token")
    parser.add_argument("--out", type=Path, help="directory to write conformance.json to")
    parser.add_argument("--json", action="store_true", help="print the whole report")
    return parser


def open_target(name: str, token_variable: str) -> Target:
    """Open a server by its address, anything else as `package.module:factory`."""
    if "://" not in name:
        return module_target(name)
    from conformance.openenv import OpenEnvTarget  # needs the extra `serve`

    token = os.environ.get(token_variable, "")
    if token_variable and not token:
        raise TargetError(f"--token-variable names {token_variable}, which is empty or not set")
    return OpenEnvTarget(name, token)


if __name__ == "__main__":
    sys.exit(main())
