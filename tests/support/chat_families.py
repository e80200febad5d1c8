"""Chat families as they are met: their published templates, as TRL ships them, over small tokenizers made here."""

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma3TextConfig,
    Glm4MoeConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.templates import training_template
from wordle_rl.preflight import Finding
from wordle_rl.prompt import Prompter, Style


@dataclass(frozen=True)
class Family:
    """A chat family: template file, special tokens, architecture, and how a turn ends."""

    template: str
    special: tuple[str, ...]
    end: str
    eos: str
    bos: str | None
    architecture: Callable[..., PreTrainedConfig]
    added: tuple[str, ...] = ()


_IM = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_THINK = ("<think>", "</think>")
_TOOLS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_LLAMA = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
_GEMMA = ("<pad>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
_GEMMA4 = (
    "<pad>", "<eos>", "<bos>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>",
    "<tool_response|>", '<|"|>', "<|think|>", "<|channel>", "<channel|>", "<|turn>", "<turn|>", "<|image>", "<|image|>",
    "<image|>",
)  # fmt: skip
_HARMONY = (
    "<|endoftext|>", "<|startoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>",
    "<|message|>", "<|call|>",
)  # fmt: skip
_GLM = ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
_DEEPSEEK = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>")

FAMILIES = {
    "qwen3": Family("qwen3", _IM, "<|im_end|>", "<|im_end|>", None, Qwen3Config, (*_THINK, *_TOOLS)),
    "qwen2.5": Family("qwen2_5", _IM, "<|im_end|>", "<|im_end|>", None, Qwen2Config),
    "gemma3": Family("gemma3", _GEMMA, "<end_of_turn>", "<eos>", "<bos>", Gemma3TextConfig),
    "llama3": Family("llama3_2", _LLAMA, "<|eot_id|>", "<|eot_id|>", "<|begin_of_text|>", LlamaConfig),
    "deepseek-r1": Family(
        "deepseek_r1_distill", _DEEPSEEK, _DEEPSEEK[1], _DEEPSEEK[1], _DEEPSEEK[0], Qwen2Config, _THINK
    ),
    "gpt-oss": Family(
        "gptoss",
        _HARMONY,
        "<|return|>",
        "<|return|>",
        "<|startoftext|>",
        partial(GptOssConfig, num_local_experts=2, num_experts_per_tok=1, sliding_window=4096),
    ),
    "glm4": Family(
        "glm4moe",
        _GLM,
        "<|user|>",
        "<|endoftext|>",
        None,
        partial(Glm4MoeConfig, n_routed_experts=2, num_experts_per_tok=1, moe_intermediate_size=16),
        (*_THINK, *_TOOLS),
    ),
    "gemma2": Family("gemma", _GEMMA, "<end_of_turn>", "<eos>", "<bos>", Gemma3TextConfig),
    "mistral": Family(
        "mistral", ("<unk>", "<s>", "</s>", "[INST]", "[/INST]"), "</s>", "</s>", "<s>",
        partial(MistralConfig, sliding_window=None),
    ),
}  # fmt: skip
ENCODED_ALONE = {"gemma4": Family("gemma4", _GEMMA4, "<turn|>", "<turn|>", "<bos>", Gemma3TextConfig)}
"""Families whose tokens alone are compared with those of other libraries."""


_NOT_IN_TRL = {
    "mistral": """\
{%- set rules = messages[0].content if messages[0].role == 'system' else none %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{{- bos_token }}
{%- for turn in (messages[1:] if rules is not none else messages) %}
{%- if (turn.role == 'user') != (loop.index0 % 2 == 0) %}{{- raise_exception('roles must alternate') }}{%- endif %}
{%- if turn.role == 'user' %}{{- '[INST]' }}
{%- if loop.last and rules is not none %}{{- rules + '\\n\\n' }}{%- endif %}{{- turn.content + '[/INST]' }}
{%- else %}{{- turn.content + eos_token }}{%- endif %}
{%- endfor %}"""
}
"""Templates that do as their makers', in our words. Mistral's moves the system message to the last user message."""


def published_template(name: str) -> str:
    """A template as its makers publish it, or one that does the same."""
    if name in _NOT_IN_TRL:
        return _NOT_IN_TRL[name]
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


def template_names() -> list[str]:
    """Names of all templates that TRL has, as their makers publish them."""
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    names = (path.stem for path in (Path(spec.origin).parent / "chat_templates").glob("*.jinja"))
    return sorted(name for name in names if not name.endswith("_training"))


_SPECIAL = re.compile(
    r"<\|[^|<>\n]+\|>|<｜[^｜\n]+｜>|<[a-z_]+_of_[a-z_]+>|<\|[a-z_]+>|<[a-z_]+\|>|\[gMASK\]|<sop>|</?s>|<bos>|<eos>"
)
_CLOSING = (
    "<|im_end|>", "<turn|>", "<end_of_turn>", "<|eot_id|>", _DEEPSEEK[1], "<|return|>", "<|END_OF_TURN_TOKEN|>",
    "<end_of_utterance>", "</s>",
)  # fmt: skip


def tokenizer_for(template: str) -> PreTrainedTokenizerFast:
    """A tokenizer whose special tokens are those that a template writes."""
    special = {*_SPECIAL.findall(template), "<pad>", "<|endoftext|>"} | (
        {"<bos>"} if "bos_token" in template else set()
    )
    tokenizer = Tokenizer.from_str(_byte_pairs())
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in sorted(special)])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in _THINK])
    eos = next((token for token in _CLOSING if token in special), "<|endoftext|>")
    bos = "<bos>" if "<bos>" in special else None
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=eos, bos_token=bos, pad_token="<pad>")
    fast.chat_template = template
    return fast


