"""`report`: a run's page, its model cards, the audit of its training games, and a plot of its wins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json
from wordle_rl.cli.run import show_claims
from wordle_rl.config import ConfigError
from wordle_rl.evaluate.controls import keep_controls
from wordle_rl.evaluate.strata import STRATA_FILE, ShownAudit, audit_shown, store_strata
from wordle_rl.report import read_run, write_report
from wordle_rl.report.card import write_cards
from wordle_rl.report.plots import wins_plot
from wordle_rl.report.run_record import read_metrics
from wordle_rl.runs import is_run, write_text_atomically
from wordle_rl.runs.audit import Audit
from wordle_rl.runs.audit import audit as audit_run
from wordle_rl.words import WordListError


def report(
    run: Annotated[Path, tyro.conf.Positional],
    control: tuple[Path, ...] = (),
    cards: bool = False,
    audit: bool = False,
    wins: Path | None = None,
    as_json: Json = False,
) -> None:
    """Write a run's report: curves, distributions and every game, in one HTML file.

    A held-out word is never the secret of a training game, but training may name it as a guess. --audit proves this
    from the run's records. It counts held-out words whose decisive board appears in training with the word as label,
    words named elsewhere, words never named, and won games that also appear in training turn for turn. Its exit code is
    2 if a validation or test secret was trained on, a strict word (`words.strict_fraction`) was named, or records are
    missing.

    Args:
        run: A run directory; with --cards also a single model directory in it.
        control: Control runs (SFT alone, with nothing kept from the teacher) and control evaluations (`eval
            --match-entropy-of`). They are copied into the run, and its page, cards and tables show them beside the
            gain by play.
        cards: Instead write the model cards (README.md) of its trained models. Existing cards are replaced.
        audit: Instead prove that no held-out secret was trained on, and count what training showed of them.
        wins: Instead plot the training games won and the win rate by turn to this file (SVG).
    """
    if audit:
        _audit(run, as_json)
    elif cards:
        written = write_cards(run)
        _print({"cards": [str(card) for card in written]}, [f"card: {card}" for card in written], as_json)
    elif wins is not None:
        metrics = read_metrics(run) if run.is_file() else read_run(run).metrics
        name = (run.resolve().parent if run.is_file() else run.resolve()).name
        write_text_atomically(wins, wins_plot(metrics, f"{name}: wins in training"))
        _print({"wins": str(wins)}, [f"wins: {wins}"], as_json)
    else:
        _page(run, control, as_json)


def _print(found: dict[str, Any], lines: list[str], as_json: bool) -> None:
    if as_json:
        console.print_json(found)
        return
    for line in lines:
        console.out.print(line)


def _page(run: Path, control: tuple[Path, ...], as_json: bool) -> None:
    if control:
        keep_controls(run, control)
    if (run / "traces.jsonl").is_file() and not (run / STRATA_FILE).is_file() and is_run(run):
        try:
            store_strata(run)
        except WordListError as error:
            console.messages.print(f"held-out figures are not divided into strata: {error}", soft_wrap=True)
    path = write_report(run)
    if control and not as_json:
        show_claims(run)
    _print({"report": str(path)}, [f"report: {path}"], as_json)


def _audit(run: Path, as_json: bool) -> None:
    found = audit_run(run)
    shown = audit_shown(run)
    if as_json:
        console.print_json({"clean": found.clean, **asdict(found), "held_out": asdict(shown)})
    else:
        for name, count in found.num_secrets.items():
            console.out.print(f"{count:>9,} training secrets in {name}")
        for line in _audit_lines(found, shown) if found.clean else ():
            console.out.print(line)
    if found.strict_leaks:
        word, name = found.strict_leaks[0][1], found.strict_leaks[0][0]
        raise ConfigError(f"training named strict words: {word} in {name}, {len(found.strict_leaks)} in all")
    if not found.clean:
        records: dict[str, list[str]] = {}
        for name, secret in found.leaks:
            records.setdefault(secret, []).append(name)
        named = ", ".join(f"{secret} ({', '.join(names)})" for secret, names in list(records.items())[:5])
        raise ConfigError(f"training used {len(records)} validation or test secrets: {named}")


_SHOWN_LINES = {
    "board_shown": "their decisive board appears in the training games, with the word as label",
    "board_not_shown": "named in training games, but not on that board",
    "never_said": "never named",
}


def _audit_lines(found: Audit, shown: ShownAudit) -> Iterator[str]:
    yield "no validation or test secret is the secret of a training game"
    if found.num_strict:
        yield f"none of the {found.num_strict:,} strict words is named in any record of training"
    yield f"what training games show of the {sum(shown.num_secrets.values()):,} held-out secrets:"
    for name, count in shown.num_secrets.items():
        yield f"{count:>9,} {name.replace('_', ' ')}: {_SHOWN_LINES[name]}"
    for name, (same, won) in shown.own_games.items():
        yield f"{same:>9,} of the {won:,} held-out games that {name} won appear in the training games turn for turn"
    if not shown.complete:
        yield "more may have been shown: by conversations (traces.file), or earlier, to a model trained elsewhere"
