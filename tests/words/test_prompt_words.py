"""Laws of the words that prompts use: all of them are known, and none is a strict word."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

import pytest

from wordle_rl.data.game_record import TurnRecord
from wordle_rl.env import WordleEnv
from wordle_rl.game import Dictionary, Rules, score_guess
from wordle_rl.preflight.template import texts_of
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.teachers.games import narration
from wordle_rl.words import EXAMPLE_WORDS, PROMPT_WORDS, WordList, WordListError
from wordle_rl.words.split import split_secrets, words_of_text

LENGTHS = (3, 5, 7, 10)
# Texts of other projects are kept word for word, for models that were trained there.
OTHERS = (Style.NOTEBOOK, Style.NOTEBOOK_PLAYER0, Style.VERIFIERS)
PLAYED = set("jkqvwgyx")
"""Letters of the words played here and of marks. No word of a prompt is made of them alone."""


def prompters(style: Style) -> Iterator[Prompter]:
    choices = product(Shape, Thinking, LENGTHS, Dictionary, (False, True))
    for shape, thinking, length, dictionary, hard_mode in choices:
        if style not in (Style.COMPACT, Style.SPELLED) or thinking is not Thinking.REQUIRED:  # they have no form for it
            yield Prompter(style, shape, thinking, length, Rules(dictionary=dictionary, hard_mode=hard_mode))


def words_of_length(length: int) -> WordList:
    """Five words to play."""
    played = tuple((word * length)[:length] for word in ("kv", "kjv", "jq", "kj", "v"))
    return WordList("few", played, played)


def messages(prompter: Prompter) -> Iterator[str]:
    """All that a player reads in games whose second reply is good, wins, or is bad in every way."""
    words = words_of_length(prompter.word_length)
    secret, first, far, near, twice = words.answers
    unlisted = ("kw" * prompter.word_length)[: prompter.word_length]
    thought = "" if prompter.thinking is Thinking.OFF else "q"
    good, plain = prompter.reply(near, thought), replace(prompter, thinking=Thinking.OFF).reply(near)
    bad = ["", f"q {good}", f"{good} q", good * 2, f"<think>{good}", f"<think>q</think>{plain}", plain]
    bad += [prompter.reply(word, thought) for word in (unlisted, secret * 2, "1" * len(secret), first, far, twice)]
    for reply in (good, prompter.reply(secret, thought), *bad):
        env = WordleEnv(secret, words, prompter)
        said = [*env.conversation]
        for sent in (prompter.reply(first, thought), reply):
            said += env.step(sent).messages
        yield from (message["content"] for message in [*said, *env.conversation] if message["role"] != "assistant")


def thoughts() -> Iterator[str]:
    """What a teacher thinks at an empty board and after a guess, whatever it knows and however it chooses."""
    board = [TurnRecord(guess, score_guess("kvkvk", guess)) for guess in ("kjvqq", "vvvqq")]
    for turns, remaining, classes, probe in product(([], board), (0, 1, 2, 3, 1000), (0, 1, 2, 3), (False, True)):
        yield narration(turns, "kvkvk", remaining, classes, probe=probe)


def words_in(texts: Iterable[str]) -> set[str]:
    found = {word for text in texts for word in words_of_text(text) if 3 <= len(word) <= 10}
    return {word for word in found if not set(word) <= PLAYED}


@pytest.mark.parametrize("style", Style)
def test_every_word_of_a_prompt_is_known_or_read_by_the_check_of_strict_words(style: Style) -> None:
    found = set()
    for prompter in prompters(style):
        said = words_in(messages(prompter))
        assert said <= words_in(texts_of(words_of_length(prompter.word_length), prompter))
        found |= said
    assert (found <= PROMPT_WORDS) == (style not in OTHERS)
    assert bool(found) == (style is not Style.COMPACT)  # which has signs alone


def test_every_word_of_the_teacher_s_thoughts_is_known() -> None:
    assert {"few", "fits", "open", "most", "none"} <= words_in(thoughts()) <= PROMPT_WORDS


def test_the_example_of_every_length_is_known() -> None:
    assert [len(word) for word in EXAMPLE_WORDS] == list(range(3, 11))
    assert set(EXAMPLE_WORDS) <= PROMPT_WORDS


def test_no_word_of_a_prompt_is_strict_however_many_are() -> None:
    answers = ("guess", "think", "after", "crane", "abide", "babes", "civic", "drape")
    words = WordList("eight", answers, answers)
    split = split_secrets(words, strict_fraction=0.25)
    assert set(split.strict) == set(split.test) - PROMPT_WORDS
    assert len(split.strict) == 2 < len(split.test), "as many as asked for, of more test secrets"
    with pytest.raises(WordListError, match=r"strict_fraction 0\.75 is 6 words, and 4 of 8"):
        split_secrets(words, strict_fraction=0.75)
