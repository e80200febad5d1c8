"""Laws of credit: hand arithmetic, rows that sum to nothing, and groups that teach nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.train.advantages import (
    game_advantages,
    guess_advantages,
    is_constant,
    turn_advantages,
)

REWARDS = st.floats(-2, 2, allow_nan=False).map(lambda x: round(x, 3))
BOTH = pytest.mark.parametrize("credit", [game_advantages, turn_advantages, guess_advantages])
SCALES = pytest.mark.parametrize("scale", [False, True])


def test_game_credit_is_the_reward_above_the_mean() -> None:
    # Totals 3, 1, 2: the mean is 2.
    assert game_advantages([(1.0, 2.0), (1.0,), (0.0, 0.0, 2.0)]) == [(1.0, 1.0), (-1.0,), (0.0, 0.0, 0.0)]


def test_scaled_game_credit_is_divided_by_the_sample_deviation() -> None:
    # Totals 4, 0, 2: the mean is 2, the deviation sqrt((4 + 4 + 0) / 2) = 2.
    assert game_advantages([(4.0,), (0.0,), (2.0,)], scale=True) == [(1.0,), (-1.0,), (0.0,)]


def test_turn_credit_compares_what_is_still_to_come() -> None:
    # Returns to go: (3, 2), (1, 0), (2,). Means 2 at the first turn and 1 at the second.
    assert turn_advantages([(1.0, 2.0), (1.0, 0.0), (2.0,)]) == [(1.0, 1.0), (-1.0, -1.0), (0.0,)]


def test_guess_credit_looks_at_one_turn_alone() -> None:
    # Means of the turns: (1 + 0 + 2) / 3 = 1, then (5 + 1) / 2 = 3.
    assert guess_advantages([(1.0, 5.0), (0.0, 1.0), (2.0,)]) == [(0.0, 2.0), (-1.0, -2.0), (1.0,)]


def test_a_turn_that_one_game_alone_reached_is_measured_by_the_turn_before() -> None:
    # Returns to go: (4, 4, 1), (2, 2). The third turn has only the first game; the second turn's mean is 3.
    assert turn_advantages([(0.0, 3.0, 1.0), (0.0, 2.0)]) == [(1.0, 1.0, -2.0), (-1.0, -1.0)]


def test_scaled_turn_credit_is_divided_by_the_deviation_of_the_totals() -> None:
    # Totals 4 and 0: the deviation is sqrt(8); the means are 2 at both turns.
    found = turn_advantages([(0.0, 4.0), (0.0, 0.0)], scale=True)
    assert found[0] == pytest.approx((2 / math.sqrt(8),) * 2)
    assert found[1] == pytest.approx((-2 / math.sqrt(8),) * 2)


@BOTH
@SCALES
@given(rewards=st.lists(REWARDS, min_size=1, max_size=6).map(tuple), size=st.integers(2, 9))
def test_a_constant_group_gets_exactly_zero(credit, scale, rewards, size) -> None:
    found = credit([rewards] * size, scale=scale)
    assert found == [(0.0,) * len(rewards)] * size
    assert is_constant(found)


@SCALES
def test_totals_that_differ_by_rounding_alone_are_equal(scale) -> None:
    assert 0.1 + 0.2 != 0.3
    assert game_advantages([(0.1, 0.2), (0.3,)], scale=scale) == [(0.0, 0.0), (0.0,)]


@BOTH
@pytest.mark.parametrize("games", [[], [(1.0,)]])
def test_a_group_of_one_is_refused(credit, games) -> None:
    with pytest.raises(ValueError, match="group_size"):
        credit(games)


def test_a_group_is_constant_only_if_no_turn_is_credited() -> None:
    assert is_constant([(0.0, 0.0), (0.0,)])
    assert not is_constant([(0.0, 0.0), (1e-3,)])
    # Returns to go (1, 0) and (1,): what the turn that one game alone reached is short of stands in no other game.
    assert turn_advantages([(1.0, 0.0), (1.0,)]) == [(0.0, -1.0), (0.0,)]
    assert not is_constant([(0.0, -1.0), (0.0,)])
