"""Base of all settings."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from wordle_rl.errors import UserError

Count = Annotated[int, Field(le=1_000_000)]
"""A number of things held in memory at once. A larger one is refused as a likely typo."""
MOST_LAYERS = 512
"""Layers of a model; a million would take minutes to lay out. The largest public models have 126."""
LARGEST_SEED = 2**32 - 1
"""Largest seed that numpy accepts."""
FIELDS_ONLY = {"fields_only": True}
"""Context of a validation of types and ranges alone, without rules across settings and imports of your code.

For settings that are not complete yet, and for stored runs that are only read.
"""


class ConfigError(UserError):
    """An invalid configuration. The message names the setting and the fix in one line."""


def check_seed(seed: int) -> None:
    """Check that every random generator accepts a seed."""
    if not 0 <= seed <= LARGEST_SEED:
        raise ConfigError(f"seed {seed} is out of range; give 0 to {LARGEST_SEED}")


def seed_after(seed: int, number: int) -> int:
    """Return `(seed + number) mod 2**32`."""
    return (seed + number) % (LARGEST_SEED + 1)


class Section(BaseModel):
    """Base of all sections: values are frozen; unknown keys, infinity and NaN are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True, defer_build=True
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for field in cls.model_fields.values():
            # A docstring's line breaks are the source's; a help text is wrapped to the terminal's width.
            field.description = " ".join(field.description.split()) if field.description else None

    def check(self) -> None:
        """Check rules across the settings of this section; a ValueError names the setting first, then the fix."""

    def is_default(self, name: str) -> bool:
        """Return True if a setting has its default value, given explicitly or not."""
        default: Any = type(self).model_fields[name].get_default(call_default_factory=True)
        return bool(getattr(self, name) == default)

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if info.context is not FIELDS_ONLY:
            self.check()
        return self


def section_of(annotation: object) -> type[BaseModel] | None:
    """Return the section class of a field of this type, or None for a single setting."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
