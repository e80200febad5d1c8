"""Laws of the learner on MLX: the updates of `TorchLearner`, whatever the loss, and the same figures."""

import json
import math
from dataclasses import replace

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import numpy as np
from agreement import embedded_codec
from agreement import model as weighty
from lora_training import save_base
from mlx_models import mlx_examples, same
from training_fixtures import fast

from wordle_rl.config import LoraSettings, ModelSettings
from wordle_rl.data.dataset import Example
from wordle_rl.mlx import learner as learner_module
from wordle_rl.mlx.learner import MLXLearner
from wordle_rl.mlx.model import load_model, of_transformers
from wordle_rl.policy.adapters import ADAPTER_CONFIG
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.loss import CrossEntropy, PolicyLoss, PreferenceLoss

LOSSES = {
    "cross-entropy": CrossEntropy(),
    "distributions": CrossEntropy(),
    "policy": PolicyLoss(),
    "policy, corrected and with a penalty": PolicyLoss("grpo", beta=0.1, importance_cap=1.2),
    "policy by a constant": PolicyLoss("dr_grpo", longest=16),
    "preference": PreferenceLoss(0.1),
}


def on_mlx(**options) -> MLXLearner:
    return MLXLearner(of_transformers(weighty()), embedded_codec(), **options)


def rows_for(name: str) -> list[Example]:
    """The rows of the table, as the loss of this name takes them."""
    rows = mlx_examples()
    return [softened(row) for row in rows] if name == "distributions" else rows


def softened(example: Example) -> Example:
    """The example with distributions over two tokens as targets."""
    trained = [token for token, m in zip(example.token_ids[1:], example.loss_mask[1:], strict=True) if m]
    return replace(example, soft_targets=[[(token, 0.75), (token + 1, 0.25)] for token in trained])


