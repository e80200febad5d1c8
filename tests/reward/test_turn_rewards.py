"""Laws of rewards per turn: they add up to the game's, whatever is paid for and however the game ends."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.prompt import Prompter
from wordle_rl.reward import COMPONENTS, PRESETS, Rubric, TurnRewards
from wordle_rl.solver import Solver
from wordle_rl.words import WordList

REPLIES = ("<guess>crane</guess>", "<guess>speed</guess>", "<guess>qqqqq</guess>", "crane", "<guess>tea</guess>", "")


@pytest.fixture(scope="module")
def small_solver(small_words: WordList) -> Solver:
    return Solver(small_words)


@given(
    st.dictionaries(st.sampled_from(sorted(COMPONENTS)), st.floats(-2, 2), min_size=1, max_size=4),
    st.lists(st.sampled_from(REPLIES), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_turns_add_up_to_the_rubrics_reward(
    small_words: WordList,
    small_solver: Solver,
    weights: dict[str, float],
    replies: list[str],
    keep_order: bool,
    has_given: bool,
    truncates: bool,
) -> None:
    rubric, given_words = Rubric(weights, keep_order), ("think",) if has_given else ()
    env = WordleEnv("crate", small_words, Prompter(), given_words)
    rewards = TurnRewards(rubric, small_solver, "crate", env)
    paid = []
    for reply in replies:
        if env.stop_reason is None:
            env.step(reply)
            paid.append(rewards.next())
    if env.stop_reason is None:
        env.truncate(StopReason.TOKEN_BUDGET if truncates else StopReason.NOT_NEEDED)
        paid.append(rewards.rest())
    total = rubric.score(env.transcript(), small_solver).total
    assert math.isclose(math.fsum(paid), total, abs_tol=1e-9)
    assert rewards.breakdown().total == total


@pytest.mark.parametrize("preset", PRESETS)
def test_a_win_is_paid_on_the_turn_that_won(small_words: WordList, small_solver: Solver, preset: str) -> None:
    env = WordleEnv("crate", small_words, Prompter())
    rewards = TurnRewards(PRESETS[preset], small_solver, "crate", env)
    env.step("<guess>think</guess>")
    before = rewards.next()
    env.step("<guess>crate</guess>")
    assert rewards.next() > before
