"""Laws of spelling lessons: each listed word both ways, as often as asked for, and only the answers are trained on."""

from collections import Counter

import pytest

pytest.importorskip("transformers")

from wordle_rl.chat.codec import ChatCodec, mask_picture
from wordle_rl.data.spelling import spelling_examples, spelling_lessons
from wordle_rl.words import WordList


def texts(codec: ChatCodec, words, passes: float, seed: int = 0) -> list[str]:
    return [
        mask_picture(codec, example.token_ids, example.loss_mask)
        for example in spelling_examples(words, codec, passes, seed)
    ]


def test_only_the_answer_is_trained_on(codec: ChatCodec) -> None:
    assert sorted(texts(codec, ["crane"], 1)) == [
        "Spelling\nSpell crane.<|reply|>⟦c r a n e<|end|>⟧",
        "Spelling\nc r a n e<|reply|>⟦crane<|end|>⟧",
    ]


def test_each_lesson_comes_as_often_as_asked_for(codec: ChatCodec, small_words: WordList) -> None:
    num_lessons = 2 * len(small_words.guesses)
    assert len(spelling_lessons(small_words.guesses)) == num_lessons
    assert texts(codec, small_words.guesses, 0) == []
    for passes, times in ((1, {1}), (2, {2}), (2.5, {2, 3})):
        counted = Counter(texts(codec, small_words.guesses, passes))
        assert (len(counted), set(counted.values())) == (num_lessons, times)
        assert counted.total() == passes * num_lessons
    half = Counter(texts(codec, small_words.guesses, 0.5))
    assert (len(half), set(half.values())) == (num_lessons / 2, {1})


def test_the_same_seed_draws_the_same_lessons_in_the_same_order(codec: ChatCodec, small_words: WordList) -> None:
    first, again, other = (texts(codec, small_words.guesses, 0.5, seed) for seed in (0, 0, 1))
    assert first == again != other
