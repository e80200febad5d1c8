"""The forward pass over distinct tokens: logits, gradients and trainings are those of the model's own."""

import pytest
from sft_training import torch
from training_fixtures import small_model

from wordle_rl.policy.tiny import make_model
from wordle_rl.train.micro_batches import Batch
from wordle_rl.train.prefix_sharing import SharedBatch, share_prefixes, shared_logits, takes_shared_prefixes


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


def test_a_model_with_more_to_it_takes_its_own_forward_pass(tokenizer) -> None:
    assert takes_shared_prefixes(small_model(tokenizer))
    dropout, hooked, half = (small_model(tokenizer) for _ in range(3))
    dropout.model.layers[0].self_attn.attention_dropout = 0.1
    hooked.model.layers[0].mlp.register_forward_hook(lambda *_: None)
    for model in (dropout, hooked, half.to(torch.bfloat16), torch.nn.DataParallel(small_model(tokenizer))):
        assert not takes_shared_prefixes(model)
