"""`wordle-rl fuse`: what was trained on MLX as one whole model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.options import Json
from wordle_rl.cli.program import Command
from wordle_rl.mlx import load_backend
from wordle_rl.models.directory import find_model


def fuse(
    model: Annotated[Path, tyro.conf.Positional],
    out: Path,
    dtype: Literal["float32", "bfloat16"] = "float32",
    as_json: Json = False,
) -> None:
    """Turn an adapter or quantized weights of MLX into one ordinary model, and check that its logits are the same.

    Quantized weights are dequantized before the adapter is added to them.

    Args:
        model: A run, whose last model is taken, or a model directory.
        out: The new directory, which transformers and MLX both read.
        dtype: Type to store weights in; the sum itself is done in float32.
    """
    load_backend()
    from wordle_rl.mlx.fuse import fuse as fuse_model
    from wordle_rl.runs.lineage import lineage_of, save_lineage

    directory = find_model(model)
    difference = fuse_model(directory, out, dtype)
    if (lineage := lineage_of(directory)) is not None:
        save_lineage(out, lineage)
    if as_json:
        console.print_json({"model": str(out), "logits_differ_by": difference})
        return
    console.out.print(f"model: {out}; logits differ by {difference:.2g} standard deviations", highlight=False)


COMMANDS = {"fuse": Command(fuse)}
