"""`audit`: proof that no held-out secret was trained on, and a count of what training showed of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.options import Json
from wordle_rl.config import ConfigError
from wordle_rl.evaluate.strata import ShownAudit, audit_shown
from wordle_rl.runs.audit import Audit
from wordle_rl.runs.audit import audit as audit_run


def audit(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Prove from a run's records that no validation or test secret was a secret in training.

    A held-out word is never the secret of a training game, but training may name it as a guess. The audit counts the
    words whose decisive board stands in the training games with the word as label, words named elsewhere, words never
    named, and won games of the run's own models that stand in the training games turn for turn. Strict words
    (`words.strict_fraction`) must be named nowhere.

    The exit code is 2 if a validation or test secret was a secret in training, if a strict word was named, or if a
    trained model's records are missing, so that nothing is proven.

    Args:
        run: A run directory.
    """
    found = audit_run(run)
    shown = audit_shown(run)
    if as_json:
        console.print_json({"clean": found.clean, **asdict(found), "held_out": asdict(shown)})
    else:
        for name, count in found.num_secrets.items():
            console.out.print(f"{count:>9,} training secrets in {name}", highlight=False)
        for line in _audit_lines(found, shown) if found.clean else ():
            console.out.print(line, highlight=False, soft_wrap=True)
    if found.strict_leaks:
        word, name = found.strict_leaks[0][1], found.strict_leaks[0][0]
        raise ConfigError(f"strict words were named in training: {word} in {name}, {len(found.strict_leaks)} in all")
    if not found.clean:
        records: dict[str, list[str]] = {}
        for name, secret in found.leaks:
            records.setdefault(secret, []).append(name)
        named = ", ".join(f"{secret} ({', '.join(names)})" for secret, names in list(records.items())[:5])
        raise ConfigError(f"{len(records)} validation or test secrets were trained on: {named}")


_SHOWN_LINES = {
    "board_shown": "their decisive board stands in the training games, with the word as label",
    "board_not_shown": "named in training games, but not on that board",
    "never_said": "named nowhere in them",
}


def _audit_lines(found: Audit, shown: ShownAudit) -> Iterator[str]:
    yield "no validation or test secret is the secret of a training game"
    if found.num_strict:
        yield f"none of the {found.num_strict:,} strict words is named in any record of training"
    yield f"what training games show of the {sum(shown.num_secrets.values()):,} held-out secrets:"
    for name, count in shown.num_secrets.items():
        yield f"{count:>9,} {name.replace('_', ' ')}: {_SHOWN_LINES[name]}"
    for name, (same, won) in shown.own_games.items():
        yield f"{same:>9,} of the {won:,} held-out games that {name} won stand in the training games turn for turn"
    if not shown.complete:
        yield "more may have been shown: by conversations (traces.file), or before, to a model trained elsewhere"
