"""Codecs of chat families, and findings by level."""

import pytest

pytest.importorskip("torch")
from chat_families import family_tokenizer

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.templates import training_template
from wordle_rl.preflight import Finding


def codec_of(name: str, template: str | None = None, **variables: object) -> ChatCodec:
    tokenizer = family_tokenizer(name, template)
    tokenizer.chat_template = training_template(tokenizer, variables)
    return ChatCodec(tokenizer)


def levels(findings: list[Finding]) -> list[str]:
    return [finding.level for finding in findings]
