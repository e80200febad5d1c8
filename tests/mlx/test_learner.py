"""Laws of the learner on MLX: the updates, losses, scores and optimizers of torch."""

import json
import math
from dataclasses import replace

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import torch
from agreement import embedded_codec
from agreement import examples as table_rows
from agreement import model as weighty
from lora_training import save_base
from mlx.utils import tree_flatten, tree_unflatten
from mlx_models import close, pair, same
from sampled_games import check_sampler_is_trainer, padded_model, said_by
from training_fixtures import fast

import wordle_rl.mlx.losses as mlx_losses
import wordle_rl.train.loss as torch_loss
from wordle_rl.config.model import LoraSettings, ModelSettings
from wordle_rl.config.training import OptimizerSettings, SamplingSettings
from wordle_rl.mlx import learner as learner_module
from wordle_rl.mlx.learner import MLXLearner, ScheduledOptimizer
from wordle_rl.mlx.losses import MLXBatch, score
from wordle_rl.mlx.model import from_torch, load_model, of_transformers
from wordle_rl.mlx.sampler import MLXSampler
from wordle_rl.policy.adapters import ADAPTER_CONFIG
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.runs.checksums import SEAL_FILE
from wordle_rl.train.example import Example
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.loss import CrossEntropy, PolicyLoss, PreferenceLoss
from wordle_rl.train.optimizer import make_optimizer, set_rate

LOSSES = {
    "cross-entropy": CrossEntropy(),
    "distributions": CrossEntropy(),
    "policy": PolicyLoss(),
    "policy, corrected and with a penalty": PolicyLoss("grpo", beta=0.1, importance_cap=1.2),
    "policy, off policy": PolicyLoss(importance_cap=1.2, off_policy=True),
    "policy by a constant": PolicyLoss("dr_grpo", longest=16),
    "preference": PreferenceLoss(0.1),
}


def on_mlx(**options) -> MLXLearner:
    return MLXLearner(of_transformers(weighty()), embedded_codec(), **options)


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_ids_that_the_tokenizer_does_not_know_are_neither_drawn_nor_learnt(temperature, tokenizer, codec) -> None:
    learner = MLXLearner(of_transformers(padded_model(tokenizer)), codec, temperature=temperature)
    check_sampler_is_trainer(learner, codec, temperature)


def test_greedy_play_of_a_padded_vocabulary_is_that_of_torch(tokenizer, codec) -> None:
    whole, greedy = padded_model(tokenizer), SamplingSettings(temperature=0.0, max_completion_tokens=6)
    ours = said_by(MLXSampler(of_transformers(whole), codec, greedy), codec, 2)
    theirs = said_by(TransformersSampler(whole, codec, greedy), codec, 2)
    assert [said.token_ids for said in ours] == [said.token_ids for said in theirs]


def softened(example: Example) -> Example:
    """The example with distributions over two tokens as targets."""
    trained = [token for token, m in zip(example.token_ids[1:], example.loss_mask[1:], strict=True) if m]
    return replace(example, soft_targets=[[(token, 0.75), (token + 1, 0.25)] for token in trained])


@pytest.mark.parametrize("name", LOSSES)
def test_three_updates_are_those_of_torch(name) -> None:
    loss, examples, whole = LOSSES[name], table_rows(), weighty()
    if name == "distributions":
        examples = [softened(row) for row in examples]
    ours = on_mlx(temperature=0.8)
    theirs = TorchLearner(whole, embedded_codec(), precision="fp32", temperature=0.8)
    for learner in (ours, theirs):
        learner.start(fast(), 3)
        learner.remember_start()
    for step in (1, 2, 3):
        a, b = (learner.update([examples[:2], examples[2:]], loss, step) for learner in (ours, theirs))
        assert (a.loss, a.grad_norm) == pytest.approx((b.loss, b.grad_norm), rel=1e-4, abs=1e-4)
        figures = dict(a.figures)
        assert figures.pop("mlx_peak_memory_gib") > 0
        assert figures == pytest.approx(b.figures, rel=1e-4, abs=1e-4)
        assert (a.learning_rate, a.num_tokens, a.is_sound) == (b.learning_rate, b.num_tokens, True)
        assert a.seconds.keys() == b.seconds.keys()
    assert close(ours.model, whole, 2e-4)


