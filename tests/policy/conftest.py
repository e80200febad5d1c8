"""Fixtures of this room."""

from shards import checkpoint  # noqa: F401
