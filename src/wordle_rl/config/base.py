"""Base of all settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from wordle_rl.errors import UserError

Count = Annotated[int, Field(le=1_000_000)]
"""Number of things held in memory at once; a larger one is refused as a typing error."""
LARGEST_SEED = 2**32 - 1
"""Largest seed that numpy takes."""


class ConfigError(UserError):
    """A configuration that cannot be used; the message names the setting and the fix in one line.

    Attributes:
        setting: Dotted name of the setting at fault, or of the section whose settings do not go together; of several
            faults that of the first. Empty where no setting is at fault.
    """

    def __init__(self, message: str, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


def check_seed(seed: int) -> None:
    """Refuse a seed that no generator takes.

    Raises:
        ConfigError: If it is one.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise ConfigError(f"seed {seed} is out of range; give 0 to {LARGEST_SEED}", "seed")


def seed_after(seed: int, number: int) -> int:
    """`(seed + number) mod 2**32`."""
    return (seed + number) % (LARGEST_SEED + 1)


_FIELDS_ONLY = ContextVar("fields_only", default=False)


@contextmanager
def fields_only() -> Iterator[None]:
    """Validate types and ranges of single fields, not whether settings go together.

    For settings that are not complete yet, and for those of a run that is only read.
    """
    token = _FIELDS_ONLY.set(True)
    try:
        yield
    finally:
        _FIELDS_ONLY.reset(token)


class Section(BaseModel):
    """Base of all sections: values never change and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)

    def check(self) -> None:
        """Refuse settings of this section that do not go together.

        Raises:
            ValueError: With the setting and its fix.
        """

    def is_default(self, name: str) -> bool:
        """True if a setting has its default, typed or not."""
        default: Any = type(self).model_fields[name].get_default(call_default_factory=True)
        return bool(getattr(self, name) == default)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not _FIELDS_ONLY.get():
            self.check()
        return self


def section_of(annotation: object) -> type[BaseModel] | None:
    """The section that a field of this type holds; None if it is a single setting."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
