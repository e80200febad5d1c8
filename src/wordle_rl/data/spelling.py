"""Spelling lessons: listed words as letters, and letters as words, for models whose tokens are parts of words.

Such a model has seen few of its tokens spelled out, but Wordle is all about letters. The lessons are conversations of
their own, mixed into the games:

    Spell crane.  ->  c r a n e
    c r a n e     ->  crane
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.data.dataset import Example
from wordle_rl.prompt import Message

_SYSTEM = Message(role="system", content="Spelling")  # without one, some templates add a longer one


def spelling_lessons(words: Sequence[str]) -> list[list[Message]]:
    """Return two conversations per word, one in each direction.

    Examples:
        >>> [lesson[1:] for lesson in spelling_lessons(["crane"])][0]
        [{'role': 'user', 'content': 'Spell crane.'}, {'role': 'assistant', 'content': 'c r a n e'}]
    """
    pairs = [pair for word in words for pair in ((f"Spell {word}.", " ".join(word)), (" ".join(word), word))]
    return [[_SYSTEM, Message(role="user", content=a), Message(role="assistant", content=b)] for a, b in pairs]


def spelling_examples(words: Sequence[str], codec: ChatCodec, passes: float, seed: int) -> list[Example]:
    """Encode the lessons in random order, each `passes` times; a fraction draws that part of them at random."""
    lessons = spelling_lessons(words)
    rng = random.Random(f"spelling {seed}")
    chosen: list[list[Message]] = []
    for part in (*[1.0] * int(passes), passes % 1):
        chosen += rng.sample(lessons, round(part * len(lessons)))
    return [Example(*codec.encode_game(lesson)) for lesson in chosen]