def test_figures_of_rows_that_are_not_learnt_are_those_of_torch() -> None:
    examples = table_rows()
    ours, theirs = on_mlx(), TorchLearner(weighty(), embedded_codec(), precision="fp32")
    a, b = (learner.evaluate([examples[:4], examples[4:]], CrossEntropy()) for learner in (ours, theirs))
    assert a == pytest.approx(b, abs=1e-4)
    assert same(ours.model, of_transformers(weighty()))


def test_a_step_without_a_trained_token_is_sound_and_has_every_figure() -> None:
    learner, examples = on_mlx(), table_rows()
    learner.start(fast(), 2)
    full = learner.update([examples], PolicyLoss(), 1)
    none = learner.update([[replace(e, loss_mask=[0] * len(e.loss_mask)) for e in examples]], PolicyLoss(), 2)
    assert (none.loss, none.grad_norm, none.is_sound) == (0.0, 0.0, True)
    assert none.figures.keys() == full.figures.keys()
    assert learner.update([], PolicyLoss(), 2).is_sound


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    learner, examples = on_mlx(), table_rows()
    learner.start(fast(), 2)
    bad = [replace(example, advantages=[math.nan] * len(example.advantages)) for example in examples]
    assert not learner.update([bad], PolicyLoss(), 1).is_sound
    assert same(learner.model, of_transformers(weighty()))


def adapter_with_dropout(directory, codec):
    """An untrained adapter and its base; as peft may store it, with dropout."""
    settings = ModelSettings(path=str(save_base(directory / "base", codec)), lora=LoraSettings(rank=4))
    adapter = directory / "dropping"
    MLXLearner(*load_model(settings, 0)).save_model(adapter)
    config = json.loads((adapter / ADAPTER_CONFIG).read_text())
    (adapter / ADAPTER_CONFIG).write_text(json.dumps(config | {"lora_dropout": 0.3}))
    (adapter / SEAL_FILE).unlink()
    return adapter


def adapted(directory, **options) -> MLXLearner:
    return MLXLearner(*load_model(ModelSettings(path=str(directory)), 0), **options)


def gradient_norms(learner: MLXLearner, loss) -> list[float]:
    learner.start(fast(), 3)
    return [learner.update([table_rows()], loss, step).grad_norm for step in (1, 2, 3)]


def test_layers_computed_again_drop_what_they_dropped(codec, tmp_path, monkeypatch) -> None:
    """Without the recomputation, but with its random numbers, gradients are the same."""
    adapter = adapter_with_dropout(tmp_path, codec)
    recomputed = gradient_norms(adapted(adapter, gradient_checkpointing=True), CrossEntropy())
    monkeypatch.setattr(learner_module.mx, "checkpoint", lambda function: function)
    kept = gradient_norms(adapted(adapter, gradient_checkpointing=True), CrossEntropy())
    assert recomputed == pytest.approx(kept, rel=1e-5)


def test_dropout_depends_on_seed_and_step_alone(codec, tmp_path) -> None:
    adapter = adapter_with_dropout(tmp_path, codec)
    first, again, other = (gradient_norms(adapted(adapter, seed=seed), CrossEntropy()) for seed in (1, 1, 2))
    assert first == again
    assert first[1:] != other[1:]


def test_weights_between_two_points_are_interpolated(tmp_path) -> None:
    learner = on_mlx()
    network = learner.model.network
    learner.save_weights(tmp_path / "start.safetensors")
    before = np.array(network.model.norm.weight)
    network.model.norm.weight = network.model.norm.weight + 1.0
    learner.save_weights(tmp_path / ".end.safetensors.partial")
    learner.interpolate(tmp_path / "start.safetensors", tmp_path / ".end.safetensors.partial", 0.25)
    assert np.array(network.model.norm.weight) == pytest.approx(before + 0.25)
    learner.load_weights(tmp_path / "start.safetensors")
    assert np.array_equal(np.array(network.model.norm.weight), before)


