"""The learner: one step of it is the gradient worked out row by row, however the step is cut."""

import gc
import shutil
import weakref

import pytest

torch = pytest.importorskip("torch")

from lora_training import LORA
from round_training import cross_entropy_of, gradient_norm
from sft_training import close, same_bits
from small_models import small_config
from training_fixtures import fast, small_model, weights_of
from transformers import LlamaConfig, LlamaForCausalLM

import wordle_rl.train.learner as learner_module
from wordle_rl.config import SamplingSettings
from wordle_rl.data.dataset import Example
from wordle_rl.policy.adapters import add_adapters
from wordle_rl.policy.base import Request
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.loss import CrossEntropy, Loss, PolicyLoss, PreferenceLoss


def llama(codec, **changes):
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**small_config(codec) | changes)).eval()


def started(model, codec, seed: int = 0, **options) -> TorchLearner:
    learner = TorchLearner(model, codec, precision="fp32", seed=seed, **options)
    learner.start(fast(max_grad_norm=1e9), 10)
    learner.remember_start()
    return learner


def with_advantages(examples: list[Example]) -> list[Example]:
    """The same rows with advantages of both signs, drawn with a probability of exp(-2)."""
    return [
        Example(e.token_ids, e.loss_mask, [(1.0 - i) * m for m in e.loss_mask], [-2.0 * m for m in e.loss_mask])
        for i, e in enumerate(examples)
    ]


LOSSES: dict[str, Loss] = {
    "cross-entropy": CrossEntropy(),
    "dapo": PolicyLoss("dapo", beta=0.1),
    "grpo": PolicyLoss("grpo", importance_cap=2.0),
    "dr_grpo": PolicyLoss("dr_grpo", longest=50),
    "dpo": PreferenceLoss(0.1),
}


def test_a_step_is_the_gradient_worked_out_by_hand(tokenizer, codec, examples) -> None:
    model, few = small_model(tokenizer), examples[:6]
    expected = cross_entropy_of(model, few)
    norm = gradient_norm(model, expected)
    update = started(model, codec).update([few[:2], few[2:]], CrossEntropy(), 1)
    assert update.loss == pytest.approx(float(expected.detach()), rel=1e-5)
    assert update.grad_norm == pytest.approx(norm, rel=1e-4)
    assert update.num_tokens == sum(len(example.token_ids) for example in few)
    assert update.is_sound
    assert set(update.seconds) == {"forward", "backward", "update"}


