"""The forward pass over distinct tokens: logits, gradients and trainings are those of the model's own."""

import pytest
from sft_training import SETTINGS, torch
from training_fixtures import make_run, rows, small_model, weights_of

import wordle_rl.training.shared_forward as shared_forward_module
from wordle_rl.models.tiny import make_model
from wordle_rl.training.prefixes import SharedBatch, share_prefixes
from wordle_rl.training.sft import train_sft
from wordle_rl.training.shared_forward import shared_logits, takes_shared_prefixes
from wordle_rl.training.trainer import known_warnings_silenced


def batch_of(examples) -> tuple:
    """Ids and labels of examples, padded on the right."""
    width = max(len(example.token_ids) for example in examples)
    ids = torch.tensor([example.token_ids + [0] * (width - len(example.token_ids)) for example in examples])
    masks = torch.tensor([example.loss_mask + [0] * (width - len(example.loss_mask)) for example in examples])
    return ids, torch.where(masks.bool(), ids, -100)


def own_logits(model, ids, labels):
    return model(input_ids=ids, use_cache=False).logits[:, :-1][labels[:, 1:] != -100]


def shared(ids, labels) -> SharedBatch:
    batch = share_prefixes(ids, labels)
    assert len(batch.places) < 0.8 * ids.numel()  # there is something to share
    return batch


@pytest.mark.parametrize(("layers", "heads", "kv_heads"), [(1, 2, 1), (2, 4, 2), (3, 2, 2)])
def test_logits_and_gradients_agree_in_float32(layers, heads, kv_heads, tokenizer, examples) -> None:
    shape = {"num_layers": layers, "num_heads": heads, "num_kv_heads": kv_heads}
    models = [make_model(tokenizer, hidden_size=32, intermediate_size=48, **shape) for _ in range(2)]
    ids, labels = batch_of(examples[:16])
    batch = shared(ids, labels)
    found = [own_logits(models[0], ids, labels), shared_logits(models[1], batch, torch.float32)]
    assert torch.allclose(*found, atol=1e-5)
    for logits in found:
        torch.nn.functional.cross_entropy(logits, batch.targets).backward()
    for expected, got in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.allclose(expected.grad, got.grad, atol=1e-5 * float(expected.grad.abs().max()) + 1e-8)


def test_bfloat16_is_as_close_to_float32_as_the_models_own(tokenizer, examples) -> None:
    model = small_model(tokenizer)
    ids, labels = batch_of(examples[:16])
    exact = own_logits(model, ids, labels)
    with torch.autocast("cpu", torch.bfloat16):
        own = (own_logits(model, ids, labels).float() - exact).square().mean()
    ours = (shared_logits(model, shared(ids, labels), torch.bfloat16) - exact).square().mean()
    assert 0 < ours < 1.5 * own


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 2e-2)])
def test_a_training_is_the_same_both_ways(
    precision, tolerance, examples, tokenizer, codec, sixty, tmp_path, monkeypatch
) -> None:
    settings = SETTINGS.model_copy(update={"precision": precision})
    models, calls = [small_model(tokenizer), small_model(tokenizer)], []
    monkeypatch.setattr(shared_forward_module, "shared_logits", lambda *a: calls.append(a) or shared_logits(*a))
    train_sft(models[0], codec, examples, settings, make_run(tmp_path / "shared", sixty))
    taken = len(calls)
    monkeypatch.setattr(shared_forward_module, "takes_shared_prefixes", lambda _: False)
    train_sft(models[1], codec, examples, settings, make_run(tmp_path / "own", sixty))
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
    checkpointed = small_model(tokenizer)
    with known_warnings_silenced():
        checkpointed.gradient_checkpointing_enable()
    for model in (
        dropout,
        hooked,
        half.to(torch.bfloat16),
        checkpointed,
        torch.nn.DataParallel(small_model(tokenizer)),
    ):
        assert not takes_shared_prefixes(model)
