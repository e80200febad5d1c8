"""Laws of adapters: the base stays as it is, training goes on with them, and a merge says what the adapter said."""

import json
import shutil
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from grpo_training import SETTINGS as GRPO
from grpo_training import Training
from lora_training import FAMILIES, LORA, SFT, logits, save_base
from round_training import token_logprobs
from safetensors.torch import load_file, save_file
from sft_training import fine_tune
from small_models import HYBRID, hybrid_model
from training_fixtures import StopAt, compact, fast, make_run, rows, same_bits

import wordle_rl.policy.whole_models as export_module
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import LoraSettings, ModelSettings
from wordle_rl.policy.adapters import add_adapters, load_adapters
from wordle_rl.policy.directory import find_model
from wordle_rl.policy.loading import load_codec, load_model, load_numbers, save_model
from wordle_rl.policy.whole_models import merge
from wordle_rl.preflight.memory import training_bytes, weight_bytes
from wordle_rl.runs import RunError
from wordle_rl.runs.checksums import SEAL_FILE
from wordle_rl.train.example import encode_traces
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.loss import CrossEntropy


def model_in(directory: Path, **settings: object):
    return load_model(ModelSettings(path=str(directory), **settings), 0)[0]


@pytest.fixture
def base(codec, tmp_path) -> Path:
    return save_base(tmp_path / "base", codec)


@pytest.fixture
def adapt(plain_traces, codec, sixty, tmp_path):
    """Train an adapter on a base by SFT; its directory."""

    def train(base: Path, **settings: object) -> Path:
        examples = encode_traces(plain_traces, compact(), codec, 1000).examples
        model = model_in(base, lora=LORA, **settings)
        return fine_tune(model, codec, examples, SFT, make_run(tmp_path / "run", sixty))

    return train


@pytest.fixture
def adapter(base, adapt) -> Path:
    return adapt(base)


@pytest.mark.parametrize("family", FAMILIES)
def test_sft_trains_the_adapter_alone_and_it_comes_back_with_its_tokenizer(family, adapt, codec, tmp_path) -> None:
    base = save_base(tmp_path / "base", codec, family)
    before = load_file(base / "model.safetensors")
    untouched, fresh = model_in(base), model_in(base, lora=LORA)
    assert torch.equal(logits(untouched), logits(fresh)), "an untrained adapter changes nothing"
    trainable = {name for name, parameter in fresh.named_parameters() if parameter.requires_grad}
    assert all("lora_" in name for name in trainable)
    layers = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert {name.split(".lora_")[0].rsplit(".", 1)[1] for name in trainable} == layers

    directory = adapt(base)
    losses = [row["loss"] for row in rows(tmp_path / "run" / "metrics.jsonl")]
    assert losses[-1] < losses[0]
    assert json.loads((directory / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base)
    assert not (directory / "model.safetensors").exists()
    assert same_bits(load_file(base / "model.safetensors"), before)
    assert (logits(model_in(directory)) - logits(untouched)).abs().max() > 1e-3
    again = load_codec(ModelSettings(path=str(directory)))
    assert again.turn_end_ids == codec.turn_end_ids
    assert again.tokenizer.chat_template == codec.tokenizer.chat_template
    assert find_model(tmp_path / "run") == directory


def test_the_kl_penalty_of_an_adapter_is_measured_against_the_sft_adapter(
    adapter, tokenizer, codec, sixty, tmp_path, monkeypatch
) -> None:
    """Not against the bare base model, from which the SFT adapter is far away by now; after a resume neither."""
    train = Training(tokenizer, codec, sixty, monkeypatch)
    settings = GRPO.model_copy(update={"beta": 0.1, "steps": 2})
    first, second, sft = (model_in(adapter) for _ in range(3))
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "rl", settings, model=first, progress=StopAt(1))
    train(tmp_path / "rl", settings, model=second)
    measured = [row["kl"] for row in rows(tmp_path / "rl" / "metrics.jsonl")]
    estimates = []
    with torch.no_grad():
        for example in (example for batch in train.micro_batches[1] for example in batch):
            ids = list(example.token_ids)
            policy, reference = (token_logprobs(model, ids[:1], ids[1:]) for model in (first, sft))
            ratios = (reference - policy)[torch.tensor(example.loss_mask[1:]).bool()]
            estimates.append(ratios.exp() - 1 - ratios)
    assert measured == pytest.approx([0.0, float(torch.cat(estimates).mean())], rel=1e-3, abs=1e-6)
    assert measured[1] > 1e-5
    names = {path.name for path in (tmp_path / "rl" / "grpo").iterdir()}
    assert "ref" not in names, "the reference is not part of what was trained"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.1)])
