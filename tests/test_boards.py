"""Laws of the secrets that are drawn: by priority, in turn, and words from outside the answers at their rate."""

import random
from collections import Counter

import pytest

from wordle_rl.boards import SecretPicker, with_outside
from wordle_rl.words import WordList

SECRETS = [f"word{i}" for i in range(8)]


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
    narrow, wide, *untried = picker.weights()
    assert untried == pytest.approx([wide] * 6)
    assert wide > narrow


def test_recent_groups_count_more_than_old_ones() -> None:
    picker = SecretPicker(SECRETS, 1.0, 0)
    picker.update("word0", 1.0)
    for _ in range(5):
        picker.update("word0", 0.0)
    assert picker.state()["word0"] == pytest.approx(0.5**5)
    for _ in range(2):
        picker.update("word1", 1.0)
    assert picker.state()["word1"] == 1.0, "the same again is nothing new"


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


def test_processes_that_take_turns_share_a_pass() -> None:
    picker = SecretPicker(SECRETS, 0.0, 0)
    drawn = [picker.next_ones(2, step, process, num_processes=2) for step in range(2) for process in range(2)]
    assert sorted(secret for secrets in drawn for secret in secrets) == SECRETS
    assert picker.next_ones(8, 1) != picker.next_ones(8, 0), "each pass has an order of its own"
