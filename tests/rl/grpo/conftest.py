"""Fixtures of this room."""

from grpo_training import train  # noqa: F401
