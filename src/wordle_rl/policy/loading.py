"""Load models with their tokenizers, save them, and read their configuration without weights."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as library_logging

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.templates import named_template, training_template
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.errors import UserError, first_line, special_file
from wordle_rl.policy.adapters import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    add_adapters,
    base_of,
    disable_4bit_repacking,
    four_bit_arguments,
    has_adapters,
    is_adapter,
    load_adapters,
    num_four_bit,
    shape_adapters,
)
from wordle_rl.policy.device import check_bf16, device_kind, device_of_process
from wordle_rl.policy.directory import at_directory, retries_in_one_line
from wordle_rl.policy.multimodal import check_shards, language_config, load_language_model
from wordle_rl.policy.sizes import ModelNumbers, context_length, numbers_of
from wordle_rl.policy.tiny import make_model, make_tokenizer
from wordle_rl.runs import cannot_write, is_run, trained_model
from wordle_rl.runs.checksums import check_sealed, seal

SMALL = 20_000_000
"""Models with fewer parameters use plain attention on a CPU."""


def load_model(settings: ModelSettings, seed: int) -> tuple[PreTrainedModel, ChatCodec]:
    """Build the embedded model, or load a directory, GGUF file or hub name, with the codec of its tokenizer."""
    library_logging.disable_progress_bar()  # its bars would tear ours
    named, settings = settings.path, at_directory(settings)
    if settings.path == "tiny":
        tokenizer = make_tokenizer()
        model = _make_tiny(tokenizer, settings, seed)
        model.to(device_of_process())  # type: ignore[arg-type]  # transformers decorates `to` without its type
        codec = _make_codec(tokenizer, settings)
    else:
        with _loading(settings.path):
            tokenizer = AutoTokenizer.from_pretrained(settings.path, trust_remote_code=False)
            model = _load_weights(settings)
            codec = _make_codec(tokenizer, settings)
    if attention := attention_of(settings):
        by_choice = settings.attn_implementation is not None
        # torch's fused attention has no soft-capped logits.
        capped = getattr(model.config.get_text_config(), "attn_logit_softcapping", None) is not None
        fits_sdpa = getattr(model, "_supports_sdpa", False) and not capped
        plain = not by_choice and (model.num_parameters() < SMALL or not fits_sdpa)
        try:
            model.set_attn_implementation("eager" if plain else attention)
        except (ImportError, ValueError) as error:
            raise ConfigError(f"model.attn_implementation {attention!r}: {first_line(error)}") from error
    # A setting for training elsewhere; with it on, no pass with a key/value cache works.
    if getattr(text := model.config.get_text_config(), "output_router_logits", False):
        text.output_router_logits = False
    if is_adapter(settings.path):
        with _loading(settings.path):
            model = load_adapters(model, Path(settings.path), settings.lora)
    elif settings.lora.rank:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = add_adapters(model, settings.lora, named)
    return model, codec


def _make_tiny(tokenizer: PreTrainedTokenizerBase, settings: ModelSettings, seed: int) -> PreTrainedModel:
    sizes = ("hidden_size", "num_layers", "num_heads", "num_kv_heads", "intermediate_size", "max_length")
    model = make_model(tokenizer, **{name: getattr(settings, name) for name in sizes}, seed=seed)
    return model if settings.dtype == "auto" else model.to(getattr(torch, settings.dtype))


def _load_weights(settings: ModelSettings) -> PreTrainedModel:
    # For an adapter, these are the weights of its base model.
    dtype = "auto" if settings.dtype == "auto" else getattr(torch, settings.dtype)
    extra = four_bit_arguments(device_of_process()) if settings.load_in_4bit else {}
    model = load_language_model(_weights_path(settings), dtype, **extra)
    if settings.load_in_4bit:
        disable_4bit_repacking(model)
    else:
        model.to(device_of_process())  # type: ignore[arg-type]
    return model


def attention_of(settings: ModelSettings) -> str | None:
    """Return the attention implementation, or None for the library's choice.

    On a CPU, plain attention is twice as fast for a small model's short games, and `load_model` uses it for every small
    model. With the long prompts of a pretrained model it would double the memory of a backward pass.
    """
    attention = settings.attn_implementation
    if attention is None and device_kind() != "cuda":
        return "eager" if settings.path == "tiny" else "sdpa"
    if attention == "flash_attention_2" and find_spec("flash_attn") is None:
        raise ConfigError(
            "model.attn_implementation 'flash_attention_2' needs a package that is not installed: "
            "pip install flash-attn, or use 'sdpa'"
        )
    if attention == "flash_attention_2" and settings.dtype == "float32":
        raise ConfigError(
            "model.attn_implementation 'flash_attention_2' computes in 16 bits; set model.dtype to 'bfloat16'"
        )
    return attention


def check_packages(settings: ModelSettings) -> None:
    """Check packages and hardware before anything is loaded."""
    attention_of(settings)
    if settings.dtype == "bfloat16":
        check_bf16('model.dtype "bfloat16"')
    if settings.load_in_4bit:
        four_bit_arguments(device_of_process())


def load_codec(settings: ModelSettings) -> ChatCodec:
    """Return a model's codec without loading weights."""
    if settings.path == "tiny":
        return _make_codec(make_tokenizer(), settings)
    settings = at_directory(settings)
    with _loading(settings.path, weights=False):
        tokenizer = AutoTokenizer.from_pretrained(settings.path, trust_remote_code=False)
        language_config(_weights_path(settings))  # refuses a model that cannot play
        return _make_codec(tokenizer, settings)


