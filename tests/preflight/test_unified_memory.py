"""Laws of room on a Mac: a run that would swap is refused, with what to change; one that fits is not."""

import pytest

pytest.importorskip("torch")


from wordle_rl.config import ConfigError, load_config
from wordle_rl.policy.numbers import ModelNumbers
from wordle_rl.preflight.memory import check_unified, unified_memory, unified_works

GIB = 1024**3
GEMMA_4B = ModelNumbers(
    3_880_099_328, 3_880_099_328, 34, 8, 4, 256, 2560, 10_240, 262_208, 2, context=131_072, trainable_bytes=2
)
LORA = {"num_trainable": 32_788_480, "num_parameters": 3_912_887_808, "trainable_bytes": 4}


def numbers(**changes: int) -> ModelNumbers:
    return ModelNumbers(**{**{name: getattr(GEMMA_4B, name) for name in GEMMA_4B.__slots__}, **changes})


def config(**options: object):
    named = {tuple(name.split("__")): value for name, value in options.items()}
    base = {("backend",): "mlx", ("max_completion_tokens",): 256, ("grpo", "groups_per_step"): 1}
    return load_config(None, {**base, **named})


def problems(gib: float, model: ModelNumbers, **options: object) -> list[str]:
    works = unified_works(config(**options), model, 1000, 2000, num_secrets=8)
    return [finding.message for finding in check_unified(works, unified_memory(gib)) if finding.level == "problem"]


def test_the_gpu_has_two_thirds_of_a_small_mac_and_three_quarters_of_a_large_one() -> None:
    assert unified_memory(16).num_bytes == 16 * GIB * 2 // 3
    assert unified_memory(48).num_bytes == 36 * GIB
    with pytest.raises(ConfigError, match=r"--memory-gib 0 "):
        unified_memory(0)


SMALL = {"rl__group_size": 2, "model__micro_batch_size": 1, "sft__batch_size": 1, "model__gradient_checkpointing": True,
         "max_batch_size": 2}  # fmt: skip


def test_gemma_4b_trained_whole_is_refused_on_both_and_adapters_fit_the_larger_one() -> None:
    for gib, width in ((16, 2), (48, 4)):
        whole = problems(gib, numbers(weight_bytes=width, trainable_bytes=width), **SMALL)
        assert any(message.startswith("sft ") for message in whole)
    adapted = numbers(**LORA)
    assert problems(48, adapted, **SMALL) == []
    assert problems(16, adapted, **{**SMALL, "rl__group_size": 16, "model__micro_batch_size": 8}) != []


def test_a_larger_group_is_what_fills_it() -> None:
    adapted, sizes = numbers(**LORA), {}
    for size in (2, 4, 8):
        works = unified_works(config(**{**SMALL, "rl__group_size": size}), adapted, 1000, 2000, num_secrets=2)
        sizes[size] = works["grpo"].total
    per_game = 2 * 2 * 34 * 4 * 256 * 2 * 2000  # twice a key and a value per token, layer and head, in 16 bits
    assert sizes[4] - sizes[2] == 2 * per_game
    assert sizes[8] - sizes[4] == 4 * per_game
