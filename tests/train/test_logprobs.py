"""Scores of trained tokens: what one row at a time gives, whichever way the logits come about."""

import copy
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st
from lora_training import LORA
from small_models import small_config
from training_fixtures import small_model
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

import wordle_rl.train.logprobs as logprobs_module
from wordle_rl.config import GRPOTraining
from wordle_rl.data.dataset import Example
from wordle_rl.policy.adapters import add_adapters
from wordle_rl.train.grpo import rows_per_pass
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.micro_batches import Batch, micro_batches


def made(codec, config_class=LlamaConfig, model_class=LlamaForCausalLM, scale: float = 1.0, **changes):
    torch.manual_seed(0)
    model = model_class(config_class(**small_config(codec) | changes))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(scale)
    return model.eval()


def batch_of(examples: list[Example]) -> Batch:
    return Batch.of(examples, [1.0] * len(examples), 0)


def log_softmaxes(model, examples: list[Example], temperature: float = 1.0):
    """Log-probabilities of the whole vocabulary at each trained token, row by row, and the tokens."""
    found, targets = [], []
    for example in examples:
        ids = torch.tensor([example.token_ids])
        scores = (model(input_ids=ids, use_cache=False).logits[0, :-1].float() / temperature).log_softmax(-1)
        places = [place for place in range(1, ids.shape[1]) if example.loss_mask[place]]
        found.append(scores[[place - 1 for place in places]])
        targets += [int(ids[0, place]) for place in places]
    return torch.cat(found), torch.tensor(targets)


def assert_same_gradients(one, other, tolerance: float = 1e-4) -> None:
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            assert torch.allclose(a.grad, b.grad, atol=tolerance * float(b.grad.abs().max()) + 1e-8)


OWN_LOGITS = {
    "scaled by cohere": (CohereConfig, CohereForCausalLM, 3.0, {"logit_scale": 0.5}),
    "scaled by granite": (GraniteConfig, GraniteForCausalLM, 3.0, {"logits_scaling": 4.0}),
    "capped": (Gemma2Config, Gemma2ForCausalLM, 3.0, {"head_dim": 16, "final_logit_softcapping": 5.0}),
    "capped, too small to show": (Gemma2Config, Gemma2ForCausalLM, 1.0, {"head_dim": 16}),
}


@pytest.mark.parametrize("name", OWN_LOGITS)
def test_a_model_that_changes_its_logits_is_asked_for_all_of_them(name, codec, examples) -> None:
    config_class, model_class, scale, changes = OWN_LOGITS[name]
    model = made(codec, config_class, model_class, scale, **changes)
    twin, few = copy.deepcopy(model), examples[:4]
    scorer = Scorer(model)
    own_head = model.get_output_embeddings()
    assert scorer._parts[2] is None
    found, _, _ = scorer(batch_of(few))
    expected, targets = log_softmaxes(twin, few)
    expected = expected.gather(1, targets[:, None])[:, 0]
    assert torch.allclose(found, expected, atol=2e-5)
    found.sum().backward()
    expected.sum().backward()
    assert own_head.weight.grad.any()
    assert_same_gradients(model, twin)
    assert Scorer(made(codec))._parts[2] is not None, "of a plain model the head alone is"


@pytest.mark.parametrize("way", ["a tree", "rows", "sharded"])
@pytest.mark.parametrize("targets", ["tokens", "distributions"])
def test_a_head_in_pieces_is_the_whole_head(targets, way, codec, examples, monkeypatch) -> None:
    """Values and gradients, over several pieces of 64 places."""
    few = examples[:24]
    if targets == "distributions":
        few = [Example(e.token_ids, e.loss_mask, soft_targets=[[(t, 0.5), (9, 0.5)] for t in _trained(e)]) for e in few]
    if way == "rows":
        monkeypatch.setattr(logprobs_module, "takes_prefix_tree", lambda _: False)
    model = made(codec, scale=3, tie_word_embeddings=False)
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


def _trained(example: Example) -> list[int]:
    return [t for t, m in zip(example.token_ids[1:], example.loss_mask[1:], strict=True) if m]


@pytest.mark.parametrize("kind", ["embedded", "llama", "adapters"])
def test_gradient_checkpointing_changes_neither_values_nor_gradients(kind, tokenizer, codec, examples) -> None:
    model = small_model(tokenizer) if kind == "embedded" else made(codec, scale=3)
    if kind == "adapters":
        model = add_adapters(model, LORA, "base")
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight.normal_(std=0.1)
    twin, batch, calls = copy.deepcopy(model), batch_of(examples[:6]), [0, 0]
    scorers = [Scorer(twin), Scorer(model, checkpointing=True)]
    for place, each in enumerate((twin, model)):
        each.train()
        layer = each.get_base_model().model.layers[0] if kind == "adapters" else each.model.layers[0]

        def count(*_: object, place: int = place) -> None:
            calls[place] += 1

        layer.mlp.act_fn.register_forward_hook(count)
    found = [scorer(batch)[0] for scorer in scorers]
    for logprobs in found:
        logprobs.sum().backward()
    assert calls[1] == 2, "computed again"
    assert torch.allclose(*found, atol=1e-5)
    assert_same_gradients(model, twin)


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
    settings = GRPOTraining(groups_per_step=2, group_size=4, micro_batch_size=size)
    assert rows_per_pass(settings, num_rows) == wanted


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