def test_a_merged_model_says_what_the_adapter_said(family, dtype, tolerance, codec, tmp_path) -> None:
    base = save_base(tmp_path / "base", codec, family)
    model = model_in(base, lora=LORA)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05, generator=torch.Generator().manual_seed(len(name)))
    save_model(model, codec, tmp_path / "adapter")
    assert merge(tmp_path / "adapter", tmp_path / "merged", dtype) < tolerance
    stored = load_file(tmp_path / "merged" / "model.safetensors")
    assert {weight.dtype for weight in stored.values()} == {getattr(torch, dtype)}
    merged = logits(model_in(tmp_path / "merged"))
    to_unmerged, to_base = ((merged - logits(other)).std() / logits(other).std() for other in (model, model_in(base)))
    assert to_unmerged < tolerance
    assert to_base > 3 * tolerance


@pytest.mark.parametrize("architecture", HYBRID)
def test_adapters_on_other_layers_learn_come_back_and_are_merged(architecture, plain_traces, codec, tmp_path) -> None:
    save_model(hybrid_model(architecture, codec), codec, tmp_path / "base")
    learner = TorchLearner(model_in(tmp_path / "base", lora=LORA), codec, precision="fp32")
    learner.start(fast(), 10)
    examples = encode_traces(plain_traces[:8], compact(), codec, 1000).examples
    losses = [learner.update([examples], CrossEntropy(), step).loss for step in range(1, 11)]
    assert losses[-1] < losses[0] - 0.2
    learner.save_model(tmp_path / "adapter")
    assert torch.allclose(logits(model_in(tmp_path / "adapter")), logits(learner.model), atol=1e-5)
    assert merge(tmp_path / "adapter", tmp_path / "merged") < 1e-3


ENDS = ["embed_tokens", "lm_head"]
ELSEWHERE = {
    "scaled ranks": {"target_modules": "all-linear", "use_rslora": True},
    "biases": {"target_modules": "all-linear", "bias": "all"},
    "DoRA": {"target_modules": "all-linear", "use_dora": True},
    "a saved head": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"], "use_dora": True},
    "both ends saved": {"target_modules": ["q_proj"], "modules_to_save": ENDS},
    "saved as one": {"target_modules": ["q_proj"], "modules_to_save": ENDS, "ensure_weight_tying": True},
    "an adapted embedding": {"target_modules": ["q_proj", "embed_tokens"]},
    "both ends adapted": {"target_modules": ["q_proj", *ENDS]},
    "trained tokens": {"target_modules": ["q_proj"], "trainable_token_indices": [3, 50]},
}
"""Adapters as users of peft make them."""


def by_peft(base: Path, codec, directory: Path, **settings: object) -> torch.Tensor:
    """Store an adapter that peft made of a base; its logits."""
    from peft import LoraConfig, get_peft_model

    with warnings.catch_warnings(action="ignore"):
        model = get_peft_model(model_in(base), LoraConfig(r=4, task_type="CAUSAL_LM", **settings))
        model.peft_config["default"].base_model_name_or_path = str(base)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.requires_grad:
                    weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(name))) / 10)
        model.save_pretrained(directory)
    codec.tokenizer.save_pretrained(directory)
    return logits(model)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_an_adapter_from_elsewhere_says_what_it_said_learns_and_is_merged(
    kind, tied, plain_traces, codec, tmp_path
) -> None:
    base, adapter = save_base(tmp_path / "base", codec, tie_word_embeddings=tied), tmp_path / "adapter"
    said = by_peft(base, codec, adapter, **ELSEWHERE[kind])
    assert torch.equal(logits(model_in(adapter)), said)
    assert (logits(model_in(base)) - said).std() > 1e-2 * said.std()
    assert merge(adapter, tmp_path / "merged") < 1e-5
    learner = TorchLearner(model_in(adapter), codec, precision="fp32")
    counted = load_numbers(ModelSettings(path=str(adapter)))
    assert counted.num_trainable == sum(w.numel() for w in learner.model.parameters() if w.requires_grad)
    learner.start(fast(), 3)
    examples = encode_traces(plain_traces[:8], compact(), codec, 1000).examples
    losses = [learner.update([examples], CrossEntropy(), step).loss for step in (1, 2, 3)]
    assert losses[-1] < losses[0]
    learner.save_model(tmp_path / "trained")
    assert torch.allclose(logits(model_in(tmp_path / "trained")), logits(learner.model), atol=1e-5)


