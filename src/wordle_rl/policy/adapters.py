"""Low-rank adapters (LoRA, QLoRA) on a base model: make them, load them, check what they need.

A trained adapter is a directory with the small weights, the tokenizer, and `adapter_config.json`, which names the base
model. A training that starts from an adapter trains it further.
Source: LoRA, arXiv:2106.09685; QLoRA, arXiv:2305.14314.

peft, and with it bitsandbytes, takes seconds to import, so only what works on adapters imports it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from transformers import BitsAndBytesConfig, PreTrainedModel

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import LoraSettings
from wordle_rl.errors import first_line
from wordle_rl.policy.directory import converted_path
from wordle_rl.runs import RunError, read_object

if TYPE_CHECKING:
    from peft import PeftModel

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


def is_adapter(path: str | Path) -> bool:
    """Return True if a path is an adapter's directory."""
    return (Path(path) / ADAPTER_CONFIG).is_file()


def base_of(directory: Path) -> str:
    """Return the directory or hub name of an adapter's base model."""
    path = directory / ADAPTER_CONFIG
    try:
        base = read_object(path).get("base_model_name_or_path")
    except RunError as error:
        raise ConfigError(f"{path} is damaged ({error}); copy the adapter again") from None
    if not base:
        raise ConfigError(f"{path} names no base model; set base_model_name_or_path in it")
    if Path(base).is_absolute() and not Path(base).exists():
        raise ConfigError(f"{directory} needs its base model {base}, which is missing; correct the path in {path}")
    return converted_path(str(base))


def merged(model: PreTrainedModel) -> PreTrainedModel:
    """Fold adapters into their base model. Low-rank changes of its embedding or its head untie the two."""
    ends: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    if any("lora_" in name for end in ends if end is not None for name, _ in end.named_parameters()):
        # As one tensor, both would get the changes of both.
        head = getattr(ends[1], "base_layer", ends[1])
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
        model.config.tie_word_embeddings = False
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Input and output embeddings are no longer tied")
        return cast("PreTrainedModel", model.merge_and_unload(safe_merge=True))  # type: ignore[operator]  # a PeftModel


def has_adapters(model: object) -> bool:
    """Return True if a model is a base model with adapters."""
    return hasattr(model, "peft_config")


def add_adapters(model: PreTrainedModel, settings: LoraSettings, base: str) -> PreTrainedModel:
    """Add untrained adapters to a model and freeze its own weights. Until trained, they leave its outputs unchanged.

    `base` is the origin of the model; a directory or file is stored by its full path.
    """
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha or 2 * settings.rank,
        target_modules="all-linear",
        exclude_modules=_without_adapters(model),
        task_type="CAUSAL_LM",
    )
    try:
        with _without_needless_warnings():
            adapted = get_peft_model(_prepared(model), config)
    except ValueError as error:
        raise ConfigError(f"model.lora does not fit {base}: {first_line(error)}") from None
    config.base_model_name_or_path = str(Path(base).resolve()) if Path(base).exists() else base
    return cast("PreTrainedModel", adapted)  # a PeftModel forwards attributes to its base model


