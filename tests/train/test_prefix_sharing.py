"""Prefix sharing: each distinct token once, with the log-probabilities and gradients of the model itself."""

import copy

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st
from small_models import SLIDING, small_config
from training_fixtures import small_model
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
from wordle_rl.policy.tiny import make_model
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.micro_batches import Batch
from wordle_rl.train.prefix_sharing import (
    SharedBatch,
    share_prefixes,
    shared_logits,
    short_attention,
    takes_shared_prefixes,
)

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


# --- the tree ---

ROWS = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=2, max_size=8), min_size=1, max_size=6
).filter(lambda rows: any(trained for row in rows for _, trained in row[1:]))


def padded(rows: list[list[tuple[int, bool]]]) -> tuple:
    """Ids of rows of (token, trained), filled up with token 0, and which of them after the first are trained."""
    width = max(map(len, rows))
    ids = torch.tensor([[token for token, _ in row] + [0] * (width - len(row)) for row in rows])
    trained = torch.tensor([[mark for _, mark in row] + [False] * (width - len(row)) for row in rows])
    return ids, trained[:, 1:]


def test_the_picture_of_the_docstring() -> None:
    ids, trained = padded([[(token, True) for token in row] for row in ([1, 2, 3, 4, 9], [1, 2, 5, 6, 9], [1, 7, 9])])
    batch = share_prefixes(ids, trained, 128)
    assert batch.tokens[:7].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert batch.positions[:7].tolist() == [0, 1, 2, 3, 2, 3, 1]
    assert batch.node_of.tolist() == [[0, 1, 2, 3], [0, 1, 4, 5], [0, 6, 0, 0]]
    assert batch.asked[batch.predicted_by].tolist() == [0, 1, 2, 3, 0, 1, 4, 5, 0, 6]


@given(ROWS)
def test_rows_can_be_read_back_and_no_prefix_stands_twice(rows) -> None:
    ids, trained = padded(rows)
    batch = share_prefixes(ids, trained, 128)
    prefixes, predicting = set(), []
    for row, line in zip(rows, batch.node_of.tolist(), strict=True):
        tokens = [token for token, _ in row]
        places = [place for place in range(1, len(row)) if row[place][1]]
        for place in range(max(places, default=0)):
            assert batch.tokens[line[place]] == tokens[place]
            assert batch.positions[line[place]] == place
            prefixes.add((*tokens[: place + 1],))
        predicting += [line[place - 1] for place in places]
    assert len(batch.places) == len(prefixes)
    assert batch.asked[batch.predicted_by].tolist() == predicting
    assert batch.num_asked == len(set(predicting))
    assert batch.node_of.flatten()[batch.places].tolist() == list(range(len(prefixes)))


# --- the embedded model ---


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


def test_a_model_with_more_to_it_takes_its_own_forward_pass(tokenizer) -> None:
    assert takes_shared_prefixes(small_model(tokenizer))
    dropout, hooked, half = (small_model(tokenizer) for _ in range(3))
    dropout.model.layers[0].self_attn.attention_dropout = 0.1
    hooked.model.layers[0].mlp.register_forward_hook(lambda *_: None)
    for model in (dropout, hooked, half.to(torch.bfloat16), torch.nn.DataParallel(small_model(tokenizer))):
        assert not takes_shared_prefixes(model)


def test_short_attention_makes_its_mask_where_the_queries_are() -> None:
    q, k = torch.ones(2, 4, 6, 8), torch.ones(2, 2, 6, 8)
    with torch.device("meta"):  # what names no device is made there, as what names none on a GPU is made on the CPU
        assert short_attention(q, k, k, 1.0).equal(q)
