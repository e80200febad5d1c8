"""Build whole model directories from an adapter and its base, or from the shards of a distributed checkpoint.

Both are verified. A merged model is read back and compared with the unmerged one on the same tokens. Gathered shards
must fill exactly the weights of the model.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from transformers import AutoModelForCausalLM, PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.policy.adapters import base_of, is_adapter, merged
from wordle_rl.policy.loading import load_codec, load_model, save_model, written_whole
from wordle_rl.policy.multimodal import language_config
from wordle_rl.runs import RunError

Dtype = Literal["auto", "float32", "bfloat16"]
SHARDS = "pytorch_model_fsdp_0"
"""Directory in a checkpoint that holds the shards of its weights."""
_PROBE_LENGTH = 64
_TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}
"""Largest distance of logits (see `checked`) that rounding of weights explains."""
INDEX = ".metadata"
"""File that says where each tensor is stored."""

_METADATA = "torch.distributed.checkpoint.metadata"
_ALLOWED = {
    *((_METADATA, name) for name in (
        "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
        "TensorStorageMetadata", "_MEM_FORMAT_ENCODING",
    )),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("torch", "device"),
    ("pathlib", "PosixPath"),
    ("pathlib", "WindowsPath"),
    ("pathlib", "Path"),
    ("collections", "OrderedDict"),
}  # fmt: skip
"""Names that an index of tensors needs. All of them only hold values."""


def merge(adapter: Path, out: Path, dtype: Dtype = "auto") -> float:
    """Merge an adapter into its base model and save an ordinary model directory.

    Weights are added in float32 and stored as `dtype`; `auto`: that of the base model's files. Return the distance
    between the logits of the saved model and the unmerged one. If it is too large, nothing is left behind.
    """
    if not is_adapter(adapter):
        raise ConfigError(f"{adapter} is no adapter (it has no adapter_config.json), so there is nothing to merge")
    check_empty(out)
    stored_in = _stored_dtype(base_of(adapter)) if dtype == "auto" else dtype
    model, codec = load_model(ModelSettings(path=str(adapter)), 0)
    probe = probe_tokens(codec, model.config.get_text_config().vocab_size)
    expected = _logits(model, probe)
    whole = merged(model)
    save_model(whole.to(getattr(torch, stored_in)), codec, out)
    del model, whole
    return checked(out, _logits(load_model(ModelSettings(path=str(out)), 0)[0], probe), expected, stored_in)


def copy(model: Path, out: Path) -> None:
    """Copy a whole model, without the checkpoints beside it."""
    check_empty(out)
    with written_whole(out) as partial:
        partial.mkdir(parents=True, exist_ok=True)
        for file in model.iterdir():
            if file.is_file():
                shutil.copyfile(file, partial / file.name)


def checked(out: Path, found: np.ndarray, expected: np.ndarray, dtype: str) -> float:
    """Return the distance of a saved model's logits from the expected ones; delete the model if it is too large.

    The distance is the root mean square difference, in standard deviations of `expected`.
    """
    difference = float(np.sqrt(np.square(found - expected).mean()) / expected.std())
    if not difference <= _TOLERANCE[dtype]:  # written so that NaN fails too
        shutil.rmtree(out)
        raise RunError(
            f"the merged model is not the unmerged one: logits differ by {difference:.3g} standard deviations, "
            f"{_TOLERANCE[dtype]:g} are allowed in {dtype}; play the adapter as it is, or merge with --dtype float32"
        )
    return difference


def probe_tokens(codec: ChatCodec, vocabulary: int) -> torch.Tensor:
    """Return token ids to compare two models on, shape (1, 64): the start of a prompt, then random tokens."""
    generator = torch.Generator().manual_seed(0)
    words = codec.encode("Guess the secret word.")[: _PROBE_LENGTH // 2]
    rest = torch.randint(vocabulary, (_PROBE_LENGTH - len(words),), generator=generator)
    return torch.cat([torch.tensor(words, dtype=torch.long), rest])[None]


@torch.no_grad()
def _logits(model: PreTrainedModel, tokens: torch.Tensor) -> np.ndarray:
    logits: torch.Tensor = model.eval()(input_ids=tokens.to(model.device)).logits
    return logits.float().cpu().numpy()


def _stored_dtype(base: str) -> str:
    # The type in which a model's files hold its weights.
    dtype = str(getattr(language_config(base).get_text_config(), "dtype", None)).removeprefix("torch.")
    return dtype if dtype in _TOLERANCE else "float32"


def is_sharded(checkpoint: Path) -> bool:
    """Return True if the weights of a checkpoint are sharded over several processes' files."""
    return (checkpoint / SHARDS).is_dir() or (checkpoint / INDEX).is_file()