@pytest.mark.parametrize("fault", ["a lost module", "a stranger", "another size", "another kind"])
def test_an_adapter_of_another_base_is_refused_by_what_does_not_fit(fault, base, codec, tmp_path) -> None:
    adapter = tmp_path / "adapter"
    by_peft(base, codec, adapter, target_modules=["q_proj"], modules_to_save=["lm_head"])
    config, file = adapter / "adapter_config.json", adapter / "adapter_model.safetensors"
    weights, named = load_file(file), "lm_head"
    head = next(name for name in weights if "lm_head" in name)
    if fault == "a lost module":
        del weights[head]
    if fault == "a stranger":
        weights[named := "base_model.model.stray.lora_A.weight"] = torch.ones(4, 32)
    if fault == "another size":
        weights[head] = torch.ones(300, 32)
    if fault == "another kind":
        config.write_text(config.read_text().replace('"LORA"', f'"{(named := "IA3")}"'))
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=named) as refusal:
        model_in(adapter)
    assert "train it again" not in str(refusal.value)
    assert "merge" in str(refusal.value)


def test_a_linear_layer_with_a_forward_of_its_own_gets_no_adapter(base, tmp_path) -> None:
    class Grouped(torch.nn.Linear):
        def forward(self, states):
            return super().forward(states) * 2

    def planted():
        model = load_model(ModelSettings(path=str(base)), 0)[0]
        attention, sizes = model.model.layers[0].self_attn, (32, 32, False)
        attention.o_proj, attention.weights_proj = Grouped(*sizes), torch.nn.Linear(*sizes)
        attention.o_proj.load_state_dict(model.model.layers[1].self_attn.o_proj.state_dict())
        return model

    model = add_adapters(planted(), LORA, str(base))
    names = {name for name, _ in model.named_parameters() if "lora_" in name}
    assert not any("layers.0.self_attn.o_proj" in name for name in names)
    assert any("layers.1.self_attn.o_proj" in name for name in names)
    with torch.no_grad():
        for name in names:
            model.get_parameter(name).fill_(0.1)
    model.save_pretrained(tmp_path)
    again = load_adapters(planted(), tmp_path, LoraSettings())
    assert torch.equal(logits(again), logits(model))
    inside = "base_model.model.model.layers.0.self_attn.weights_proj.lora_B.default.weight"
    assert again.get_parameter(inside).unique().tolist() == pytest.approx([0.1]), "a name that holds .weight"


@pytest.mark.parametrize("fault", ["half the scale", "one layer lost", "a wrong dtype", "not finite"])
def test_a_garbled_merge_is_caught_and_nothing_is_left(fault, adapter, tmp_path, monkeypatch) -> None:
    save = export_module.save_model

    def garble(model, codec, directory) -> None:
        with torch.no_grad():
            weight = model.model.layers[0].mlp.up_proj.weight
            if fault == "half the scale":
                weight.mul_(0.5)
            if fault == "one layer lost":
                weight.zero_()
            if fault == "a wrong dtype":
                for parameter in model.parameters():
                    parameter.copy_(parameter.to(torch.bfloat16))
            if fault == "not finite":
                weight[0, 0] = float("nan")
        save(model, codec, directory)

    monkeypatch.setattr(export_module, "save_model", garble)
    with pytest.raises(RunError):
        merge(adapter, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_merge_needs_an_adapter_and_an_empty_place(adapter, base, tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"adapter_config\.json"):
        merge(base, tmp_path / "merged")
    with pytest.raises(ConfigError, match="--out"):
        merge(adapter, base)


def test_an_adapter_that_does_not_fit_is_refused_by_what_is_wrong(adapter, base) -> None:
    file = adapter / "adapter_model.safetensors"
    (adapter / SEAL_FILE).unlink()
    with pytest.raises(ConfigError, match=r"model\.lora\.rank 8"):
        model_in(adapter, lora=LoraSettings(rank=8))
    weights = load_file(file)
    lost = sorted(weights)[0]
    weights.pop(lost)
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=str(adapter)):
        model_in(adapter)
    shutil.rmtree(base)
    with pytest.raises(ConfigError, match=str(base)):
        model_in(adapter)
    file.unlink()
    with pytest.raises(ConfigError, match=file.name):
        load_codec(ModelSettings(path=str(adapter)))


