"""Any causal model over a tree of prefixes: its own log-probabilities and gradients."""

import copy

import pytest

torch = pytest.importorskip("torch")

from small_models import SLIDING, small_config
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    NemotronConfig,
    NemotronForCausalLM,
)

from wordle_rl.data.dataset import Example
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.micro_batches import Batch

SMALL_EXPERTS = {
    "num_key_value_heads": 2, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 12, "head_dim": 8, "n_routed_experts": 2, "num_experts_per_tok": 1, "n_group": 1, "topk_group": 1,
    "moe_intermediate_size": 16, "first_k_dense_replace": 1,
}  # fmt: skip
SHARING = {
    "llama": (LlamaConfig, LlamaForCausalLM, {"tie_word_embeddings": False}),
    "llama, tied": (LlamaConfig, LlamaForCausalLM, {"tie_word_embeddings": True, "num_key_value_heads": 2}),
    "gemma": (GemmaConfig, GemmaForCausalLM, {"head_dim": 16, "tie_word_embeddings": True}),
    "gemma, untied": (GemmaConfig, GemmaForCausalLM, {"head_dim": 16, "tie_word_embeddings": False}),
    "attention without arguments": (NemotronConfig, NemotronForCausalLM, {"head_dim": 16}),
    "values of another width": (DeepseekV3Config, DeepseekV3ForCausalLM, SMALL_EXPERTS),
}
ROW_BY_ROW = {
    "windows": (Gemma3TextConfig, Gemma3ForCausalLM, {"head_dim": 16, "layer_types": SLIDING, "sliding_window": 4}),
    "capped attention": (
        Gemma2Config,
        Gemma2ForCausalLM,
        {"head_dim": 16, "layer_types": ["full_attention"] * 2, "attn_logit_softcapping": 1.0},
    ),
    "dropout in attention": (LlamaConfig, LlamaForCausalLM, {"attention_dropout": 0.1}),
    "sinks": (
        GptOssConfig,
        GptOssForCausalLM,
        {"head_dim": 16, "num_local_experts": 2, "num_experts_per_tok": 1, "layer_types": ["full_attention"] * 2},
    ),
}


def made(codec, config_class, model_class, changes):
    """A model of random weights, large enough that attention decides much."""
    torch.manual_seed(0)
    model = model_class(config_class(**small_config(codec) | changes))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(5)
    return model.eval()


def by_rows(model, examples: list[Example]):
    """Log-probabilities of trained tokens, one row at a time and without a cache."""
    found = []
    for example in examples:
        ids = torch.tensor([example.token_ids])
        scores = model(input_ids=ids, use_cache=False).logits[0, :-1].float().log_softmax(-1)
        found += [scores[i - 1, ids[0, i]] for i in range(1, ids.shape[1]) if example.loss_mask[i]]
    return torch.stack(found)


def batch_of(examples: list[Example]) -> Batch:
    return Batch.of(examples, [1.0] * len(examples), 0)


@pytest.mark.parametrize("name", SHARING)
def test_log_probabilities_and_gradients_are_the_models_own(name, codec, examples) -> None:
    model = made(codec, *SHARING[name])
    twin = copy.deepcopy(model)
    scorer, few = Scorer(model), examples[:6]
    assert scorer.shares_prefixes
    implementation = model.config._attn_implementation
    found, expected = scorer(batch_of(few))[0], by_rows(twin, few)
    assert torch.allclose(found, expected, atol=2e-5)
    weights = torch.linspace(-1, 1, len(found))
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    for got, own in zip(model.parameters(), twin.parameters(), strict=True):
        assert (got.grad is None) == (own.grad is None)
        if own.grad is not None:
            assert torch.allclose(got.grad, own.grad, atol=1e-4 * float(own.grad.abs().max()) + 1e-7)
    assert model.config._attn_implementation == implementation, "afterwards the model attends as before"


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_a_model_that_attends_otherwise_is_scored_row_by_row(name, codec, examples) -> None:
    model = made(codec, *ROW_BY_ROW[name])
    scorer = Scorer(model)
    assert not scorer.shares_prefixes
    with torch.no_grad():
        assert torch.allclose(scorer(batch_of(examples[:4]))[0], by_rows(model, examples[:4]), atol=2e-5)


def test_rows_longer_than_a_window_are_scored_row_by_row(codec, examples) -> None:
    """Within the window nothing is hidden, and prefixes may be shared."""
    window = len(examples[0].token_ids) - 4
    model = made(codec, MistralConfig, MistralForCausalLM, {"sliding_window": window, "head_dim": 16})
    wide = made(codec, MistralConfig, MistralForCausalLM, {"sliding_window": None, "head_dim": 16})
    scorer = Scorer(model)
    assert scorer.shares_prefixes
    with torch.no_grad():
        found, expected = scorer(batch_of(examples[:2]))[0], by_rows(model, examples[:2])
        assert torch.allclose(found, expected, atol=2e-5)
        assert not torch.allclose(expected, by_rows(wide, examples[:2]), atol=1e-3)


def test_a_shared_prefix_is_computed_once(codec, examples) -> None:
    model, lengths = made(codec, *SHARING["llama"]), []
    scorer, batch = Scorer(model), batch_of(examples[:8])
    hook = model.model.layers[0].mlp.register_forward_hook(lambda _module, given, _made: lengths.append(given[0].shape))
    with torch.no_grad():
        scorer(batch)
    hook.remove()
    [(rows, nodes, _)] = lengths
    assert rows == 1
    assert nodes < 0.8 * batch.input_ids.numel()
