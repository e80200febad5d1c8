"""Laws of QLoRA: a base held in 4 bits, adapters trained over it, a merge into the base as it was stored."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("bitsandbytes")

from grpo_training import SETTINGS as GRPO
from grpo_training import Training
from lora_training import LORA, SFT, logits, save_base
from safetensors.torch import load_file
from sft_training import fine_tune
from training_fixtures import compact, make_run, rows

from wordle_rl.config import ModelSettings
from wordle_rl.data.dataset import encode_traces
from wordle_rl.policy.export import merge
from wordle_rl.policy.loading import load_model, load_numbers
from wordle_rl.preflight.memory import Work, estimate


def four_bit(path: Path, lora=LORA) -> ModelSettings:
    return ModelSettings(path=str(path), lora=lora, load_in_4bit=True)


@pytest.fixture
def base(codec, tmp_path) -> Path:
    # Rows of whole blocks of 64, without which bitsandbytes misreads 4-bit weights on processors with AVX-512.
    return save_base(tmp_path / "base", codec, "llama", hidden_size=64, intermediate_size=128, head_dim=32)


@pytest.fixture
def adapter(base, plain_traces, codec, sixty, tmp_path) -> Path:
    model, _ = load_model(four_bit(base), 0)
    examples = encode_traces(plain_traces, compact(), codec, 1000).examples
    return fine_tune(model, codec, examples, SFT, make_run(tmp_path / "run", sixty))


def test_the_base_is_held_in_4_bits_and_says_about_the_same(base) -> None:
    held, _ = load_model(four_bit(base), 0)
    whole, _ = load_model(ModelSettings(path=str(base)), 0)
    packed = {name for name, weight in held.named_parameters() if weight.dtype == torch.uint8}
    assert len(packed) == 2 * 7, "the seven linear layers of each of two blocks"
    assert not any(getattr(module, "support_avx512bf16_for_cpu", False) for module in held.modules())
    assert all("base_layer" in name for name in packed)
    difference = (logits(held) - logits(whole)).square().mean().sqrt() / logits(whole).std()
    assert 1e-4 < difference < 0.3


def bytes_of(weight) -> int:
    """What a parameter holds; one in 4 bits with the scales of its blocks, and the scales of those."""
    state = getattr(weight, "quant_state", None)
    kept = [weight]
    if state is not None:
        kept += [state.absmax, state.code, state.offset, state.state2.absmax, state.state2.code]
    return sum(tensor.nbytes for tensor in kept)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_base_in_4_bits_is_counted_as_it_is_held(dtype, base) -> None:
    settings = four_bit(base).model_copy(update={"dtype": dtype})
    model, _ = load_model(settings, 0)
    numbers = load_numbers(settings)
    packed = [weight for weight in model.parameters() if weight.dtype == torch.uint8]
    assert numbers.num_four_bit == 2 * sum(weight.numel() for weight in packed), "two to a byte"
    assert numbers.num_whole == sum(weight.numel() for weight in model.parameters() if weight.dtype == torch.float32)
    found = estimate(numbers, Work(rows=1, length=10, compute_bytes=2))
    tables = 1200 * len(packed)  # of each layer, whatever its size
    assert found.weights <= sum(map(bytes_of, model.parameters())) <= found.weights + tables
    assert found.gradients == sum(weight.nbytes for weight in model.parameters() if weight.requires_grad)
    whole = load_numbers(ModelSettings(path=str(base), lora=LORA, dtype="bfloat16"))
    assert (whole.num_parameters, whole.num_four_bit) == (numbers.num_parameters, 0)


def test_sft_trains_the_adapter_over_4_bits(adapter, tmp_path) -> None:
    losses = [row["loss"] for row in rows(tmp_path / "run" / "metrics.jsonl")]
    assert losses[-1] < losses[0]
    stored = load_file(adapter / "adapter_model.safetensors")
    assert stored
    assert all("lora_" in name for name in stored)
    assert {weight.dtype for weight in stored.values()} == {torch.float32}


def test_grpo_plays_and_trains_over_4_bits(adapter, tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    start = load_file(adapter / "adapter_model.safetensors")
    model, _ = load_model(four_bit(adapter), 0)
    Training(tokenizer, codec, sixty, monkeypatch)(tmp_path / "rl", GRPO, model=model)
    after = load_file(tmp_path / "rl" / "grpo" / "adapter_model.safetensors")
    assert after.keys() == start.keys()
    assert any(not torch.equal(start[name], after[name]) for name in start)


def test_an_adapter_trained_over_4_bits_is_merged_into_the_stored_base(adapter, base, tmp_path) -> None:
    assert merge(adapter, tmp_path / "merged", "float32") < 1e-5
    stored = load_file(tmp_path / "merged" / "model.safetensors")
    assert {weight.dtype for weight in stored.values()} == {torch.float32}
    assert not any("absmax" in name for name in stored)
