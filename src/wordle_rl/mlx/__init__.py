"""MLX, for Macs: `wordle-rl run --backend mlx` with the settings, the algorithms and the run directory of every run.

learner.py     `train.learner.Learner`: the update through which every algorithm trains
losses.py      the losses of `train.loss`
scores.py      log-probabilities of trained tokens, logits a piece at a time
optimizer.py   AdamW and Muon with our schedules
model.py       models made, loaded, saved: transformers directories in and out
adapters.py    LoRA on them, stored as peft's
sampler.py     `BatchGenerator` behind our sampler protocol, caches kept over turns
backend.py     the functions that the pipeline asks for
fuse.py        adapters and few-bit weights to one whole model, logits compared
"""

from __future__ import annotations

from importlib.util import find_spec

from wordle_rl.config import ConfigError
from wordle_rl.models.backends import Backend

INSTALL = 'pip install "wordle-rl[train,mlx]"'


def load_backend() -> Backend:
    """Import the backend.

    Raises:
        ConfigError: If its packages are not installed.
    """
    if missing := [name for name in ("torch", "transformers", "mlx", "mlx_lm") if find_spec(name) is None]:
        raise ConfigError(f"MLX needs packages that are not installed ({', '.join(missing)}): {INSTALL}")
    from wordle_rl.mlx.backend import MLXBackend

    return MLXBackend()
