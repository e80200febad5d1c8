"""Laws of grouped attention: the same numbers, and every model gets its own formula back."""

from contextlib import nullcontext

import pytest

pytest.importorskip("torch")

import torch
from small_models import small_config
from transformers import LlamaConfig, LlamaForCausalLM

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.policy.kv_cache import GROUPED, GameCache, next_logits, sampling_mode


@pytest.mark.parametrize("new", [1, 4])
def test_grouped_attention_is_the_eager_formula(codec: ChatCodec, new: int) -> None:
    model = LlamaForCausalLM(LlamaConfig(**small_config(codec) | {"num_attention_heads": 4, "num_key_value_heads": 2}))
    model.set_attn_implementation("eager")
    ids = torch.randint(4, len(codec.tokenizer), (3, 7))
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1] * 7, [0, 1, 1, 1, 1, 1, 1]])
    logits = []
    for context in (nullcontext(), sampling_mode(model)):
        with context, torch.no_grad():
            cache = model(ids[:, :-new], attention_mask=mask[:, :-new], use_cache=True).past_key_values
            logits.append(model(ids[:, -new:], attention_mask=mask, past_key_values=cache).logits)
    assert torch.allclose(logits[0], logits[1], atol=1e-5)


def test_padding_does_not_spoil_its_row_in_bfloat16(codec: ChatCodec) -> None:
    model = LlamaForCausalLM(LlamaConfig(**small_config(codec) | {"num_hidden_layers": 2}))
    model.set_attn_implementation("eager")
    mask = torch.tensor([[0, 0, 1, 1], [1] * 4])
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad(), sampling_mode(model):
        logits = model(torch.randint(4, len(codec.tokenizer), mask.shape), attention_mask=mask).logits
    assert logits[mask.bool()].isfinite().all()


@torch.no_grad()
def test_under_autocast_a_cache_is_in_the_smaller_type_and_gives_the_same_logits(codec: ChatCodec) -> None:
    model = LlamaForCausalLM(LlamaConfig(**small_config(codec) | {"num_hidden_layers": 2}))
    ids, alive = torch.randint(4, len(codec.tokenizer), (3, 9)), torch.ones(3, 9, dtype=torch.long)
    with torch.autocast("cpu", torch.bfloat16), sampling_mode(model):
        plain = model(ids).logits[:, -1].float()
        cache = GameCache.of_model(model, rows=3)
        next_logits(model, cache, ids[:, :5], alive[:, :5])
        logits = next_logits(model, cache, ids[:, 5:], alive[:, 5:])
    assert {layer.keys.dtype for layer in cache.cache.layers} == {torch.bfloat16}
    assert torch.equal(logits, plain)


@pytest.mark.parametrize("own", ["eager", "sdpa"])
def test_a_model_gets_its_own_attention_back(own: str, codec: ChatCodec) -> None:
    model = LlamaForCausalLM(LlamaConfig(**small_config(codec)))
    model.set_attn_implementation(own)
    with pytest.raises(KeyboardInterrupt, match=GROUPED), sampling_mode(model):
        raise KeyboardInterrupt(model.config._attn_implementation)
    assert model.config._attn_implementation == own
