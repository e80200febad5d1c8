"""Build whole model directories from an adapter and its base, or from the shards of a distributed checkpoint.

Both are verified. A merged model is read back and compared with the unmerged one on the same tokens. Gathered shards
must fill exactly the weights of the model.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, ModelSettings
from wordle_rl.policy.adapters import base_of, is_adapter
from wordle_rl.policy.loading import load_codec, load_model, save_model
from wordle_rl.policy.multimodal import language_config
from wordle_rl.policy.shards import INDEX, read_shards
from wordle_rl.runs import RunError

Dtype = Literal["auto", "float32", "bfloat16"]
_SHARDS = "pytorch_model_fsdp_0"
_PROBE_LENGTH = 64
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 0.02}
"""Largest distance of logits (see `distance`) that rounding of weights explains."""


def merge(adapter: Path, out: Path, dtype: Dtype = "auto") -> float:
    """Merge an adapter into its base model and save an ordinary model directory.

    Args:
        adapter: Directory of the adapter.
        out: The new directory.
        dtype: Type of the stored weights; `auto`: that of the base model's files. Weights are added in float32.

    Returns:
        The distance between the logits of the saved model and the unmerged one.

    Raises:
        ConfigError: If there is no adapter, or `out` is not empty.
        RunError: If the logits differ too much, or the model cannot be saved. Nothing is left behind.
    """
    if not is_adapter(adapter):
        raise ConfigError(f"{adapter} is no adapter (it has no adapter_config.json), so there is nothing to merge")
    _check_empty(out)
    stored_in = _stored_dtype(base_of(adapter)) if dtype == "auto" else getattr(torch, dtype)
    model, codec = load_model(ModelSettings(path=str(adapter)), 0)
    probe = probe_tokens(codec, model.config.get_text_config().vocab_size)
    expected = _logits(model, probe)
    whole: PreTrainedModel = model.merge_and_unload(safe_merge=True)  # type: ignore[operator]  # a PeftModel
    save_model(whole.to(stored_in), codec, out)  # type: ignore[arg-type]
    del model, whole
    found = _logits(load_model(ModelSettings(path=str(out)), 0)[0], probe)
    difference = distance(found, expected)
    if not difference <= _TOLERANCE[stored_in]:  # written so that NaN fails too
        shutil.rmtree(out)
        raise RunError(
            f"the merged model is not the unmerged one: logits differ by {difference:.3g} standard deviations, "
            f"{_TOLERANCE[stored_in]:g} are allowed in {str(stored_in).removeprefix('torch.')}; "
            "play the adapter as it is, or merge with --dtype float32"
        )
    return difference


def distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the root mean square difference, in standard deviations of `expected`."""
    return float((found - expected).square().mean().sqrt() / expected.std())


def probe_tokens(codec: ChatCodec, vocabulary: int) -> torch.Tensor:
    """Return token ids to compare two models on, shape (1, 64): the start of a prompt, then random tokens."""
    generator = torch.Generator().manual_seed(0)
    words = codec.encode("Guess the secret word.")[: _PROBE_LENGTH // 2]
    rest = torch.randint(vocabulary, (_PROBE_LENGTH - len(words),), generator=generator)
    return torch.cat([torch.tensor(words, dtype=torch.long), rest])[None]


@torch.no_grad()
def _logits(model: PreTrainedModel, tokens: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model.eval()(input_ids=tokens.to(model.device)).logits
    return logits.float().cpu()


def _stored_dtype(base: str) -> torch.dtype:
    # The type in which a model's files hold its weights.
    dtype = getattr(language_config(base).get_text_config(), "dtype", None)
    dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    return dtype if dtype in _TOLERANCE else torch.float32


def is_sharded(checkpoint: Path) -> bool:
    """Return True if the weights of a checkpoint are sharded over several processes' files."""
    return (checkpoint / _SHARDS).is_dir() or (checkpoint / INDEX).is_file()


def consolidate(checkpoint: Path, out: Path) -> int:
    """Gather a sharded checkpoint into one model directory.

    Args:
        checkpoint: A training checkpoint made under FSDP: shards, config.json and tokenizer.
        out: The new directory.

    Returns:
        The number of weights (tensors).

    Raises:
        ConfigError: If this is no such checkpoint, or `out` is not empty.
        RunError: If the shards do not hold exactly the weights of the model.
    """
    shards = checkpoint / _SHARDS if (checkpoint / _SHARDS).is_dir() else checkpoint
    if not (shards / INDEX).is_file():
        raise ConfigError(f"{checkpoint} holds no sharded checkpoint: neither it nor {_SHARDS} in it has a {INDEX}")
    if not (checkpoint / "config.json").is_file():
        raise ConfigError(f"{checkpoint} has no config.json; copy that of the model it was trained from into it")
    _check_empty(out)
    codec, _ = load_codec(ModelSettings(path=str(checkpoint)))
    model = AutoModelForCausalLM.from_config(language_config(str(checkpoint)), trust_remote_code=False)
    weights = read_shards(shards)
    tied = set(getattr(model, "_tied_weights_keys", None) or ()) if model.config.tie_word_embeddings else set()
    expected = set(model.state_dict())
    missing, strays = expected - set(weights) - tied, set(weights) - expected
    if missing or strays:
        what = f"lacks {sorted(missing)[0]}" if missing else f"holds {sorted(strays)[0]}, which the model has not"
        raise RunError(f"{shards} is not a checkpoint of this model: it {what}; copy the whole checkpoint again")
    try:
        model.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise RunError(f"{shards} does not fit its config.json: {str(error).strip().splitlines()[-1]}") from None
    save_model(model.to(next(iter(weights.values())).dtype), codec, out)
    return len(weights)


def _check_empty(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is not empty; name another --out")