def _weights_path(settings: ModelSettings) -> str:
    return base_of(Path(settings.path)) if is_adapter(settings.path) else settings.path


def _make_codec(tokenizer: PreTrainedTokenizerBase, settings: ModelSettings) -> ChatCodec:
    # The tokenizer also gets the template, so that it renders conversations as the codec does.
    if settings.chat_template is not None:
        tokenizer.chat_template = named_template(settings.chat_template, tokenizer)
    tokenizer.chat_template = training_template(tokenizer, settings.template_kwargs)
    return ChatCodec(tokenizer, settings.template_kwargs, _published_stops(tokenizer, settings))


def _published_stops(tokenizer: PreTrainedTokenizerBase, settings: ModelSettings) -> list[int]:
    # Special tokens at which the model's makers let it stop. Ordinary ones are ignored: a stop inside words would cut
    # replies, and many small models list one by mistake.
    if settings.path == "tiny":
        return []
    try:
        named = GenerationConfig.from_pretrained(_weights_path(settings)).eos_token_id
    except OSError:  # no such file; an unreachable hub has failed earlier
        return []
    ids = named if isinstance(named, list) else [named]
    return [i for i in ids if (token := tokenizer.added_tokens_decoder.get(i)) is not None and token.special]


@contextmanager
def _loading(path: str, *, weights: bool = True) -> Iterator[None]:
    # Report faults of a model directory or hub name in one line; files that are lost or changed come first.
    check_sealed(Path(path), weights=weights)
    _check_directory(path)
    if is_adapter(path):
        check_sealed(Path(base_of(Path(path))), weights=weights)
    try:
        with retries_in_one_line():
            yield
    except UserError:
        raise
    except Exception as error:
        # Foreign code reads foreign files, and raises whatever they lead it to. What our own lines raise is a bug.
        *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith("wordle_rl"):
            raise
        raise ConfigError(f"cannot load a model from {path!r}: {first_line(error)}") from error


def _check_directory(path: str) -> None:
    # A path that looks local must hold a whole model, or transformers would ask the hub for it.
    directory = Path(path)
    if is_run(directory) and (model := trained_model(directory)) != directory:
        fix = "train one in it, or name another" if model is None else f"name its trained model, {model}"
        raise ConfigError(f"{path} is a run directory, not a model; {fix}")
    if directory.is_dir():
        if special := next(filter(special_file, sorted(directory.iterdir())), None):
            raise ConfigError(f"{special} is {special_file(special)}; copy the model again")
        if is_adapter(directory):
            if not (directory / ADAPTER_WEIGHTS).is_file():
                raise ConfigError(f"{path} holds {ADAPTER_CONFIG} but no {ADAPTER_WEIGHTS}; copy the whole adapter")
        elif not (directory / "config.json").is_file():
            raise ConfigError(f"{path} is no model directory: it has no config.json")
        if not any(directory.glob("*.safetensors")) and (
            pickles := [*directory.glob("*.bin"), *directory.glob("*.pth")]
        ):
            raise ConfigError(
                f"{path} holds its weights as a pickle ({pickles[0].name}), which can run code and is not loaded; have "
                "it saved as safetensors"
            )
        check_shards(path)
        for file in sorted(directory.glob("*.safetensors")):
            try:
                with safe_open(file, framework="pt"):  # reads only the header, and checks it against the file's size
                    pass
            except SafetensorError as error:
                raise ConfigError(f"{file} is damaged ({error}); copy or train the model again") from None
    elif directory.exists() or path.startswith((".", "/", "~", "runs/")):
        raise ConfigError(f"no model directory {path}; name an existing one")


