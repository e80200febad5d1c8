"""Laws of adapters: the base stays as it is, training goes on with them, and a merge says what the adapter said."""

import json
import shutil
from pathlib import Path

import pytest
from grpo_training import SETTINGS as GRPO
from grpo_training import Training
from hybrid_models import HYBRID, hybrid_model
from lora_training import FAMILIES, LORA, SFT, logits, save_base, torch
from round_training import token_logprobs
from safetensors.torch import load_file, save_file
from sft_training import fine_tune
from training_fixtures import StopAt, compact, fast, make_run, rows

import wordle_rl.policy.export as export_module
from wordle_rl.config import ConfigError, LoraSettings, ModelSettings
from wordle_rl.data.dataset import encode_traces
from wordle_rl.policy.directory import find_model
from wordle_rl.policy.export import merge
from wordle_rl.policy.loading import load_codec, load_model, load_numbers, save_model
from wordle_rl.runs import RunError
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.loss import CrossEntropy


@pytest.fixture
def base(codec, tmp_path) -> Path:
    return save_base(tmp_path / "base", codec)


def trained_adapter(base: Path, plain_traces, codec, words, directory: Path, lora=LORA) -> Path:
    model, _ = load_model(ModelSettings(path=str(base), lora=lora), 0)
    examples = encode_traces(plain_traces, compact(), codec, 1000).examples
    return fine_tune(model, codec, examples, SFT, make_run(directory, words))


@pytest.fixture
def adapter(base, plain_traces, codec, sixty, tmp_path) -> Path:
    return trained_adapter(base, plain_traces, codec, sixty, tmp_path / "run")


@pytest.mark.parametrize("family", FAMILIES)
def test_sft_trains_the_adapter_alone_and_it_comes_back_with_its_tokenizer(
    family, plain_traces, codec, sixty, tmp_path
) -> None:
    base = save_base(tmp_path / "base", codec, family)
    before = load_file(base / "model.safetensors")
    untouched, _ = load_model(ModelSettings(path=str(base)), 0)
    fresh, _ = load_model(ModelSettings(path=str(base), lora=LORA), 0)
    assert torch.equal(logits(untouched), logits(fresh)), "an untrained adapter changes nothing"
    trainable = {name for name, parameter in fresh.named_parameters() if parameter.requires_grad}
    assert trainable
    assert all("lora_" in name for name in trainable)
    assert {name.split(".lora_")[0].rsplit(".", 1)[1] for name in trainable} == {
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"
    }  # fmt: skip

    directory = trained_adapter(base, plain_traces, codec, sixty, tmp_path / "run")
    losses = [row["loss"] for row in rows(tmp_path / "run" / "metrics.jsonl")]
    assert losses[-1] < losses[0]
    assert json.loads((directory / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base)
    assert not (directory / "model.safetensors").exists()
    after = load_file(base / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
    again, codec_again = load_model(ModelSettings(path=str(directory)), 0)
    assert codec_again.turn_end_ids == codec.turn_end_ids
    assert codec_again.tokenizer.chat_template == codec.tokenizer.chat_template
    assert (logits(again) - logits(untouched)).abs().max() > 1e-3
    assert load_codec(ModelSettings(path=str(directory)))[1] == 1024
    assert find_model(tmp_path / "run") == directory


def test_the_kl_penalty_of_an_adapter_is_measured_against_the_sft_adapter(
    adapter, tokenizer, codec, sixty, tmp_path, monkeypatch
) -> None:
    """Not against the bare base model, from which the SFT adapter is far away by now; after a resume neither."""
    train = Training(tokenizer, codec, sixty, monkeypatch)
    settings = GRPO.model_copy(update={"beta": 0.1, "steps": 2})
    first, second, sft = (load_model(ModelSettings(path=str(adapter)), 0)[0] for _ in range(3))
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
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_merged_model_says_what_the_adapter_said(family, dtype, codec, tmp_path) -> None:
    base = save_base(tmp_path / "base", codec, family)
    model, _ = load_model(ModelSettings(path=str(base), lora=LORA), 0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05, generator=torch.Generator().manual_seed(len(name)))
    save_model(model, codec, tmp_path / "adapter")
    difference = merge(tmp_path / "adapter", tmp_path / "merged", dtype)
    stored = load_file(tmp_path / "merged" / "model.safetensors")
    assert {weight.dtype for weight in stored.values()} == {getattr(torch, dtype)}
    tolerance = {"float32": 1e-5, "bfloat16": 0.1}[dtype]
    assert difference < tolerance
    merged, _ = load_model(ModelSettings(path=str(tmp_path / "merged")), 0)
    plain, _ = load_model(ModelSettings(path=str(base)), 0)
    to_unmerged, to_base = ((logits(merged) - logits(other)).std() / logits(other).std() for other in (model, plain))
    assert to_unmerged < tolerance
    assert to_base > 3 * tolerance


@pytest.mark.parametrize("architecture", HYBRID)
def test_adapters_on_other_layers_learn_come_back_and_are_merged(architecture, plain_traces, codec, tmp_path) -> None:
    save_model(hybrid_model(architecture, codec), codec, tmp_path / "base")
    model, _ = load_model(ModelSettings(path=str(tmp_path / "base"), lora=LORA), 0)
    learner = TorchLearner(model, codec, precision="fp32")
    learner.start(fast(), 10)
    examples = encode_traces(plain_traces[:8], compact(), codec, 1000).examples
    losses = [learner.update([examples], CrossEntropy(), step).loss for step in range(1, 11)]
    assert losses[-1] < losses[0] - 0.2
    learner.save_model(tmp_path / "adapter")
    again, _ = load_model(ModelSettings(path=str(tmp_path / "adapter")), 0)
    assert torch.allclose(logits(again), logits(model), atol=1e-5)
    assert merge(tmp_path / "adapter", tmp_path / "merged") < 1e-3


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
    with pytest.raises(RunError, match="the merged model is not the unmerged one"):
        merge(adapter, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_merge_needs_an_adapter_and_an_empty_place(adapter, base, tmp_path) -> None:
    with pytest.raises(ConfigError, match="is no adapter"):
        merge(base, tmp_path / "merged")
    with pytest.raises(ConfigError, match="is not empty"):
        merge(adapter, base)


def test_an_adapter_that_does_not_fit_is_refused_in_one_line(adapter, base, codec, tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"rank 8 is not that of the adapter .* 4"):
        load_model(ModelSettings(path=str(adapter), lora=LoraSettings(rank=8)), 0)
    weights = load_file(adapter / "adapter_model.safetensors")
    weights.pop(sorted(weights)[0])
    save_file(weights, adapter / "adapter_model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match="does not fit its base model"):
        load_model(ModelSettings(path=str(adapter)), 0)
    shutil.rmtree(base)
    with pytest.raises(ConfigError, match=r"needs its base model .* which is missing"):
        load_model(ModelSettings(path=str(adapter)), 0)
    (adapter / "adapter_model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no adapter_model.safetensors"):
        load_codec(ModelSettings(path=str(adapter)))


def test_preflight_counts_adapters_in_the_type_that_they_are_trained_in(base) -> None:
    settings = ModelSettings(path=str(base), lora=LORA, dtype="bfloat16")
    numbers = load_numbers(settings)
    sizes = {p.requires_grad: p.dtype.itemsize for p in load_model(settings, 0)[0].parameters()}
    assert sizes == {True: numbers.trainable_bytes, False: numbers.weight_bytes}
    assert numbers.trainable_bytes > numbers.weight_bytes