def near(found: float, wanted: float) -> bool:
    return math.isclose(found, wanted, rel_tol=1e-4, abs_tol=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_three_updates_are_those_of_torch(name) -> None:
    loss, examples, whole = LOSSES[name], rows_for(name), weighty()
    ours = on_mlx(temperature=0.8)
    theirs = TorchLearner(whole, embedded_codec(), precision="fp32", temperature=0.8)
    for learner in (ours, theirs):
        learner.start(fast(), 3, measure_kl=True)
    for step in (1, 2, 3):
        a, b = (learner.update([examples[:2], examples[2:]], loss, step) for learner in (ours, theirs))
        assert near(a.loss, b.loss)
        assert near(a.grad_norm, b.grad_norm)
        assert set(a.figures) - set(b.figures) == {"mlx_peak_memory_gib"}
        for figure, wanted in b.figures.items():
            assert near(a.figures[figure], wanted), figure
        assert (a.learning_rate, a.num_tokens, a.is_sound) == (b.learning_rate, b.num_tokens, True)
        assert a.seconds.keys() == b.seconds.keys()
    assert a.figures["kl_to_start"] > 1e-3
    weights = ours.model.weights()
    for weight_name, weight in whole.named_parameters():
        assert np.abs(weight.detach().numpy() - np.array(weights[weight_name])).max() < 2e-4, weight_name


def test_figures_of_rows_that_are_not_learnt_are_those_of_torch() -> None:
    examples = mlx_examples()
    ours, theirs = on_mlx(), TorchLearner(weighty(), embedded_codec(), precision="fp32")
    a, b = (learner.evaluate([examples[:4], examples[4:]], CrossEntropy()) for learner in (ours, theirs))
    assert a == pytest.approx(b, abs=1e-4)
    assert same(ours.model, of_transformers(weighty()))


@pytest.mark.parametrize("name", LOSSES)
def test_micro_batches_add_up_to_the_step(name) -> None:
    examples, found = rows_for(name), []
    for size in (2, len(examples)):
        learner = on_mlx()
        learner.start(fast(), 1)
        learner.remember_start()
        batches = [examples[first : first + size] for first in range(0, len(examples), size)]
        found.append(learner.update(batches, LOSSES[name], 1))
    assert near(found[0].loss, found[1].loss)
    assert near(found[0].grad_norm, found[1].grad_norm)
    assert found[0].grad_norm > 1e-2


def test_a_step_without_a_trained_token_is_sound_and_has_every_figure() -> None:
    learner, examples = on_mlx(), mlx_examples()
    learner.start(fast(), 2)
    full = learner.update([examples], PolicyLoss(), 1)
    none = learner.update([[replace(e, loss_mask=[0] * len(e.loss_mask)) for e in examples]], PolicyLoss(), 2)
    assert (none.loss, none.grad_norm, none.is_sound) == (0.0, 0.0, True)
    assert none.figures.keys() == full.figures.keys()
    assert learner.update([], PolicyLoss(), 2).is_sound


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    learner, examples = on_mlx(), mlx_examples()
    learner.start(fast(), 2)
    bad = [replace(example, advantages=[math.nan] * len(example.advantages)) for example in examples]
    assert not learner.update([bad], PolicyLoss(), 1).is_sound
    assert same(learner.model, of_transformers(weighty()))


def test_the_schedule_goes_on_over_the_parts_of_a_training() -> None:
    settings, examples = fast().model_copy(update={"schedule": "linear"}), mlx_examples()
    whole, parts = on_mlx(), on_mlx()
    whole.start(settings, 4)
    rates = [whole.update([examples], CrossEntropy(), step).learning_rate for step in (1, 2, 3, 4)]
    found = []
    for number in (0, 1):
        parts.start(settings, 2, (number, 2))
        found += [parts.update([examples], CrossEntropy(), step).learning_rate for step in (1, 2)]
    assert found == rates


def test_a_checkpoint_restores_weights_and_optimizer_to_the_bit(tmp_path) -> None:
    examples, straight, resumed = mlx_examples(), on_mlx(), on_mlx()
    straight.start(fast("muon"), 4)
    straight.update([examples], CrossEntropy(), 1)
    straight.save_checkpoint(tmp_path)
    resumed.start(fast("muon"), 4)
    resumed.load_checkpoint(tmp_path)
    for learner in (straight, resumed):
        learner.update([examples], CrossEntropy(), 2)
    assert same(straight.model, resumed.model)


def test_a_model_directory_gives_back_its_weights(tmp_path) -> None:
    learner = on_mlx()
    learner.start(fast(), 2)
    learner.save_model(tmp_path / "start")
    learner.update([mlx_examples()], CrossEntropy(), 1)
    assert not same(learner.model, of_transformers(weighty()))
    learner.load_model(tmp_path / "start")
    assert same(learner.model, of_transformers(weighty()))


def adapter_with_dropout(directory, codec):
    """An untrained adapter and its base; as peft may store it, with dropout."""
    settings = ModelSettings(path=str(save_base(directory / "base", codec)), lora=LoraSettings(rank=4))
    adapter = directory / "dropping"
    MLXLearner(*load_model(settings, 0)).save_model(adapter)
    config = json.loads((adapter / ADAPTER_CONFIG).read_text())
    (adapter / ADAPTER_CONFIG).write_text(json.dumps(config | {"lora_dropout": 0.3}))
    return adapter


def adapted(directory, **options) -> MLXLearner:
    return MLXLearner(*load_model(ModelSettings(path=str(directory)), 0), **options)


def gradient_norms(learner: MLXLearner, loss) -> list[float]:
    learner.start(fast(), 3)
    return [learner.update([mlx_examples()], loss, step).grad_norm for step in (1, 2, 3)]


def test_layers_computed_again_change_nothing(codec, tmp_path) -> None:
    adapter = adapter_with_dropout(tmp_path, codec)
    found = [gradient_norms(adapted(adapter, gradient_checkpointing=on), PolicyLoss()) for on in (False, True)]
    assert found[0] == pytest.approx(found[1], rel=1e-4)


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


def test_adapters_of_a_directory_are_taken_back(codec, tmp_path) -> None:
    learner = adapted(adapter_with_dropout(tmp_path, codec))
    learner.start(fast(), 2)
    learner.update([mlx_examples()], CrossEntropy(), 1)
    learner.save_model(tmp_path / "adapter")
    kept = learner.model.trainable()
    learner.update([mlx_examples()], CrossEntropy(), 2)
    learner.load_model(tmp_path / "adapter")
    assert all(mx.array_equal(kept[name], weight).item() for name, weight in learner.model.trainable().items())


def test_weights_between_two_points_are_interpolated(tmp_path) -> None:
    learner = on_mlx()
    network = learner.model.network
    learner.save_weights(tmp_path / "start.safetensors", {})
    before = np.array(network.model.norm.weight)
    network.model.norm.weight = network.model.norm.weight + 1.0
    learner.save_weights(tmp_path / ".end.safetensors.partial", {"record": "{}"})
    learner.interpolate(tmp_path / "start.safetensors", tmp_path / ".end.safetensors.partial", 0.25)
    assert np.array(network.model.norm.weight) == pytest.approx(before + 0.25)
    learner.load_weights(tmp_path / "start.safetensors")
    assert np.array_equal(np.array(network.model.norm.weight), before)


def test_a_loss_that_mlx_does_not_have_is_refused() -> None:
    class Other:
        needs_reference, needs_entropy, dropout = False, False, False

        def token_weights(self, row_tokens, totals):
            return [1.0] * len(row_tokens)

    learner = on_mlx()
    learner.start(fast(), 1)
    with pytest.raises(TypeError, match="Other"):
        learner.update([mlx_examples()], Other(), 1)
