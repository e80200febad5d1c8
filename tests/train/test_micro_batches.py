"""Laws of micro-batches: every row in one of them, of like length or with a common beginning, the longest first."""

from itertools import pairwise

import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.config import GRPOTraining
from wordle_rl.data.dataset import Example
from wordle_rl.train.grpo import rows_per_pass
from wordle_rl.train.micro_batches import Batch, micro_batches

TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=8)
ROWS = st.lists(TOKENS, min_size=1, max_size=12).map(lambda rows: [Example(row, [1] * len(row)) for row in rows])


@given(ROWS, st.integers(0, 5), st.booleans())
def test_every_row_is_in_one_batch_and_no_batch_is_too_large(rows, size, sharing) -> None:
    found = micro_batches(rows, size, sharing=sharing)
    assert sorted(id(row) for batch in found for row in batch) == sorted(map(id, rows))
    assert all(0 < len(batch) <= (size or len(rows)) for batch in found)
    assert len(found) == (-(-len(rows) // size) if size else 1)


@given(ROWS, st.integers(1, 5))
def test_the_longest_rows_come_first(rows, size) -> None:
    lengths = [len(row.token_ids) for batch in micro_batches(rows, size) for row in batch]
    assert lengths == sorted(lengths, reverse=True)


@given(ROWS, st.integers(1, 5))
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
