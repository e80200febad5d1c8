"""Read the tensors of a distributed checkpoint, and their index, a pickle, without running it."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from wordle_rl.runs import RunError

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


class _IndexReader(pickle.Unpickler):
    """Read an index, and refuse every name that it does not need."""

    def find_class(self, module: str, name: str) -> Any:
        module = "pathlib" if module == "pathlib._local" else module  # Python 3.13 writes this name
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if is_dtype or (module, name) in _ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def read_shards(directory: Path) -> dict[str, torch.Tensor]:
    """Read the tensors of a distributed checkpoint by name, in this one process.

    Raises:
        RunError: If the index is damaged, could run code, or lists anything but tensors in files of the directory.
    """
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
