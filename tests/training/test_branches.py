"""Laws of branches: each is trained as a row of its own would be."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st
from training_fixtures import small_model

from wordle_rl.data.dataset import Example
from wordle_rl.training.branches import BranchCollator, branched, takes_branches, visible
from wordle_rl.training.sft import as_dataset

SEQUENCE = [40, 41, 42, 43, 44, 45, 46]


def learnt_logits(model, inputs) -> tuple:
    """Logits and tokens where there is a loss."""
    following = inputs.pop("labels")[:, 1:]
    return model(**inputs).logits[:, :-1][following != -100], following[following != -100]


def picture(position_ids: list[int]) -> list[str]:
    return ["".join("#" if seen else "." for seen in row) for row in visible(position_ids)]


def test_a_branch_sees_its_prefix_and_itself() -> None:
    row = branched(SEQUENCE, [2, 4], [7, 8])
    assert row.token_ids == [40, 41, 42, 43, 7, 8, 41, 7, 8]
    assert row.position_ids == [0, 1, 2, 3, 4, 5, 1, 2, 3]
    assert picture(row.position_ids) == [
        "#........",
        "##.......",
        "###......",
        "####.....",
        "#####....",
        "######...",
        "#.....#..",
        "#.....##.",
        "#.....###",
    ]


def test_one_prefix_needs_no_branch() -> None:
    assert branched(SEQUENCE, [3], [7, 8]) == Example([40, 41, 42, 7, 8], [0, 0, 0, 1, 1])


def test_the_sequence_itself_may_be_trained_on_too() -> None:
    row = branched(SEQUENCE, [2, 4], [7, 8], [0, 0, 1, 0, 0, 1, 0])
    assert row.token_ids == [40, 41, 42, 43, 44, 45, 43, 7, 8, 41, 7, 8]
    assert row.loss_mask == [0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 1]
    assert row.position_ids == [0, 1, 2, 3, 4, 5, 3, 4, 5, 1, 2, 3]
    assert branched(SEQUENCE, [6], [7], [1, 0, 0, 0, 0, 0, 0]).token_ids == [*SEQUENCE[:6], SEQUENCE[5], 7]
    assert branched(SEQUENCE, [3], [7], [0] * 7) == branched(SEQUENCE, [3], [7])


def test_branches_are_told_apart_whatever_their_lengths() -> None:
    """In rising order the second branch would begin at the position after the end of the first."""
    row = branched(SEQUENCE, [2, 4, 6], [7])
    assert row.position_ids == [0, 1, 2, 3, 4, 5, 6, 3, 4, 1, 2]
    assert [line.rstrip(".") for line in picture(row.position_ids)[-4:]] == [
        "###....#", "###....##", "#........#", "#........##",
    ]  # fmt: skip


@settings(max_examples=60)
@given(
    forks=st.sets(st.integers(1, len(SEQUENCE)), min_size=1).map(sorted), size=st.integers(1, 4), pad=st.integers(0, 5)
)
def test_every_token_has_the_probability_of_a_row_of_its_own(forks, size, pad) -> None:
    model, continuation = MODELS["eager"], list(range(20, 20 + size))
    row = branched(SEQUENCE, forks, continuation)
    batch = [row, Example([50] * (len(row.token_ids) + pad), [0] * (len(row.token_ids) + pad))]
    expected = []
    for fork in reversed(forks):
        logits = model(input_ids=torch.tensor([[*SEQUENCE[:fork], *continuation]])).logits[0]
        expected.append(logits[fork - 1 : fork - 1 + size])
    found, targets = learnt_logits(model, BranchCollator(0, "eager")(list(as_dataset(batch))))
    assert targets.tolist() == continuation * len(forks)
    assert torch.allclose(found, torch.cat(expected), atol=1e-4)


def test_both_kinds_of_attention_agree() -> None:
    batch = list(as_dataset([branched(SEQUENCE, [2, 4, 7], [7, 8]), branched(SEQUENCE, [3, 5], [9, 8])]))
    found = [learnt_logits(MODELS[name], BranchCollator(0, name)(batch))[0] for name in ("eager", "sdpa")]
    assert torch.allclose(*found, atol=1e-4)


def test_attention_that_takes_no_masks_of_any_form_has_no_branches() -> None:
    assert all(takes_branches(model) for model in MODELS.values())
    model = MODELS["eager"]
    for name, value in (("_attn_implementation_internal", "flash_attention_2"), ("layer_types", ["sliding_attention"])):
        kept = getattr(model.config, name)
        setattr(model.config, name, value)
        assert not takes_branches(model)
        setattr(model.config, name, kept)


def _model(attention: str) -> object:
    from wordle_rl.models.tiny import make_tokenizer

    model = small_model(make_tokenizer()).eval()
    model.set_attn_implementation(attention)
    return model


MODELS = {name: _model(name) for name in ("eager", "sdpa")}
