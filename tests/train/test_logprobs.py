"""Scores of trained tokens: what one row at a time gives, whichever way the logits come about."""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lora_training import LORA
from round_training import token_logprobs
from small_models import SLIDING, small_config
from training_fixtures import small_model
from transformers import AutoConfig, AutoModelForCausalLM

import wordle_rl.train.logprobs as logprobs_module
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.policy.adapters import add_adapters
from wordle_rl.policy.tiny import make_model
from wordle_rl.train.example import Example
from wordle_rl.train.grpo import rows_per_pass
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.micro_batches import Batch, micro_batches
from wordle_rl.train.prefix_sharing import share_prefixes, short_attention

SMALL_EXPERTS = {
    "num_key_value_heads": 2, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 12, "head_dim": 8, "n_routed_experts": 2, "num_experts_per_tok": 1, "n_group": 1, "topk_group": 1,
    "moe_intermediate_size": 16, "first_k_dense_replace": 1,
}  # fmt: skip
WHOLE = {"head_dim": 16, "layer_types": ["full_attention"] * 2}
SHARING = {
    "llama": ("llama", {"tie_word_embeddings": False}),
    "llama, tied": ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 2}),
    "gemma": ("gemma", {"head_dim": 16, "tie_word_embeddings": True}),
    "gemma, untied": ("gemma", {"head_dim": 16, "tie_word_embeddings": False}),
    "attention without arguments": ("nemotron", {"head_dim": 16}),
    "values of another width": ("deepseek_v3", SMALL_EXPERTS),
    "windows narrower than a row": ("gemma3_text", {"head_dim": 16, "layer_types": SLIDING, "sliding_window": 4}),
    "windows wider than a row": ("gemma3_text", {"head_dim": 16, "layer_types": SLIDING, "sliding_window": 512}),
}
ROW_BY_ROW = {
    "capped attention": ("gemma2", {**WHOLE, "attn_logit_softcapping": 1.0}),
    "dropout in attention": ("llama", {"attention_dropout": 0.1}),
    "sinks": ("gpt_oss", {**WHOLE, "num_local_experts": 2, "num_experts_per_tok": 1}),
}
OWN_LOGITS = {
    "scaled by cohere": ("cohere", {"logit_scale": 0.5}),
    "scaled by granite": ("granite", {"logits_scaling": 4.0}),
    "capped": ("gemma2", {"head_dim": 16, "final_logit_softcapping": 5.0}),
}


def made(codec, architecture="llama", changes=None, scale: float = 5.0):
    """A model of random weights, by default large enough that attention decides much."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(architecture, **small_config(codec) | (changes or {}))
    return scaled(AutoModelForCausalLM.from_config(config), scale).eval()


@torch.no_grad()
def scaled(model, factor: float):
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.mul_(factor)
    return model


def batch_of(examples: list[Example]) -> Batch:
    return Batch.of(examples, [1.0] * len(examples), 0)


def by_rows(model, examples: list[Example]):
    """Log-probabilities of trained tokens, one row at a time."""
    masks = [torch.tensor(example.loss_mask[1:]).bool() for example in examples]
    scores = [token_logprobs(model, example.token_ids[:1], example.token_ids[1:]) for example in examples]
    return torch.cat([row[mask] for row, mask in zip(scores, masks, strict=True)])


def check_against_rows(scorer: Scorer, examples: list[Example]) -> None:
    """Compare log-probabilities and gradients with those of the model's own passes over single rows."""
    twin = copy.deepcopy(scorer.model).eval()  # layers are computed again in training mode alone
    found, expected = scorer(batch_of(examples))[0], by_rows(twin, examples)
    assert torch.allclose(found, expected, atol=2e-5)
    weights = torch.linspace(-1, 1, len(found))
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    assert_same_gradients(scorer.model, twin)


def assert_same_gradients(one, other, tolerance: float = 1e-4) -> None:
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            assert torch.allclose(a.grad, b.grad, atol=tolerance * float(b.grad.abs().max()) + 1e-7)


@pytest.mark.parametrize("name", [*SHARING, *ROW_BY_ROW])
def test_scores_are_those_of_single_rows_whether_prefixes_are_shared_or_not(name, codec, examples) -> None:
    model = made(codec, *(SHARING | ROW_BY_ROW)[name])
    scorer, implementation = Scorer(model), model.config._attn_implementation
    assert scorer.shares_prefixes == (name in SHARING)
    check_against_rows(scorer, examples[:6])
    assert model.config._attn_implementation == implementation, "afterwards the model attends as before"


