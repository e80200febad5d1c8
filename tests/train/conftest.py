"""Fixtures of this room."""

from sft_training import examples  # noqa: F401
