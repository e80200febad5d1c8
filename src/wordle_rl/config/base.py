"""Base of all settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(le=1_000_000)]
"""Number of of something memory holds at once; more are taken for a slip of the hand."""
LARGEST_SEED = 2**32 - 1
"""Largest seed that numpy takes."""


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the setting and the fix in one line."""


def check_seed(seed: int) -> None:
    """Refuse a seed that no generator takes.

    Raises:
        ConfigError: If it is one.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise ConfigError(f"seed {seed} is out of range; give 0 to {LARGEST_SEED}")


def seed_after(seed: int, number: int) -> int:
    """`(seed + number) mod 2**32`."""
    return (seed + number) % (LARGEST_SEED + 1)


class Section(BaseModel):
    """Base of all sections: values never change and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
