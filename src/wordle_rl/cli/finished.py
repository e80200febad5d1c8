"""`report`, `card`, `push`, `audit`, `merge` and `consolidate`: what is done with a finished run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.options import Json
from wordle_rl.config import ConfigError
from wordle_rl.models.directory import find_model
from wordle_rl.report import write_report
from wordle_rl.report.card import write_cards
from wordle_rl.report.hub import push as push_model
from wordle_rl.runs.audit import audit as audit_run
from wordle_rl.runs.lineage import lineage_of, save_lineage


def report(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Write a run's page: curves, distributions, every game, in one file.

    Args:
        run: A run directory.
    """
    path = write_report(run)
    if as_json:
        console.print_json({"report": str(path)})
    else:
        console.out.print(f"report: {path}", highlight=False)


def card(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Write a model card (README.md) beside each trained model of a run, over the one that is there.

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


def audit(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Prove from a run's records that no validation or test secret was a secret in training.

    Exit code 2 if one was, or if a trained model's secrets are not on record, so that nothing is proven.

    Args:
        run: A run directory.
    """
    found = audit_run(run)
    if as_json:
        console.print_json({"clean": found.clean, **asdict(found)})
    else:
        for name, count in found.num_secrets.items():
            console.out.print(f"{count:>9,} training secrets in {name}", highlight=False)
        if found.clean:
            console.out.print("no validation or test secret among them")
    if not found.clean:
        records: dict[str, list[str]] = {}
        for name, secret in found.leaks:
            records.setdefault(secret, []).append(name)
        named = ", ".join(f"{secret} ({', '.join(names)})" for secret, names in list(records.items())[:5])
        raise ConfigError(f"{len(records)} validation or test secrets were trained on: {named}")


def merge(
    adapter: Annotated[Path, tyro.conf.Positional],
    out: Path,
    dtype: Literal["auto", "float32", "bfloat16"] = "auto",
    as_json: Json = False,
) -> None:
    """Fold a LoRA adapter into its base model, compare both, and keep the whole as an ordinary model directory.

    Args:
        adapter: An adapter's directory, or a run that trained one.
        out: The new model directory.
        dtype: Type of the stored weights; auto: as the base model's.
    """
    trained = find_model(adapter)
    difference = _export_room().merge(trained, out, dtype)
    _keep_lineage(trained, out)
    if as_json:
        console.print_json({"model": str(out), "difference": difference})
    else:
        console.out.print(f"model: {out}; logits differ by {difference:.1e} standard deviations", highlight=False)


def consolidate(checkpoint: Annotated[Path, tyro.conf.Positional], out: Path, as_json: Json = False) -> None:
    """Gather a sharded checkpoint, as FSDP leaves it, into one ordinary model directory.

    Args:
        checkpoint: A directory such as RUN/sft/checkpoints/checkpoint-100.
        out: The new model directory.
    """
    num_weights = _export_room().consolidate(checkpoint, out)
    _keep_lineage(checkpoint, out)
    if as_json:
        console.print_json({"model": str(out), "num_weights": num_weights})
    else:
        console.out.print(f"model: {out}; {num_weights} weights", highlight=False)


def _export_room() -> Any:
    try:
        from wordle_rl.models import export
    except ModuleNotFoundError as error:
        raise ConfigError(f'this command needs {error.name}: pip install "wordle-rl[train]"') from None
    return export


def _keep_lineage(source: Path, target: Path) -> None:
    """Copy a model's lineage to the model made of it."""
    if (lineage := lineage_of(source)) is not None:
        save_lineage(target, lineage)
