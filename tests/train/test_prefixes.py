"""Batches of rows with common prefixes: each distinct token once, and every row and trained token as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from wordle_rl.train.prefix_sharing import share_prefixes

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
