"""Laws of strict words: some of the test secrets, drawn apart, so that no part of a split changes for them."""

from dataclasses import replace

import pytest

from wordle_rl.words import PROMPT_WORDS, WordList
from wordle_rl.words.split import split_secrets


@pytest.mark.parametrize("seed", [0, 7])
def test_strict_words_change_no_part_of_a_split(default_words, seed: int) -> None:
    plain, strict = split_secrets(default_words, seed), split_secrets(default_words, seed, strict_fraction=0.0366)
    assert replace(strict, strict=()) == plain
    assert plain.strict == ()
    assert len(strict.strict) == 100
    assert set(strict.strict) <= set(strict.test) - PROMPT_WORDS


def test_more_strict_words_hold_the_fewer_and_are_a_fair_sample(default_words) -> None:
    few, many = (split_secrets(default_words, strict_fraction=fraction) for fraction in (0.02, 0.05))
    assert many.strict[: len(few.strict)] == few.strict
    assert many.test[: len(many.strict)] != many.strict, "an order of their own, not the beginning of the test secrets"
    assert split_secrets(default_words, 1, strict_fraction=0.02).strict != few.strict


def test_strict_words_are_found_in_any_text(default_words) -> None:
    split = split_secrets(default_words, strict_fraction=0.01)
    word, other = split.strict[:2]
    text = f"Perhaps {word.upper()}, or <guess>{other}</guess>?"
    assert split.strict_words_in(None, text, split.train[0]) == {word, other}
    assert split.strict_words_in(f"x{word}x", split.train[0]) == frozenset()
    assert split_secrets(default_words).strict_words_in(word) == frozenset()


def test_a_reserved_word_is_listed_but_no_answer_and_not_outside() -> None:
    words = WordList("four", ("abide", "crane", "speed", "trace"), ("abide", "aahed", "crane", "speed", "trace"))
    training = words.reserving(["crane"])
    assert training.answers == ("abide", "speed", "trace")
    assert training.guesses == words.guesses
    assert training.outside == words.outside == ("aahed",)
    assert "crane" in training
    assert training.named.guesses == ("aahed", "abide", "speed", "trace")
    assert training.named.reserved == {"crane"}
    assert words.reserving([]) is words
    assert words.named is words
