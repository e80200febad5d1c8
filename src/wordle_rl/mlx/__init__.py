"""MLX backend for Macs: `wordle-rl run --backend mlx`, with the same settings, algorithms and run directories.

learner.py     `train.learner.Learner`: the update of every algorithm
losses.py      the losses of `train.loss`
scores.py      log-probabilities of trained tokens, with logits in pieces
optimizer.py   AdamW and Muon with our schedules
model.py       build, load and save models as transformers directories
adapters.py    LoRA, stored as peft stores it
sampler.py     `BatchGenerator` behind our sampler protocol, with caches kept across turns
backend.py     the functions that the pipeline calls
fuse.py        merge adapters and quantized weights into one whole model
"""

from __future__ import annotations

from importlib.util import find_spec

from wordle_rl.config import ConfigError
from wordle_rl.policy.base import Backend

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
