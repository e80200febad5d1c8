"""`report`, `card` and `push`: a run's page, its model cards, and a model on the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.options import Json
from wordle_rl.cli.run import show_claims
from wordle_rl.evaluate.controls import keep_controls
from wordle_rl.evaluate.strata import STRATA_FILE, store_strata
from wordle_rl.report import write_report
from wordle_rl.report.card import write_cards
from wordle_rl.report.hub import push as push_model
from wordle_rl.runs import is_run
from wordle_rl.words import WordListError


def report(run: Annotated[Path, tyro.conf.Positional], control: tuple[Path, ...] = (), as_json: Json = False) -> None:
    """Write a run's report: curves, distributions and every game, in one HTML file.

    Args:
        run: A run directory.
        control: Control runs (SFT alone, with nothing kept from the teacher), and evaluations that are controls or
            stand beside one (`eval --match-entropy-of`). They are copied into the run, so that its page, its cards and
            its tables quote the figures of learning by play beside them.
    """
    if control:
        keep_controls(run, control)
    if (run / "traces.jsonl").is_file() and not (run / STRATA_FILE).is_file() and is_run(run):
        try:
            store_strata(run)
        except WordListError as error:
            console.messages.print(f"held-out figures are not divided into strata: {error}", soft_wrap=True)
    path = write_report(run)
    if as_json:
        console.print_json({"report": str(path)})
    else:
        if control:
            show_claims(run)
        console.out.print(f"report: {path}", highlight=False)


def card(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Write a model card (README.md) for each trained model of a run; an existing card is replaced.

    Args:
        run: A run directory, or one model's directory in it.
    """
    cards = write_cards(run)
    if as_json:
        console.print_json({"cards": [str(card) for card in cards]})
        return
    for written in cards:
        console.out.print(f"card: {written}", highlight=False, markup=False)


def push(
    run: Annotated[Path, tyro.conf.Positional],
    repo: str,
    private: bool = False,
    dry_run: bool = False,
    as_json: Json = False,
) -> None:
    """Send a trained model with its card to the Hugging Face hub, with the token of HF_TOKEN or `hf auth login`.

    Args:
        run: A model directory, or a run, whose last model is sent.
        repo: USER/NAME; made if it is not there.
        private: Make a new repository private.
        dry_run: Send nothing, list the files.
    """
    files = push_model(run, repo, private=private, dry_run=dry_run)
    if as_json:
        console.print_json({"repo": repo, "sent": not dry_run, "files": files})
        return
    for name in files:
        console.out.print(name, highlight=False, markup=False)
    verb = "would be sent" if dry_run else "sent"
    console.out.print(f"{len(files)} files {verb} to {repo}", highlight=False, markup=False)