def consolidate(checkpoint: Path, out: Path) -> int:
    """Gather a checkpoint made under FSDP (shards, config.json and tokenizer) into one model directory.

    Return the number of weights (tensors).
    """
    shards = checkpoint / SHARDS if (checkpoint / SHARDS).is_dir() else checkpoint
    if not (shards / INDEX).is_file():
        raise ConfigError(f"{checkpoint} holds no sharded checkpoint: neither it nor {SHARDS} in it has a {INDEX}")
    if not (checkpoint / "config.json").is_file():
        raise ConfigError(f"{checkpoint} has no config.json; copy that of the model it was trained from into it")
    check_empty(out)
    codec = load_codec(ModelSettings(path=str(checkpoint)))
    model = AutoModelForCausalLM.from_config(language_config(str(checkpoint)), trust_remote_code=False)
    weights = read_shards(shards)
    try:
        found = model.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise RunError(f"{shards} does not fit its config.json: {str(error).strip().splitlines()[-1]}") from None
    tied = set(getattr(model, "_tied_weights_keys", None) or ()) if model.config.tie_word_embeddings else set()
    if wrong := [*sorted(set(found.missing_keys) - tied), *found.unexpected_keys]:
        raise RunError(f"{shards} and the model differ in {wrong[0]}; copy the whole checkpoint again")
    save_model(model.to(next(iter(weights.values())).dtype), codec, out)
    return len(weights)


def check_empty(out: Path) -> None:
    """Check that a directory to write is empty or missing."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is not empty; name another --out")


class _IndexReader(pickle.Unpickler):
    """Read an index, and refuse every name that it does not need."""

    def find_class(self, module: str, name: str) -> Any:
        module = "pathlib" if module == "pathlib._local" else module  # Python 3.13 writes this name
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if is_dtype or (module, name) in _ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def read_shards(directory: Path) -> dict[str, torch.Tensor]:
    """Read the tensors of a distributed checkpoint by name, in this one process."""
    _check_index(directory)
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole.pt"
        dcp_to_torch_save(directory, whole)
        found: dict[str, Any] = torch.load(whole, map_location="cpu", weights_only=True)
    while len(found) == 1 and isinstance(next(iter(found.values())), dict):  # {"model": {...}}
        found = next(iter(found.values()))
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def _check_index(directory: Path) -> None:
    # torch unpickles the index without checks, so it is checked first.
    path, advice = directory / INDEX, "use only checkpoints that you trained, and copy this one again"
    try:
        with path.open("rb") as file:
            index = _IndexReader(file).load()
    except Exception as error:  # a damaged pickle raises errors of many kinds
        raise RunError(f"{path} is no index of tensors ({error}); {advice}") from None
    if not isinstance(index, Metadata):
        raise RunError(f"{path} is no index of tensors; {advice}")
    for name, entry in index.state_dict_metadata.items():
        if not isinstance(entry, TensorStorageMetadata):
            raise RunError(f"{path} lists {name!r}, a pickle and no tensor, which is not loaded; {advice}")
    for place in (index.storage_data or {}).values():
        if Path(place.relative_path).name != place.relative_path:
            raise RunError(f"{path} names the file {place.relative_path!r} outside its directory; {advice}")