@pytest.mark.parametrize(("layers", "heads", "kv_heads"), [(1, 2, 1), (2, 4, 2), (3, 2, 2)])
def test_scores_of_the_embedded_model_are_those_of_single_rows(layers, heads, kv_heads, tokenizer, examples) -> None:
    shape = {"num_layers": layers, "num_heads": heads, "num_kv_heads": kv_heads}
    scorer = Scorer(make_model(tokenizer, hidden_size=32, intermediate_size=48, **shape))
    assert scorer.shares_prefixes
    check_against_rows(scorer, examples[:16])


@pytest.mark.parametrize("name", OWN_LOGITS)
def test_a_model_that_changes_its_logits_is_asked_for_all_of_them(name, codec, examples) -> None:
    """Also where that does not show in the small weights it begins with."""
    scorer = Scorer(made(codec, *OWN_LOGITS[name], scale=0.1))
    scaled(scorer.model, 50.0)
    check_against_rows(scorer, examples[:4])


def test_rows_longer_than_a_window_are_scored_row_by_row(codec, examples) -> None:
    """Within the window nothing is hidden, and prefixes may be shared."""
    window = len(examples[0].token_ids) - 4
    model, wide = (made(codec, "mistral", {"sliding_window": size, "head_dim": 16}) for size in (window, None))
    scorer = Scorer(model)
    assert scorer.shares_prefixes
    with torch.no_grad():
        found, expected = scorer(batch_of(examples[:2]))[0], by_rows(model, examples[:2])
        assert torch.allclose(found, expected, atol=2e-5)
        assert not torch.allclose(expected, by_rows(wide, examples[:2]), atol=1e-3)


@pytest.mark.parametrize("way", ["a tree", "rows", "sharded"])
@pytest.mark.parametrize("targets", ["tokens", "distributions"])
def test_a_head_in_pieces_is_the_whole_head(targets, way, codec, examples, monkeypatch) -> None:
    """Values and gradients, over several pieces of 64 places."""
    few = examples[:24]
    if targets == "distributions":
        trained = [[t for t, m in zip(e.token_ids[1:], e.loss_mask[1:], strict=True) if m] for e in few]
        soft = [[[(token, 0.5), (9, 0.5)] for token in tokens] for tokens in trained]
        few = [Example(e.token_ids, e.loss_mask, soft_targets=targets) for e, targets in zip(few, soft, strict=True)]
    if way == "rows":
        monkeypatch.setattr(logprobs_module, "takes_prefix_tree", lambda _: False)
    model = made(codec, changes={"tie_word_embeddings": False}, scale=3)
    twin, calls = copy.deepcopy(model), []
    found = [Scorer(twin, sharded=way == "sharded")(batch_of(few), True)]
    monkeypatch.setattr(logprobs_module, "PIECE_BYTES", 1)
    scorer = Scorer(model, sharded=way == "sharded")
    assert scorer.shares_prefixes == (way == "a tree")
    hook = model.lm_head.register_forward_hook(lambda _module, given, _made: calls.append(len(given[0])))
    found.append(scorer(batch_of(few), True))
    pieces = len(calls)
    for whole, of_pieces in zip(*found, strict=True):
        assert torch.allclose(whole, of_pieces, atol=1e-5)
    for logprobs, *_ in found:
        (logprobs * torch.linspace(-1, 1, len(logprobs))).sum().backward()
    hook.remove()
    if way == "sharded":
        assert len(calls) == 1, "weights are gathered once"
    else:
        assert max(calls) == 64
        assert len(calls) == 2 * pieces > 2, "a piece's logits are dropped, and computed again for its gradient"
    assert_same_gradients(model, twin)


