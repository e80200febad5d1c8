"""Base of all settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from wordle_rl.errors import UserError

Count = Annotated[int, Field(le=1_000_000)]
"""A number of things held in memory at once. A larger one is refused as a likely typo."""
LARGEST_SEED = 2**32 - 1
"""Largest seed that numpy accepts."""


class ConfigError(UserError):
    """An invalid configuration. The message names the setting and the fix in one line.

    Attributes:
        setting: Dotted name of the faulty setting, or of the section whose settings conflict. The first of several
            faults; empty if no setting is at fault.
    """

    def __init__(self, message: str, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


def check_seed(seed: int) -> None:
    """Check that every random generator accepts a seed.

    Raises:
        ConfigError: If the seed is not in 0 to `LARGEST_SEED`.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise ConfigError(f"seed {seed} is out of range; give 0 to {LARGEST_SEED}", "seed")


def seed_after(seed: int, number: int) -> int:
    """Return `(seed + number) mod 2**32`."""
    return (seed + number) % (LARGEST_SEED + 1)


_FIELDS_ONLY = ContextVar("fields_only", default=False)


@contextmanager
def fields_only() -> Iterator[None]:
    """Validate types and ranges of single fields, but no rules across settings.

    For settings that are not complete yet, and for stored runs that are only read.
    """
    token = _FIELDS_ONLY.set(True)
    try:
        yield
    finally:
        _FIELDS_ONLY.reset(token)


class Section(BaseModel):
    """Base of all sections: values are frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for field in cls.model_fields.values():
            # A docstring's line breaks are the source's; a help text is wrapped to the terminal's width.
            field.description = " ".join(field.description.split()) if field.description else None

    def check(self) -> None:
        """Check rules across the settings of this section.

        Raises:
            ValueError: Names the setting first, then the fix.
        """

    def is_default(self, name: str) -> bool:
        """Return True if a setting has its default value, given explicitly or not."""
        default: Any = type(self).model_fields[name].get_default(call_default_factory=True)
        return bool(getattr(self, name) == default)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not _FIELDS_ONLY.get():
            self.check()
        return self


def section_of(annotation: object) -> type[BaseModel] | None:
    """Return the section class of a field of this type, or None for a single setting."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