def test_preflight_counts_adapters_in_the_type_that_they_are_trained_in(base) -> None:
    settings = ModelSettings(path=str(base), lora=LORA, dtype="bfloat16")
    numbers = load_numbers(settings)
    sizes = {p.requires_grad: p.dtype.itemsize for p in load_model(settings, 0)[0].parameters()}
    assert sizes == {True: numbers.trainable_bytes, False: numbers.weight_bytes}
    assert numbers.trainable_bytes > numbers.weight_bytes


# --- over a base in 4 bits ------------------------------------------------------------------------------------------

needs_bitsandbytes = pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="needs bitsandbytes")


@pytest.fixture
def wide_base(codec, tmp_path) -> Path:
    # Rows of whole blocks of 64, without which bitsandbytes misreads 4-bit weights on processors with AVX-512.
    return save_base(tmp_path / "base", codec, "llama", hidden_size=64, intermediate_size=128, head_dim=32)


@needs_bitsandbytes
def test_the_base_is_held_in_4_bits_and_says_about_the_same(wide_base) -> None:
    held, whole = model_in(wide_base, lora=LORA, load_in_4bit=True), model_in(wide_base)
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


@needs_bitsandbytes
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_base_in_4_bits_is_counted_as_it_is_held(dtype, wide_base) -> None:
    settings = ModelSettings(path=str(wide_base), lora=LORA, load_in_4bit=True, dtype=dtype)
    numbers, weights = load_numbers(settings), list(load_model(settings, 0)[0].parameters())
    packed = [weight for weight in weights if weight.dtype == torch.uint8]
    assert numbers.num_four_bit == 2 * sum(weight.numel() for weight in packed), "two to a byte"
    assert numbers.num_whole == sum(weight.numel() for weight in weights if weight.dtype == torch.float32)
    counted = weight_bytes(numbers)
    tables = 1200 * len(packed)  # of each layer, whatever its size
    assert counted <= sum(map(bytes_of, weights)) <= counted + tables
    assert training_bytes(numbers) == 3 * sum(weight.nbytes for weight in weights if weight.requires_grad)
    whole = load_numbers(ModelSettings(path=str(wide_base), lora=LORA, dtype="bfloat16"))
    assert (whole.num_parameters, whole.num_four_bit) == (numbers.num_parameters, 0)


@needs_bitsandbytes
def test_adapters_over_4_bits_learn_by_sft_and_grpo_and_are_merged_into_the_stored_base(
    wide_base, adapt, tokenizer, codec, sixty, tmp_path, monkeypatch
) -> None:
    adapter = adapt(wide_base, load_in_4bit=True)
    losses = [row["loss"] for row in rows(tmp_path / "run" / "metrics.jsonl")]
    assert losses[-1] < losses[0]
    start = load_file(adapter / "adapter_model.safetensors")
    assert all("lora_" in name and weight.dtype == torch.float32 for name, weight in start.items())

    model = model_in(adapter, lora=LORA, load_in_4bit=True)
    Training(tokenizer, codec, sixty, monkeypatch)(tmp_path / "rl", GRPO, model=model)
    after = load_file(tmp_path / "rl" / "grpo" / "adapter_model.safetensors")
    assert after.keys() == start.keys()
    assert not same_bits(after, start)

    assert merge(adapter, tmp_path / "merged", "float32") < 1e-5
    stored = load_file(tmp_path / "merged" / "model.safetensors")
    assert {weight.dtype for weight in stored.values()} == {torch.float32}
    assert not any("absmax" in name for name in stored)
