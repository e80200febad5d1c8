"""The embedded model: a small Qwen3-architecture network and its tokenizer, built locally.

Both are ordinary transformers objects, saved as an ordinary directory. The tokenizer makes a token of each character,
with three exceptions that keep games short: each reply tag is one token, so is the end of a turn, and so is a letter
with its mark (`aG`), as the compact style writes feedback.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PAD, END, REPLY = "<|pad|>", "<|end|>", "<|reply|>"
TAGS = ("<guess>", "</guess>", "<think>", "</think>")
UNKNOWN = "<|unknown|>"
_EMBEDDING_STD = 0.1
"""Std of the initial embeddings, which are tied to the head. Trains faster than the library's 0.02."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message.role == 'assistant' -%}"
    f"{{{{- '{REPLY}' -}}}}"
    "{%- generation -%}"
    f"{{{{- message.content + '{END}' -}}}}"
    "{%- endgeneration -%}"
    "{%- else -%}"
    "{%- if message.role == 'system' -%}{{- message.content + '\\n' -}}{%- else -%}{{- message.content -}}{%- endif -%}"
    "{%- endif -%}"
    "{%- endfor -%}"
    f"{{%- if add_generation_prompt -%}}{{{{- '{REPLY}' -}}}}{{%- endif -%}}"
)
"""A reply is written between `<|reply|>` and `<|end|>`; a user message needs no frame."""

RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": REPLY,
    "fields": {"content": {"close": END, "content": "text"}},
}
"""Response template for servers. Without it, `transformers serve` reads replies as an ordinary Qwen3's."""


def make_tokenizer() -> PreTrainedTokenizerBase:
    """Build the embedded tokenizer: about 190 tokens, no training, no download."""
    pairs = [letter + mark for letter in string.ascii_lowercase for mark in "GYX"]
    characters = [*string.ascii_lowercase, *string.ascii_uppercase, *string.digits, *string.punctuation, " ", "\n"]
    tokens = [PAD, UNKNOWN, END, REPLY, *TAGS, *pairs, *characters, *"🟩🟨⬛…→"]
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[a-z][GYX]|[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in (PAD, UNKNOWN, END, REPLY)])
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.response_template = RESPONSE_TEMPLATE
    return fast


def make_model(
    tokenizer: PreTrainedTokenizerBase,
    *,
    hidden_size: int = 192,
    num_layers: int = 2,
    num_heads: int = 6,
    num_kv_heads: int = 1,
    intermediate_size: int = 512,
    max_length: int = 1024,
    seed: int = 0,
) -> PreTrainedModel:
    """Build a randomly initialised Qwen3. The default size has about 0.8 M parameters."""
    if hidden_size % num_heads or num_heads % num_kv_heads:
        raise ValueError(
            f"hidden_size {hidden_size} must be a multiple of num_heads {num_heads}, and num_heads a multiple of "
            f"num_kv_heads {num_kv_heads}"
        )
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        num_key_value_heads=num_kv_heads,
        head_dim=hidden_size // num_heads,
        intermediate_size=intermediate_size,
        max_position_embeddings=max_length,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):  # leave the caller's random stream alone
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(_EMBEDDING_STD / config.initializer_range)
    return model


def formula_model(tokenizer: PreTrainedTokenizerBase, scale: float = 0.12) -> PreTrainedModel:
    """Build a two-layer model whose weights do not depend on torch's random numbers.

    For figures that must stay the same with every release of torch. Another scale gives another model.
    """
    model = make_model(tokenizer, hidden_size=32, num_layers=2, num_heads=2, num_kv_heads=1, intermediate_size=48)
    drawn = np.random.RandomState(0)  # the same stream in every release of NumPy
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            values = torch.from_numpy(drawn.standard_normal(tuple(weight.shape)).astype(np.float32))
            weight.copy_(values * scale if weight.dim() > 1 else 1 + values * 0.1)
    model.eval()
    return model
