"""`export`: a trained model for others, as a whole model directory or on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json
from wordle_rl.config import BackendName, ConfigError
from wordle_rl.models.backends import find_backend
from wordle_rl.models.directory import find_model
from wordle_rl.report.hub import push
from wordle_rl.runs.lineage import lineage_of, save_lineage


def export(
    model: Annotated[Path, tyro.conf.Positional],
    out: Path | None = None,
    repo: str | None = None,
    dtype: Literal["auto", "float32", "bfloat16"] = "auto",
    backend: BackendName = "torch",
    private: bool = False,
    dry_run: bool = False,
    as_json: Json = False,
) -> None:
    """Make a trained model ready for others: one whole model directory (--out), or a repository of the hub (--repo).

    An adapter is merged into its base model, and the logits are compared before it is written. The shards of an FSDP
    checkpoint are gathered. With --backend mlx an adapter or quantized weights of MLX become one ordinary model.

    Args:
        model: A model directory, a run, whose last model is taken, or a checkpoint such as
            RUN/sft/checkpoints/checkpoint-100.
        out: The new model directory.
        repo: USER/NAME on the Hugging Face hub: the model is sent with its card, with the token of HF_TOKEN or `hf auth
            login`. A new repository is made.
        dtype: Type of the stored weights; auto: as the base model's, with MLX float32.
        backend: Library that trained it.
        private: Make a new repository private.
        dry_run: With --repo: send nothing, list the files.
    """
    if (out is None) == (repo is None):
        raise ConfigError("export writes a directory or sends to the hub; give --out DIR or --repo USER/NAME", "out")
    if repo is not None:
        _send(model, repo, private, dry_run, as_json)
        return
    assert out is not None
    room = _room()
    if room.is_sharded(model):
        source, done = model, {"num_weights": room.consolidate(model, out)}
    else:
        source = find_model(model)
        join = room.merge if backend == "torch" else find_backend(backend).export
        done = {"difference": join(source, out, dtype)}
    if (lineage := lineage_of(source)) is not None:
        save_lineage(out, lineage)
    if as_json:
        console.print_json({"model": str(out), **done})
    elif "difference" in done:
        told = f"logits differ by {done['difference']:.1e} standard deviations"
        console.out.print(f"model: {out}; {told}", highlight=False)
    else:
        console.out.print(f"model: {out}; {done['num_weights']} weights", highlight=False)


def _send(model: Path, repo: str, private: bool, dry_run: bool, as_json: bool) -> None:
    files = push(model, repo, private=private, dry_run=dry_run)
    if as_json:
        console.print_json({"repo": repo, "sent": not dry_run, "files": files})
        return
    for name in files:
        console.out.print(name, highlight=False, markup=False)
    verb = "would be sent" if dry_run else "sent"
    console.out.print(f"{len(files)} files {verb} to {repo}", highlight=False, markup=False)


def _room() -> Any:
    try:
        from wordle_rl.models import export as room
    except ModuleNotFoundError as error:
        raise ConfigError(f'export needs {error.name}: pip install "wordle-rl[train]"') from None
    return room
