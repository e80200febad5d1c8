"""Laws of where groups begin: by priority, a share on given boards, the same again by seed."""

import json
import random
from collections import Counter

import pytest
from contexts import context_for
from hypothesis import given as drawn
from hypothesis import strategies as st

from wordle_rl.config import StartSettings
from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.prompt import Prompter
from wordle_rl.rollout import InitialState
from wordle_rl.solver import Solver
from wordle_rl.train.starts import GameSetup, GroupStarts, SecretPicker, with_outside
from wordle_rl.words import WordList

SHARE = 0.4


@pytest.fixture
def starts(small_words):
    """Starts of the small words; the given boards have secrets that are not among those to choose from, too."""
    given = tuple(
        InitialState(secret, ("crane",)) for secret in (*small_words.answers, *small_words.outside) if secret > "d"
    )

    context = context_for(small_words, Prompter(), Solver(small_words))

    def make(**changes) -> GroupStarts:
        setup = GameSetup(
            context, small_words.answers[:12], **({"given_starts": given, "starts_fraction": SHARE} | changes)
        )
        settings = StartSettings(max_prefix_guesses=2)
        return GroupStarts(setup, settings, 3, outside_rate=0.2, prioritized_fraction=0.5)

    return make


def test_the_share_comes_from_the_file_and_the_others_are_drawn_as_without_it(starts) -> None:
    mixed, plain = starts(), starts(given_starts=())
    given = {*mixed._setup.given_starts}
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
    given = whole._setup.given_starts
    count = len(given)
    assert sorted(whole.draw(count, 0), key=str) == sorted(given, key=str)
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
    assert mixed.picker.state() == {}
    mixed.note(ended(InitialState("crane"), small_words), 0.5)
    mixed.note(ended(InitialState("crate", ("speed",)), small_words), 0.25)
    mixed.note(ended(InitialState("drape"), small_words), 0.125)  # an empty board is the start of any game
    assert json.loads(json.dumps(mixed.picker.state())) == {"crane": 0.5, "crate": 0.25, "drape": 0.125}


# --- priorities ---

SECRETS = [f"word{i}" for i in range(8)]
STDS = st.dictionaries(st.sampled_from(SECRETS), st.floats(0, 3), max_size=8)


def weight(picker: SecretPicker, secret: str) -> float:
    return float(picker.weights()[SECRETS.index(secret)])


def test_constant_groups_are_drawn_less_than_mixed_ones() -> None:
    picker = SecretPicker(SECRETS, 1.0, 0)
    for secret in SECRETS:
        picker.update(secret, 0.0 if secret in SECRETS[:4] else 1.0)
    found = Counter(secret for step in range(400) for secret in picker.pick(2, step))
    assert max(found[s] for s in SECRETS[:4]) * 4 < min(found[s] for s in SECRETS[4:])
    assert all(found[s] > 0 for s in SECRETS[:4]), "a constant secret must come back now and then"


def test_an_untried_secret_counts_as_the_widest() -> None:
    picker = SecretPicker(SECRETS, 1.0, 0)
    picker.update("word0", 0.2)
    picker.update("word1", 0.7)
    assert weight(picker, "word5") == pytest.approx(weight(picker, "word1"))
    assert weight(picker, "word5") > weight(picker, "word0")


@drawn(STDS, st.floats(0, 1))
def test_weights_are_chances(stds, prioritized_fraction) -> None:
    picker = SecretPicker(SECRETS, prioritized_fraction, 0)
    for secret, std in stds.items():
        picker.update(secret, std)
    weights = picker.weights()
    assert weights.sum() == pytest.approx(1.0)
    assert (weights > 0).all()


def test_recent_groups_count_more_than_old_ones() -> None:
    picker = SecretPicker(SECRETS, 1.0, 0)
    picker.update("word0", 1.0)
    for _ in range(5):
        picker.update("word0", 0.0)
    assert picker.state()["word0"] == pytest.approx(0.5**5)
    picker.update("word1", 1.0)
    picker.update("word1", 1.0)
    assert picker.state()["word1"] == 1.0, "the same again is nothing new"


@drawn(st.integers(0, 50), st.integers(0, 5), st.integers(1, 8))
def test_the_same_seed_step_and_process_draw_the_same_without_repeats(seed, step, count) -> None:
    first, second = SecretPicker(SECRETS, 0.5, seed), SecretPicker(SECRETS, 0.5, seed)
    assert first.pick(count, step) == second.pick(count, step)
    assert len(set(first.pick(count, step))) == count


def test_words_from_outside_the_answers_take_places_at_their_rate(small_words) -> None:
    secrets = list(small_words.answers) * 20
    assert with_outside(secrets, small_words, 0.0, random.Random(0)) == secrets
    mixed = with_outside(secrets, small_words, 0.25, random.Random(0))
    changed = [(before, after) for before, after in zip(secrets, mixed, strict=True) if before != after]
    assert len(mixed) == len(secrets)
    assert 80 < len(changed) < 160
    assert {after for _, after in changed} == set(small_words.guesses) - set(small_words.answers)
    only = WordList("only", small_words.answers, small_words.answers)
    assert with_outside(secrets, only, 1.0, random.Random(0)) == secrets