@pytest.mark.parametrize("kind", ["embedded", "llama", "adapters"])
def test_gradient_checkpointing_changes_neither_values_nor_gradients(kind, tokenizer, codec, examples) -> None:
    model = small_model(tokenizer) if kind == "embedded" else made(codec)
    if kind == "adapters":
        model = add_adapters(model, LORA, "base")
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight.normal_(std=0.1)
    whole, calls = model.get_base_model() if kind == "adapters" else model, []
    scorer = Scorer(model, checkpointing=True)
    model.train()
    hook = whole.model.layers[0].mlp.act_fn.register_forward_hook(lambda *_: calls.append(1))
    scorer(batch_of(examples[:6]))[0].sum().backward()
    assert len(calls) == 2, "computed again"
    hook.remove()
    model.zero_grad()
    check_against_rows(scorer, examples[:6])


def test_rows_without_a_trained_token_have_no_scores_and_a_gradient_of_zeros(codec) -> None:
    """What fills up the micro-batches of a process that has fewer of them than others."""
    model = made(codec)
    logprobs, entropies, right = Scorer(model)(batch_of([Example([1, 2, 3], [0, 0, 0])]), True)
    assert len(logprobs) == len(entropies) == len(right) == 0
    logprobs.sum().backward()
    assert all(weight.grad is not None and not weight.grad.any() for weight in model.parameters())


# --- micro-batches ---


TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=8)
ROW_LISTS = st.lists(TOKENS, min_size=1, max_size=12).map(lambda rows: [Example(row, [1] * len(row)) for row in rows])


@given(ROW_LISTS, st.integers(0, 5), st.booleans())
def test_every_row_is_in_one_batch_and_no_batch_is_too_large(rows, size, sharing) -> None:
    found = micro_batches(rows, size, sharing=sharing)
    assert sorted(id(row) for batch in found for row in batch) == sorted(map(id, rows))
    assert all(0 < len(batch) <= (size or len(rows)) for batch in found)
    assert len(found) == (-(-len(rows) // size) if size else 1)


@given(ROW_LISTS, st.integers(1, 5))
def test_rows_with_a_common_beginning_are_neighbours(rows, size) -> None:
    """Sorted as words in a dictionary, every beginning that rows share is one stretch of them."""
    found = [tuple(row.token_ids) for batch in micro_batches(rows, size, sharing=True) for row in batch]
    for length in range(1, 9):
        beginnings = [row[:length] for row in found]
        stretches = sum(before != after for before, after in pairwise(beginnings)) + 1
        assert stretches == len({*beginnings})


@pytest.mark.parametrize(
    ("size", "num_rows", "wanted"),
    [
        (0, 8, 0),  # all in one
        (2, 8, 2),  # a row per game: four passes of two
        (2, 21, 6),  # state shape has more rows, and takes four passes too
        (2, 3, 1),  # failed games have none
        (8, 21, 0),
    ],
)
def test_a_step_has_as_many_passes_as_its_games_make(size, num_rows, wanted) -> None:
    assert rows_per_pass(GRPOSettings(groups_per_step=2, group_size=4), size, num_rows) == wanted


def test_the_picture_of_a_micro_batch() -> None:
    rows = [
        Example([1, 2, 3, 4], [0, 0, 1, 1], [0, 0, 5.0, 6.0], [0, 0, -1.0, -2.0]),
        Example([1, 7], [1, 1], [8.0, 9.0], [-3.0, -4.0]),
    ]
    batch = Batch.of(rows, [0.5, 0.25], pad_id=0)
    assert batch.input_ids.tolist() == [[1, 2, 3, 4], [1, 7, 0, 0]]
    picture = ["".join("#" if mark else "." for mark in row) for row in batch.trained.tolist()]
    assert picture == [".##", "#.."], "nothing predicts the first token of a row"
    assert batch.targets.tolist() == [3, 4, 7]
    assert batch.rows.tolist() == [0, 0, 1]
    assert batch.weights.tolist() == [0.5, 0.5, 0.25]
    assert batch.advantages.tolist() == [5, 6, 9]
    assert batch.sampler_logprobs.tolist() == [-1, -2, -4]
    assert (batch.num_rows, batch.soft_ids) == (2, None)


# --- prefix sharing: each distinct token once ---


def test_a_shared_prefix_is_computed_once(codec, examples) -> None:
    model, lengths = made(codec), []
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


def test_short_attention_makes_its_mask_where_the_queries_are() -> None:
    q, k = torch.ones(2, 4, 6, 8), torch.ones(2, 2, 6, 8)
    with torch.device("meta"):  # what names no device is made there, as what names none on a GPU is made on the CPU
        assert short_attention(q, k, k, 1.0).equal(q)
