"""Arguments of what is done with a finished run: `report`, `card`, `push`, `audit`, `merge`, `consolidate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from wordle_rl.cli.options import Json
from wordle_rl.commands import finished as command


def report(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Write a run's page: curves, distributions, every game, in one file.

    Args:
        run: A run directory.
    """
    command.report(run, as_json)


def card(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Write a model card (README.md) beside each trained model of a run, over the one that is there.

    Args:
        run: A run directory, or one model's directory in it.
    """
    command.card(run, as_json)


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
    command.push_model(run, repo, private, dry_run, as_json)


def audit(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Prove from a run's records that no validation or test secret was a secret in training.

    Exit code 2 if one was, or if a trained model's secrets are not on record, so that nothing is proven.

    Args:
        run: A run directory.
    """
    command.audit_run(run, as_json)


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
    command.merge_adapter(adapter, out, dtype, as_json)


def consolidate(checkpoint: Annotated[Path, tyro.conf.Positional], out: Path, as_json: Json = False) -> None:
    """Gather a sharded checkpoint, as FSDP leaves it, into one ordinary model directory.

    Args:
        checkpoint: A directory such as RUN/sft/checkpoints/checkpoint-100.
        out: The new model directory.
    """
    command.consolidate_checkpoint(checkpoint, out, as_json)
