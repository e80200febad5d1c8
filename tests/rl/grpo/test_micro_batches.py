"""Laws of micro-batches by length: no row is lost or changed, and none carries padding that its batch does not need."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.rl.grpo.micro_batches import by_length, trimmed

PAD = 0


@st.composite
def steps(draw):
    """The games of a step as (prompt length, completion length), and the number of micro-batches."""
    parts, size = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    lengths = st.tuples(st.integers(1, 5), st.integers(1, 7))
    return draw(st.lists(lengths, min_size=parts * size, max_size=parts * size)), parts


def padded(games, parts):
    """The micro-batches TRL would make: all games padded to the longest of the step; every token is another number."""
    before, behind = (max(game[side] for game in games) for side in (0, 1))
    columns = {"prompt_ids": [], "prompt_mask": [], "completion_ids": [], "completion_mask": [], "advantages": []}
    for number, (prompt, completion) in enumerate(games):
        tokens = torch.arange(1, 13) + 100 * number
        columns["prompt_ids"].append([PAD] * (before - prompt) + tokens[:prompt].tolist())
        columns["prompt_mask"].append([0] * (before - prompt) + [1] * prompt)
        columns["completion_ids"].append(tokens[5 : 5 + completion].tolist() + [PAD] * (behind - completion))
        columns["completion_mask"].append([1] * completion + [0] * (behind - completion))
        columns["advantages"].append(
            [number + place / 8 for place in range(completion)] + [0.0] * (behind - completion)
        )
    whole = {name: torch.tensor(value) for name, value in columns.items()}
    whole["weight_of_row"] = torch.arange(len(games))[:, None] + 0.5
    whole["number"] = torch.arange(len(games))
    size = len(games) // parts
    return [
        {name: value[first : first + size] for name, value in whole.items()}
        | {"num_items_in_batch": torch.tensor(9.0), "ref_per_token_logps": None}
        for first in range(0, len(games), size)
    ]


def rows_of(batches):
    """Every row without its padding."""
    return sorted(
        (
            batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist(),
            batch["completion_ids"][row][batch["completion_mask"][row].bool()].tolist(),
            batch["advantages"][row][batch["completion_mask"][row].bool()].tolist(),
            batch["weight_of_row"][row].tolist(),
            int(batch["number"][row]),
        )
        for batch in batches
        for row in range(len(batch["prompt_ids"]))
    )


@given(steps())
def test_every_row_is_kept_whole(step) -> None:
    batches = padded(*step)
    dealt = by_length(batches)
    assert rows_of(dealt) == rows_of(batches)
    assert [len(batch["prompt_ids"]) for batch in dealt] == [len(batch["prompt_ids"]) for batch in batches]
    assert all(batch["num_items_in_batch"] == 9.0 and batch["ref_per_token_logps"] is None for batch in dealt)


@given(steps())
def test_the_longest_come_first_and_no_column_is_all_padding(step) -> None:
    dealt = by_length(padded(*step))
    lengths = [int(n) for batch in dealt for n in batch["prompt_mask"].sum(dim=1) + batch["completion_mask"].sum(dim=1)]
    assert lengths == sorted(lengths, reverse=True)
    for batch in dealt:
        assert batch["prompt_mask"].any(dim=0).all()
        assert batch["completion_mask"].any(dim=0).all()
        assert batch["advantages"].shape == batch["completion_ids"].shape == batch["completion_mask"].shape


def test_uneven_games_cost_less_than_padded_to_the_longest() -> None:
    games = [(3, 1), (3, 7), (3, 1), (3, 7)]
    cells = [
        sum(batch["prompt_ids"].numel() + batch["completion_ids"].numel() for batch in batches)
        for batches in (padded(games, 2), by_length(padded(games, 2)))
    ]
    assert cells == [40, 28]


@given(steps())
def test_trimming_alone_keeps_who_is_with_whom(step) -> None:
    for batch in padded(*step):
        assert rows_of([trimmed(batch)]) == rows_of([batch])