@cache
def _byte_pairs(texts: tuple[str, ...] = ()) -> str:
    """A small byte-pair tokenizer, as JSON; one that has seen `texts` needs few tokens for them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    lines = [message["content"] for style in Style for message in Prompter(style=style).opening()]
    trainer = trainers.BpeTrainer(
        vocab_size=900 if texts else 360, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([*lines * 3, *texts * 10], trainer)
    return str(tokenizer.to_str())


def family_tokenizer(name: str, template: str | None = None, texts: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """A family's tokenizer in small, with its published template or the one given; few tokens for texts it has seen."""
    family = {**FAMILIES, **ENCODED_ALONE}[name]
    tokenizer = Tokenizer.from_str(_byte_pairs(texts))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in family.special])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in family.added])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=family.eos,
        bos_token=family.bos,
        pad_token=family.special[0],
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.chat_template = template or published_template(family.template)
    return fast


def family_config(name: str, vocab_size: int, **changes: object) -> PreTrainedConfig:
    """Two layers of the family's architecture."""
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "intermediate_size": 48,
        "max_position_embeddings": 4096,
        "eos_token_id": None,
        "bos_token_id": None,
        "pad_token_id": None,
    }
    return FAMILIES[name].architecture(vocab_size=vocab_size, **{**sizes, **changes})


_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {"llama3": _WORDS + r"\p{N}{1,3}" + _REST, **dict.fromkeys(("qwen2.5", "qwen3"), _WORDS + r"\p{N}" + _REST)}
"""Chat family -> how its makers' tokenizers split text. Those made here split it as GPT-2's does."""


def split_as_published(tokenizer: PreTrainedTokenizerFast, name: str) -> PreTrainedTokenizerFast:
    """A family's tokenizer, splitting text as its makers' does."""
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLITS[name]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return tokenizer


def codec_of(name: str, template: str | None = None, **variables: object) -> ChatCodec:
    tokenizer = family_tokenizer(name, template)
    tokenizer.chat_template = training_template(tokenizer, variables)
    return ChatCodec(tokenizer)


def levels(findings: list[Finding]) -> list[str]:
    return [finding.level for finding in findings]