@contextmanager
def _without_needless_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        # Missing weights of an adapter are an error here. Experts, which are no linear layers, get no adapters, though
        # peft prepares ranks for them.
        warnings.filterwarnings("ignore", message="Found missing adapter keys", category=UserWarning)
        warnings.filterwarnings("ignore", message="The following (rank|alpha)_pattern keys", category=RuntimeWarning)
        # `merge` unties what must be; peft asks for an old name of transformers.
        warnings.filterwarnings("ignore", message="Model has `tie_word_embeddings=True`|You have requested `ensure_w")
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing`", category=FutureWarning)
        yield


def _without_adapters(model: PreTrainedModel) -> list[str] | None:
    # An adapter adds its product to W x. A Linear with a forward of its own (a router, DeepSeek V4's groups) may return
    # anything else; those of bitsandbytes and Falcon return W x. The kernels of Mamba layers read the weights of their
    # last product themselves, past any adapter.
    kinds = {name: type(part) for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)}
    other = {
        name
        for name, kind in kinds.items()
        if kind.forward is not torch.nn.Linear.forward
        and not kind.__module__.startswith("bitsandbytes")
        and kind.__name__ != "FalconLinear"
    }
    mamba = any("Mamba" in type(part).__name__ for part in model.modules())
    return [*sorted(other), *["out_proj"] * mamba] or None


def shape_adapters(model: PreTrainedModel, directory: Path) -> PreTrainedModel:
    """Add adapters of a trained adapter's size, without its weights, to count parameters."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig.from_pretrained(str(directory))
    config.inference_mode = False
    with _without_needless_warnings():
        return cast("PreTrainedModel", get_peft_model(model, config))


def load_adapters(model: PreTrainedModel, directory: Path, wanted: LoraSettings) -> PreTrainedModel:
    """Add a trained adapter to its base model, ready for further training.

    It may come from elsewhere: DoRA, biases, saved modules, trained tokens, adapters on the embedding or the head.
    """
    from peft import PeftModel

    config = read_object(directory / ADAPTER_CONFIG)
    if (kind := config.get("peft_type", "LORA")) != "LORA":
        raise ConfigError(
            f"{directory} is an adapter of the kind {kind}, of which only LORA is loaded; merge it with peft "
            "(merge_and_unload), if that can be merged, and name the whole model"
        )
    if wanted.rank and wanted.rank != config.get("r"):
        raise ConfigError(
            f"model.lora.rank {wanted.rank} is not that of the adapter {directory}, {config.get('r')}; remove "
            "model.lora to train it further, or merge it first (wordle-rl export)"
        )
    advice = (
        f"name its own base in {directory / ADAPTER_CONFIG}, copy the whole adapter again, or, if it enlarged the "
        "vocabulary, merge it with peft (resize_token_embeddings, merge_and_unload)"
    )
    with _without_needless_warnings():
        try:
            adapted: PeftModel = PeftModel.from_pretrained(_prepared(model), str(directory), is_trainable=True)
            # `from_pretrained` keeps to itself what it found no place or no weights for.
            found = adapted.load_adapter(str(directory), "default", is_trainable=True)
            strays = [*found.missing_keys, *found.unexpected_keys][:2]
        except (KeyError, RuntimeError, ValueError) as error:  # a lost module, another size, no such layers
            strays = [str(error).strip().splitlines()[-1].strip()]
    if strays:
        raise ConfigError(f"the adapter {directory} does not fit its base model ({', '.join(strays)}); {advice}")
    return cast("PreTrainedModel", adapted)


def four_bit_arguments(device: torch.device) -> dict[str, Any]:
    """Return arguments of `from_pretrained` for a model in 4 bits (NF4, double quantization)."""
    if find_spec("bitsandbytes") is None:
        raise ConfigError("model.load_in_4bit needs bitsandbytes: pip install bitsandbytes")
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    return {"quantization_config": config, "device_map": {"": device}}


def disable_4bit_repacking(model: torch.nn.Module) -> None:
    """Keep bitsandbytes from repacking 4-bit weights for inference, as it does on CPUs with bfloat16.

    It never undoes that for training, and no gradient flows through the repacked weights.
    """
    for module in model.modules():
        if "support_avx512bf16_for_cpu" in vars(module):
            vars(module)["support_avx512bf16_for_cpu"] = False


def adapters_to_float32(model: torch.nn.Module) -> None:
    """Convert the adapters of a 4-bit model to float32.

    In 16 bits, an update below about a hundredth of its weight is lost, and most updates are smaller at usual rates.
    """
    if getattr(model, "is_loaded_in_4bit", False):
        for weight in model.parameters():
            if weight.requires_grad:
                weight.data = weight.data.float()


def num_four_bit(model: PreTrainedModel) -> int:
    """Count the parameters that `four_bit_arguments` stores in 4 bits: those of all linear layers except the head."""
    head = model.get_output_embeddings()
    layers = (module for module in model.modules() if isinstance(module, torch.nn.Linear) and module is not head)
    return sum(layer.weight.numel() for layer in layers)


def _prepared(model: PreTrainedModel) -> PreTrainedModel:
    if getattr(model, "is_loaded_in_4bit", False):
        from peft import prepare_model_for_kbit_training

        # The trainer switches checkpointing on if asked for.
        return prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)  # type: ignore[no-any-return]
    return model
