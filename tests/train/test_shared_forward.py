"""The forward pass over distinct tokens: logits, gradients and trainings are those of the model's own."""

import pytest
from sft_training import SETTINGS, fine_tune, torch
from training_fixtures import make_run, rows, small_model, weights_of

import wordle_rl.train.logprobs as logprobs_module
from wordle_rl.models.tiny import make_model
from wordle_rl.train.batch import Batch
from wordle_rl.train.prefixes import SharedBatch, share_prefixes
from wordle_rl.train.shared_forward import shared_logits, takes_shared_prefixes


def batch_of(examples) -> Batch:
    return Batch.of(examples, [1.0] * len(examples), 0)


def own_logits(model, batch: Batch):
    return model(input_ids=batch.input_ids, use_cache=False).logits[:, :-1][batch.trained]


def shared(batch: Batch) -> SharedBatch:
    found = share_prefixes(batch.input_ids, batch.trained, 128)
    assert len(found.places) < 0.8 * batch.input_ids.numel()  # there is something to share
    return found


@pytest.mark.parametrize(("layers", "heads", "kv_heads"), [(1, 2, 1), (2, 4, 2), (3, 2, 2)])
def test_logits_and_gradients_agree_in_float32(layers, heads, kv_heads, tokenizer, examples) -> None:
    shape = {"num_layers": layers, "num_heads": heads, "num_kv_heads": kv_heads}
    models = [make_model(tokenizer, hidden_size=32, intermediate_size=48, **shape) for _ in range(2)]
    batch = batch_of(examples[:16])
    nodes = shared(batch)
    found = [own_logits(models[0], batch), shared_logits(models[1], nodes, torch.float32)[nodes.predicted_by]]
    assert torch.allclose(*found, atol=1e-5)
    for logits in found:
        torch.nn.functional.cross_entropy(logits, batch.targets).backward()
    for expected, got in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.allclose(expected.grad, got.grad, atol=1e-5 * float(expected.grad.abs().max()) + 1e-8)


def test_bfloat16_is_as_close_to_float32_as_the_models_own(tokenizer, examples) -> None:
    model, batch = small_model(tokenizer), batch_of(examples[:16])
    exact = own_logits(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        own = (own_logits(model, batch).float() - exact).square().mean()
    nodes = shared(batch)
    ours = (shared_logits(model, nodes, torch.bfloat16)[nodes.predicted_by] - exact).square().mean()
    assert 0 < ours < 1.5 * own


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 2e-2)])
def test_a_training_is_the_same_both_ways(
    precision, tolerance, examples, tokenizer, codec, sixty, tmp_path, monkeypatch
) -> None:
    """Over distinct tokens, and row by row."""
    settings = SETTINGS.model_copy(update={"precision": precision, "epochs": 1})
    models, calls = [small_model(tokenizer), small_model(tokenizer)], []
    monkeypatch.setattr(logprobs_module, "shared_logits", lambda *a: calls.append(a) or shared_logits(*a))
    fine_tune(models[0], codec, examples, settings, make_run(tmp_path / "shared", sixty))
    taken = len(calls)
    for way in ("takes_shared_prefixes", "takes_prefix_tree"):
        monkeypatch.setattr(logprobs_module, way, lambda _: False)
    fine_tune(models[1], codec, examples, settings, make_run(tmp_path / "own", sixty))
    assert taken == len(calls) == len(rows(tmp_path / "own" / "metrics.jsonl"))
    losses = [[row["loss"] for row in rows(tmp_path / name / "metrics.jsonl")] for name in ("shared", "own")]
    assert losses[0] == pytest.approx(losses[1], rel=tolerance)
    if precision == "fp32":
        pairs = zip(weights_of(models[0]).values(), weights_of(models[1]).values(), strict=True)
        assert all(torch.allclose(*pair, atol=1e-3) for pair in pairs)


def test_a_model_with_more_to_it_takes_its_own_forward_pass(tokenizer) -> None:
    assert takes_shared_prefixes(small_model(tokenizer))
    dropout, hooked, half = (small_model(tokenizer) for _ in range(3))
    dropout.model.layers[0].self_attn.attention_dropout = 0.1
    hooked.model.layers[0].mlp.register_forward_hook(lambda *_: None)
    for model in (dropout, hooked, half.to(torch.bfloat16), torch.nn.DataParallel(small_model(tokenizer))):
        assert not takes_shared_prefixes(model)