def test_a_long_gradient_is_shortened_and_keeps_its_direction(tokenizer, codec, examples, monkeypatch) -> None:
    """That of the whole step, by plain descent at rate 1: what a step takes off the weights is the gradient."""
    descent = lambda model, _: torch.optim.SGD(model.parameters(), lr=1.0)  # noqa: E731
    monkeypatch.setattr(learner_module, "make_optimizer", descent)
    steps, norms = [], []
    for longest in (1e6, 1e-3):
        model = small_model(tokenizer)
        before, learner = weights_of(model), TorchLearner(model, codec, precision="fp32")
        learner.start(fast(max_grad_norm=longest), 1)
        norms.append(learner.update([examples[:4], examples[4:8]], CrossEntropy(), 1).grad_norm)
        steps.append(torch.cat([(before[name] - weight).flatten() for name, weight in weights_of(model).items()]))
    whole, short = steps
    assert norms == pytest.approx([float(whole.norm())] * 2, rel=1e-4)
    assert torch.allclose(short, whole * 1e-3 / norms[0], atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_how_a_step_is_cut_changes_nothing(name, tokenizer, codec, examples) -> None:
    rows = with_advantages(examples[:8])
    found = []
    for cut in ([rows], [rows[:2], rows[2:8]], [rows[place : place + 2] for place in (0, 2, 4, 6)]):
        model = small_model(tokenizer)
        learner = started(model, codec)
        updates = [learner.update(cut, LOSSES[name], step) for step in (1, 2)]
        numbers = [{"loss": u.loss, "grad_norm": u.grad_norm, **u.figures} for u in updates]
        found.append((numbers, weights_of(model)))
    (numbers, weights), *others = found
    for other, moved in others:
        assert other == [pytest.approx(each, rel=1e-4, abs=1e-6) for each in numbers]
        assert close(weights, moved, 1e-5)
    assert not close(weights, weights_of(small_model(tokenizer)))


def test_a_new_start_frees_the_optimizer_of_the_last(tokenizer, codec, examples) -> None:
    learner = started(small_model(tokenizer), codec)
    learner.update([examples[:4]], CrossEntropy(), 1)
    last = weakref.ref(learner._plain_optimizer)
    learner.start(fast(), 10)
    gc.collect()
    assert last() is None
    learner.update([examples[:4]], CrossEntropy(), 1)


def test_the_reference_stays_the_start_and_the_weights_come_back_from_it(tokenizer, codec, examples) -> None:
    model, start, rows = small_model(tokenizer), small_model(tokenizer), with_advantages(examples[:4])
    learner = TorchLearner(model, codec, precision="fp32")
    learner.start(fast(), 10, measure_kl=True)
    first = learner.update([rows], CrossEntropy(), 1)
    after = weights_of(model)
    learner.remember_start()  # the first call counts
    second = learner.update([rows], PolicyLoss(beta=1e-6), 2)
    assert first.figures["kl_to_start"] == pytest.approx(0.0, abs=1e-6)
    model.load_state_dict({**model.state_dict(), **after})
    estimates = []
    with torch.no_grad():
        for example in rows:
            ids = torch.tensor([example.token_ids])
            policy, reference = (m(input_ids=ids).logits[0, :-1].log_softmax(-1) for m in (model, start))
            for place in range(1, ids.shape[1]):
                if example.loss_mask[place]:
                    ratio = float((reference - policy)[place - 1, ids[0, place]])
                    estimates.append(torch.tensor(ratio).exp().item() - 1 - ratio)
    expected = sum(estimates) / len(estimates)
    assert expected > 1e-4
    assert second.figures["kl"] == pytest.approx(expected, rel=1e-3)
    assert second.figures["kl_to_start"] == pytest.approx(expected, rel=1e-3)


def test_comparing_with_the_start_changes_no_bit(tokenizer, codec, examples) -> None:
    """Dropout and the optimizer see nothing of it."""
    ends = []
    for measure in (False, True):
        model = small_model(tokenizer)
        learner = TorchLearner(model, codec, precision="fp32")
        learner.start(fast(), 10, measure_kl=measure)
        for step in (1, 2, 3):
            learner.update([examples[:4]], CrossEntropy(), step)
        ends.append(weights_of(model))
    assert same_bits(*ends)


def test_rows_are_measured_without_learning_from_them(tokenizer, codec, examples) -> None:
    model = small_model(tokenizer).train()
    before = weights_of(model)
    learner = started(model, codec)
    found = learner.evaluate([examples[:1], examples[1:4]], CrossEntropy())
    assert found["loss"] == pytest.approx(float(cross_entropy_of(model, examples[:4]).detach()), rel=1e-5)
    assert same_bits(before, weights_of(model))
    assert model.training
    assert all(weight.grad is None for weight in model.parameters())


# --- dropout ---


def dropping(kind: str, codec):
    """A model with adapters, or with dropout in its attention, which is no module there."""
    if kind == "attention":
        return llama(codec, attention_dropout=0.4)
    model = add_adapters(llama(codec), LORA, "base")
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora" in name:
                weight.normal_(std=0.3, generator=generator)
    return model


def test_dropout_depends_on_seed_and_step_alone(codec, examples) -> None:
    def norm(seed: int, step: int) -> float:
        model = llama(codec, attention_dropout=0.4)
        return started(model, codec, seed).update([examples[:4]], CrossEntropy(), step).grad_norm

    expected = norm(0, 1)
    torch.rand(3)  # the global random stream plays no part
    assert norm(0, 1) == expected
    assert norm(0, 2) != expected
    assert norm(1, 1) != expected


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("kind", ["attention", "adapters"])
def test_games_are_scored_as_they_were_sampled_without_dropout(kind, checkpointing, codec, examples) -> None:
    rows, calls = with_advantages(examples[:4]), []
    model = dropping(kind, codec).eval()
    layers = (model.get_base_model() if kind == "adapters" else model).model.layers
    learner = started(model, codec, gradient_checkpointing=checkpointing)
    hook = layers[0].mlp.act_fn.register_forward_hook(lambda *_: calls.append(0))
    found = learner.update([rows], PolicyLoss(), 1)
    hook.remove()
    assert len(calls) == (2 if checkpointing else 1)
    again = started(dropping(kind, codec), codec, seed=7).update([rows], PolicyLoss(), 5)
    assert (found.loss, found.grad_norm) == pytest.approx((again.loss, again.grad_norm), rel=1e-5)
    assert not model.training, "the model is left as it was"


# --- weights ---


def test_bfloat16_is_how_it_computes_not_what_it_keeps(tokenizer, codec, examples) -> None:
    found = {}
    for precision in ("fp32", "bf16"):
        model = small_model(tokenizer)
        learner = TorchLearner(model, codec, precision=precision)
        learner.start(fast(), 10)
        found[precision] = learner.update([examples[:8]], CrossEntropy(), 1)
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert found["bf16"].loss != found["fp32"].loss
    assert found["bf16"].loss == pytest.approx(found["fp32"].loss, rel=0.01)
    assert found["bf16"].grad_norm == pytest.approx(found["fp32"].grad_norm, rel=0.05)


@pytest.mark.parametrize("kind", ["whole", "adapters"])
def test_trained_weights_are_kept_and_interpolated(kind, codec, examples, tmp_path) -> None:
    model = llama(codec) if kind == "whole" else dropping("adapters", codec)
    learner = started(model, codec)
    learner.save_weights(tmp_path / "start", {})
    start = weights_of(model)
    learner.update([examples[:4]], CrossEntropy(), 1)
    learner.save_weights(tmp_path / "end", {"of": "step 1"})
    end = weights_of(model)
    learner.interpolate(tmp_path / "start", tmp_path / "end", 0.25)
    between = {name: torch.lerp(start[name], end[name], 0.25) for name in start}
    assert close(weights_of(model), between, 1e-7)
    learner.load_weights(tmp_path / "end")
    assert same_bits(weights_of(model), end)
    assert any(not torch.equal(start[name], end[name]) for name in start)
    learner.load_weights(tmp_path / "start")
    assert same_bits(weights_of(model), start)


def test_a_model_too_large_to_be_remembered_says_that_no_kl_is_measured(
    tokenizer, codec, examples, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(learner_module, "MOST_REMEMBERED", 1_000)
    learner = TorchLearner(small_model(tokenizer), codec, precision="fp32")
    learner.start(fast(), 2, measure_kl=True)
    assert any("kl_to_start" in record.message for record in caplog.records)
    assert "kl_to_start" not in learner.update([examples[:4]], CrossEntropy(), 1).figures


@pytest.mark.slow  # the compiler takes most of a minute
@pytest.mark.filterwarnings("default")  # the compiler warns of itself
@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_layers_learn_the_same_and_play_uncompiled(codec, examples) -> None:
    rows = with_advantages(examples[:6])
    found = []
    for compiled in (False, True):
        model = llama(codec)
        learner = started(model, codec, compiled=compiled)
        frames = torch._dynamo.utils.counters["frames"]
        frames.clear()
        updates = [learner.update([rows[:3], rows[3:]], PolicyLoss("dapo"), step) for step in (1, 2)]
        assert (frames["ok"] > 0) is compiled
        assert set(dict(model.named_parameters())) == set(dict(llama(codec).named_parameters()))
        compiled_frames = frames["total"]
        with learner.policy(SamplingSettings(max_completion_tokens=4), 0) as (sampler, _):
            (reply,) = sampler.sample([Request(0, (), (), list(examples[0].token_ids[:3]))])
        assert frames["total"] == compiled_frames
        numbers = [n for u in updates for n in (u.loss, u.grad_norm)] + [sum(reply.sampler_logprobs)]
        found.append((numbers, weights_of(model)))
    (numbers, weights), (other, moved) = found
    assert other == pytest.approx(numbers, rel=1e-3, abs=1e-5)
    assert close(weights, moved, 1e-4)
