"""Models that would rather say anything than a listed word, and tokenizers that spell in many ways."""

import numpy as np
import pytest

pytest.importorskip("torch")
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.policy.constrain import Phase, State, TokenIds, WordConstraint, token_texts
from wordle_rl.policy.tiny import CHAT_TEMPLATE, END, PAD, REPLY, make_model, make_tokenizer
from wordle_rl.prompt import Prompter
from wordle_rl.words import WordList

KINDS = ("tiny", "bpe", "byte_bpe")
"""Tokenizers of `codecs_of`."""


class Hasty(WordConstraint):
    """Opens its guess at once, so that models without training get to the limited part."""

    def allowed(self, state: State | None) -> TokenIds | None:
        if state is None or state.phase is not Phase.TALKING:
            return super().allowed(state)
        texts = [(i, state.text + text) for i, text in enumerate(self.grammar.texts) if text]
        opening = [
            i for i, text in texts if self.grammar.open_tag.startswith(text) or text.startswith(self.grammar.open_tag)
        ]
        return (
            np.intersect1d(opening, super().allowed(state)) if super().allowed(state) is not None else np.array(opening)
        )


def hasty(codec: ChatCodec, words: WordList, prompter: Prompter) -> Hasty:
    return Hasty(words.guesses, prompter.guess_tags, token_texts(codec.tokenizer), codec.stop_ids)


def random_model(codec: ChatCodec, seed: int = 0):
    size = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1, "intermediate_size": 48}
    return make_model(codec.tokenizer, **size, seed=seed).eval()


def codecs_of(words: WordList) -> dict[str, ChatCodec]:
    """Three tokenizers: of characters, of letters and tags together, of bytes."""
    return {
        "tiny": ChatCodec(make_tokenizer()),
        "bpe": ChatCodec(trained(words, byte_level=False)),
        "byte_bpe": ChatCodec(trained(words, byte_level=True)),
    }


def trained(words: WordList, *, byte_level: bool) -> PreTrainedTokenizerFast:
    """A BPE tokenizer without word borders, so that tokens hold letters, tags and both together."""
    tokenizer = Tokenizer(models.BPE())
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = decoders.ByteLevel()
    else:
        tokenizer.decoder = decoders.Fuse()
    specials = [AddedToken(text, special=True, normalized=False) for text in (PAD, END, REPLY)]
    alphabet = (
        pre_tokenizers.ByteLevel.alphabet()
        if byte_level
        else list("abcdefghijklmnopqrstuvwxyzACZ0123456789 \n[]<>/?!#%")
    )
    trainer = trainers.BpeTrainer(
        vocab_size=420 if byte_level else 260, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    texts = [f"<think>so {word}</think>\n<guess>{word}</guess>" for word in words.guesses]
    tokenizer.train_from_iterator([*texts, *(f"<guess>{word}</guess>" for word in words.guesses), "5x6"], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END)
    fast.chat_template = CHAT_TEMPLATE
    return fast
