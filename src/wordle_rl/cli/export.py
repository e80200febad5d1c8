"""`export`: write a trained model as a whole model directory, or push it to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json
from wordle_rl.config import BackendName, ConfigError
from wordle_rl.policy.base import find_backend
from wordle_rl.policy.directory import find_model
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
    """Make a trained model ready for others: a whole model directory (--out), or a hub repository (--repo).

    An adapter is merged into its base model; the logits are compared before anything is written. FSDP checkpoint shards
    are gathered. With --backend mlx, an MLX adapter or quantized MLX weights become one ordinary model.

    Args:
        model: A model directory, a run (its last model is taken), or a checkpoint such as
            RUN/sft/checkpoints/checkpoint-100.
        out: The new model directory.
        repo: USER/NAME on the Hugging Face hub, created if missing. The model is pushed with its card, using the token
            of HF_TOKEN or `hf auth login`.
        dtype: Type of the stored weights. auto: that of the base model; float32 with MLX.
        backend: Library that trained the model.
        private: Create a new repository as private.
        dry_run: With --repo: list the files and send nothing.
    """
    if (out is None) == (repo is None):
        raise ConfigError("give exactly one of --out DIR and --repo USER/NAME", "out")
    if repo is not None:
        files = push(model, repo, private=private, dry_run=dry_run)
        if as_json:
            console.print_json({"repo": repo, "sent": not dry_run, "files": files})
            return
        for name in files:
            console.out.print(name)
        console.out.print(f"{len(files)} files {'would be sent' if dry_run else 'sent'} to {repo}")
        return
    assert out is not None
    try:
        from wordle_rl.policy import export as torch_export
    except ModuleNotFoundError as error:
        raise ConfigError(f'export needs {error.name}: pip install "wordle-rl[train]"') from None
    if torch_export.is_sharded(model):
        source = model
        done: dict[str, float] = {"num_weights": torch_export.consolidate(model, out)}
    else:
        source = find_model(model)
        merge = torch_export.merge if backend == "torch" else find_backend(backend).export
        done = {"difference": merge(source, out, dtype)}
    if (lineage := lineage_of(source)) is not None:
        save_lineage(out, lineage)
    if as_json:
        console.print_json({"model": str(out), **done})
    elif "difference" in done:
        console.out.print(f"model: {out}; logits differ by {done['difference']:.1e} standard deviations")
    else:
        console.out.print(f"model: {out}; {done['num_weights']} weights")