def save_model(
    model: PreTrainedModel, codec: ChatCodec, directory: Path, state_dict: dict[str, Any] | None = None
) -> None:
    """Save weights, tokenizer and training chat template to a directory, atomically.

    Of a model with adapters only these are saved. Other files in the directory stay. `state_dict` holds all weights if
    the model is only a shard of them. The stored generation settings name every token that ends a turn, so that servers
    stop where the policy does.
    """
    if model.generation_config is not None:
        stops = sorted(codec.stop_ids)
        model.generation_config.eos_token_id = stops if len(stops) > 1 else stops[0]
    with written_whole(directory) as partial:
        if has_adapters(model):
            # Save only the trained adapter; a second one may be the reference of a KL penalty.
            model.save_pretrained(
                str(partial), state_dict=state_dict, selected_adapters=["default"], save_embedding_layers=False
            )
            (partial / "README.md").unlink(missing_ok=True)  # peft's empty model card
        else:
            model.save_pretrained(partial, state_dict=state_dict)
        codec.tokenizer.save_pretrained(partial)


@contextmanager
def written_whole(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory beside `directory`; once all files are written, list them (`seal`) and move them."""
    partial = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a kill
    try:
        yield partial
        seal(partial)
        directory.mkdir(parents=True, exist_ok=True)
        for file in partial.iterdir():
            file.replace(directory / file.name)
    except (OSError, SafetensorError) as error:
        raise cannot_write(directory, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def load_weights(model: PreTrainedModel, directory: Path) -> None:
    """Load weights that `save_model` wrote back into a model; for adapters, only theirs."""
    if has_adapters(model):
        from peft import set_peft_model_state_dict

        check_sealed(directory)
        stored = load_file(directory / ADAPTER_WEIGHTS, device=str(model.device))
        set_peft_model_state_dict(model, stored)
        return
    with _loading(str(directory)):
        # Load through transformers: it may store weights under other names, or split differently, than the model.
        saved = load_language_model(str(directory), "auto")
    model.load_state_dict(saved.state_dict())


def context_budget(model: PreTrainedModel, sampling: SamplingSettings) -> int | None:
    """Return the longest prompt that leaves room for a completion in the context; None if the context is unknown."""
    context = context_length(model)
    if context is None:
        return None
    budget = context - sampling.max_completion_tokens
    if budget < 1:
        raise ConfigError(
            f"max_completion_tokens {sampling.max_completion_tokens} leaves no room for a prompt in the model's "
            f"context of {context} tokens; lower it"
        )
    return budget


def load_numbers(settings: ModelSettings) -> ModelNumbers:
    """Compute a model's sizes from its configuration alone, without weights."""
    if settings.path == "tiny":
        with torch.device("meta"):
            model, four_bit = _make_tiny(make_tokenizer(), settings, 0), 0
    else:
        settings = at_directory(settings)
        with _loading(settings.path, weights=False), torch.device("meta"):
            config = language_config(_weights_path(settings))
            dtype = config.dtype if settings.dtype == "auto" else getattr(torch, settings.dtype)
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
            four_bit = num_four_bit(model) if settings.load_in_4bit else 0
            if is_adapter(settings.path):
                model = shape_adapters(model, Path(settings.path))
            elif settings.lora.rank:
                model = add_adapters(model, settings.lora, settings.path)
    # With 4-bit layers, peft trains with everything else in float32.
    weight_bytes = torch.float32.itemsize if settings.load_in_4bit else model.dtype.itemsize
    return numbers_of(model, weight_bytes, four_bit)