# --- losses ---


@pytest.mark.parametrize("beta", [0.0, 0.2])
def test_the_policy_loss_is_torch_s_beyond_the_clip_range_too(beta) -> None:
    rng = np.random.default_rng(0)
    logprobs, old, reference = (-rng.exponential(1.0, 40).astype(np.float32) for _ in range(3))
    rest = (old, rng.normal(size=40).astype(np.float32), rng.uniform(size=40).astype(np.float32))

    def ours(at: mx.array):
        return mlx_losses.policy_loss(at, *map(mx.array, rest), beta=beta, reference_logprobs=mx.array(reference))

    (value, figures), gradient = mx.value_and_grad(ours)(mx.array(logprobs))
    at = torch.tensor(logprobs, requires_grad=True)
    wanted, theirs = torch_loss.policy_loss(
        at, *map(torch.tensor, rest), beta=beta, reference_logprobs=torch.tensor(reference)
    )
    wanted.backward()
    assert value.item() == pytest.approx(wanted.item(), abs=1e-4)
    assert np.array(gradient) == pytest.approx(at.grad.numpy(), abs=1e-4)
    assert {n: v.item() for n, v in figures.items()} == pytest.approx(
        {n: v.item() for n, v in theirs.items()}, rel=1e-5
    )
    assert figures["clip_ratio/low_mean"].item() * figures["clip_ratio/high_mean"].item() > 0


# --- scores ---

ROWS = [[5, 9, 3, 7, 11, 2], [4, 8, 1], [6, 2, 9, 9, 3]]
MASKS = [[0, 0, 1, 1, 0, 1], [0, 0, 0], [1, 1, 0, 0, 1]]


def loss_and_gradient(model) -> tuple[float, dict[str, np.ndarray]]:
    batch = MLXBatch.of([Example(*row) for row in zip(ROWS, MASKS, strict=True)], [1.0] * 3, 0)
    value, gradients = nn.value_and_grad(model.network, lambda: -score(model, batch).logprobs.sum())()
    return float(value.item()), {name: np.array(array) for name, array in tree_flatten(gradients)}


@pytest.mark.parametrize("way", ["in pieces", "without a head of its own"])
def test_another_way_to_the_logits_gives_the_same_loss_and_gradient(tokenizer, monkeypatch, way) -> None:
    _, model = pair(tokenizer)
    value, gradients = loss_and_gradient(model)
    if way == "in pieces":
        monkeypatch.setattr(mlx_losses, "_PIECE", 2)
        monkeypatch.setattr(mlx_losses, "_SMALL", 0)
    else:
        model = type(model)(model.network, model.config, model.base, None)
    other, theirs = loss_and_gradient(model)
    assert other == pytest.approx(value, abs=1e-5)
    assert gradients.keys() == theirs.keys()
    assert all(np.abs(gradients[name] - theirs[name]).max() < 1e-5 for name in gradients)
    assert max(np.abs(gradient).max() for gradient in gradients.values()) > 1e-2


# --- optimizers ---

STEPS = 5


@pytest.mark.parametrize(
    ("muon", "tolerance"),
    [(None, 1e-5), (0.02, 2e-2)],  # torch orthogonalises in bfloat16 where the processor has it
    ids=["adamw", "muon"],
)
def test_every_step_of_an_optimizer_is_torch_s(tokenizer, muon, tolerance) -> None:
    whole, model = pair(tokenizer)
    settings = OptimizerSettings(learning_rate=3e-3, muon_learning_rate=muon, warmup=0.3)
    theirs, ours = make_optimizer(whole, settings), ScheduledOptimizer(model, settings, STEPS)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        for parameter in whole.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        made = [(name, from_torch(parameter.grad.clone())) for name, parameter in whole.named_parameters()]
        assert ours.rate(step) == set_rate(theirs, settings, step, STEPS)
        theirs.step()
        ours.update(tree_unflatten(made), step)
    assert close(model, whole, tolerance)
