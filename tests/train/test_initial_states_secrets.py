"""Laws of the secret picker: mixed records are drawn more, the same step draws the same."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.train.starts import SecretPicker, with_outside
from wordle_rl.words import WordList

SECRETS = [f"word{i}" for i in range(8)]
STDS = st.dictionaries(st.sampled_from(SECRETS), st.floats(0, 3), max_size=8)


def weight(picker: SecretPicker, secret: str) -> float:
    return float(picker.weights()[SECRETS.index(secret)])


def draws(picker: SecretPicker, steps: int = 400) -> Counter[str]:
    return Counter(secret for step in range(steps) for secret in picker.pick(2, step))


def test_constant_groups_are_drawn_less_than_mixed_ones() -> None:
    picker = SecretPicker(SECRETS, 1.0, 0)
    for secret in SECRETS:
        picker.update(secret, 0.0 if secret in SECRETS[:4] else 1.0)
    drawn = draws(picker)
    assert max(drawn[s] for s in SECRETS[:4]) * 4 < min(drawn[s] for s in SECRETS[4:])
    assert all(drawn[s] > 0 for s in SECRETS[:4]), "a constant secret must come back now and then"


def test_an_untried_secret_counts_as_the_widest() -> None:
    picker = SecretPicker(SECRETS, 1.0, 0)
    picker.update("word0", 0.2)
    picker.update("word1", 0.7)
    assert weight(picker, "word5") == pytest.approx(weight(picker, "word1"))
    assert weight(picker, "word5") > weight(picker, "word0")


@given(STDS, st.floats(0, 1))
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


@given(st.integers(0, 50), st.integers(0, 5), st.integers(1, 8))
def test_the_same_seed_step_and_process_draw_the_same_without_repeats(seed, step, count) -> None:
    first, second = SecretPicker(SECRETS, 0.5, seed), SecretPicker(SECRETS, 0.5, seed)
    assert first.pick(count, step) == second.pick(count, step)
    assert len(set(first.pick(count, step))) == count


def test_steps_processes_and_refills_draw_differently() -> None:
    picker = SecretPicker(SECRETS, 0.5, 0)
    assert len({tuple(picker.pick(4, step)) for step in range(10)}) > 5
    assert len({tuple(picker.pick(4, 0, process)) for process in range(10)}) > 5
    assert len({tuple(picker.pick(4, 0, 0, refill)) for refill in range(10)}) > 5


@given(STDS)
def test_the_record_survives_a_round_trip_through_json(stds) -> None:
    picker = SecretPicker(SECRETS, 0.7, 3)
    for secret, std in stds.items():
        picker.update(secret, std)
    again = SecretPicker(SECRETS, 0.7, 3)
    again.load_state(json.loads(json.dumps(picker.state())))
    assert (again.weights() == picker.weights()).all()
    assert again.pick(3, 11) == picker.pick(3, 11)


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
