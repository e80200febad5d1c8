"""Laws of where groups begin when boards are given: their share, the others as without, the same again by seed."""

import json

import pytest

from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.prompt import Prompter
from wordle_rl.rollout import InitialState
from wordle_rl.train.starts import GroupStarts

SHARE = 0.4


@pytest.fixture
def starts(small_words):
    """Starts of the small words; the given boards have secrets that are not among those to choose from, too."""
    given = tuple(
        InitialState(secret, ("crane",)) for secret in (*small_words.answers, *small_words.outside) if secret > "d"
    )

    def make(**changes) -> GroupStarts:
        settings = {
            "given_starts": given,
            "starts_fraction": SHARE,
            "outside_rate": 0.2,
            "max_prefix_guesses": 2,
            "prioritized_fraction": 0.5,
        }
        return GroupStarts(small_words, Prompter(), small_words.answers[:12], 3, **(settings | changes))

    return make


def test_the_share_comes_from_the_file_and_the_others_are_drawn_as_without_it(starts) -> None:
    mixed, plain = starts(), starts(given_starts=())
    given = {*mixed._given_starts}
    taken = 0
    for step in range(50):
        for before, after in zip(plain.draw(8, step), mixed.draw(8, step), strict=True):
            assert after == before or after in given
            taken += after in given
    assert 0.3 < taken / 400 < 0.5
    assert {*starts(starts_fraction=1.0).draw(8, 0)} <= given
    same = starts(starts_fraction=1.0, given_starts=()).draw(8, 0)
    assert same == plain.draw(8, 0), "a share of no boards is no group"


def test_the_same_seed_step_process_and_refill_draw_the_same_and_others_do_not(starts) -> None:
    whole = starts(starts_fraction=1.0)
    seen = [whole.draw(6, *numbers) for numbers in ((0,), (1,), (0, 1), (0, 0, 1), (1, 1, 1))]
    assert seen == [starts(starts_fraction=1.0).draw(6, *n) for n in ((0,), (1,), (0, 1), (0, 0, 1), (1, 1, 1))]
    assert len({tuple(drawn) for drawn in seen}) == 5


def test_boards_do_not_repeat_in_a_draw_while_there_are_enough(starts) -> None:
    whole = starts(starts_fraction=1.0)
    count = len(whole._given_starts)
    assert sorted(whole.draw(count, 0), key=str) == sorted(whole._given_starts, key=str)
    assert len(whole.draw(count + 1, 0)) == count + 1


def ended(start: InitialState, words):
    """The record of a game that was broken off where it began."""
    env = WordleEnv(start.secret, words, Prompter(), start.prefix_guesses)
    env.truncate(StopReason.TOKEN_BUDGET)
    return env.transcript()


def test_groups_from_a_board_leave_the_record_of_their_secret_alone(starts, small_words) -> None:
    mixed = starts(
        given_starts=(
            InitialState("crane", ("speed",)),
            InitialState("drape"),
            InitialState("zonal"),
            InitialState("qajaq", ("speed",)),
        )
    )
    for start in (InitialState("crane", ("speed",)), InitialState("qajaq", ("speed",)), InitialState("zonal")):
        mixed.note(ended(start, small_words), 0.7)
    assert mixed.state() == {"priorities": {}}
    mixed.note(ended(InitialState("crane"), small_words), 0.5)
    mixed.note(ended(InitialState("crate", ("speed",)), small_words), 0.25)
    mixed.note(ended(InitialState("drape"), small_words), 0.125)  # an empty board is the start of any game
    assert json.loads(json.dumps(mixed.state())) == {"priorities": {"crane": 0.5, "crate": 0.25, "drape": 0.125}}
