"""`merge` and `consolidate`: a whole model from an adapter or from shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.options import Json
from wordle_rl.config import ConfigError
from wordle_rl.models.directory import find_model
from wordle_rl.runs.lineage import lineage_of, save_lineage


def merge(
    adapter: Annotated[Path, tyro.conf.Positional],
    out: Path,
    dtype: Literal["auto", "float32", "bfloat16"] = "auto",
    as_json: Json = False,
) -> None:
    """Merge a LoRA adapter into its base model, compare the logits, and save an ordinary model directory.

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
    """Turn a sharded checkpoint of FSDP into one ordinary model directory.

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
