"""A model that would rather say anything than a listed word."""

import numpy as np
import pytest

pytest.importorskip("torch")
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.prompt import Prompter
from wordle_rl.samplers.constrain import (
    Phase,
    State,
    TokenIds,
    WordConstraint,
    token_texts,
)
from wordle_rl.words import WordList


class Hasty(WordConstraint):
    """Opens its guess at once, so that models without training get to the limited part."""

    def allowed(self, state: State | None) -> TokenIds | None:
        if state is None or state.phase is not Phase.TALKING:
            return super().allowed(state)
        texts = [(i, state.text + text) for i, text in enumerate(self._texts) if text]
        opening = [i for i, text in texts if self._open.startswith(text) or text.startswith(self._open)]
        return (
            np.intersect1d(opening, super().allowed(state)) if super().allowed(state) is not None else np.array(opening)
        )


def hasty(codec: ChatCodec, words: WordList, prompter: Prompter) -> Hasty:
    return Hasty(words.guesses, prompter.guess_tags, token_texts(codec.tokenizer), codec.stop_ids)
