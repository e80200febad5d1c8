"""Settings of a run on the command line: a config file, and options that complete or override it.

Options are read without being validated. Those that the command line names are laid over the values of the file, and
both are validated together, once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from pydantic import BaseModel

from wordle_rl.config import RunConfig, Setting, load_config, section_of, setting_names


@functools.cache
def options_of(section: type[BaseModel]) -> Any:
    """A dataclass with the settings of a section, their types, descriptions and defaults, that validates nothing.

    >>> from wordle_rl.config import SFTSettings
    >>> options_of(SFTSettings)(epochs=-1.0).epochs
    -1.0
    """
    fields: list[Any] = []
    for name, info in section.model_fields.items():
        kind, default = info.annotation, functools.partial(info.get_default, call_default_factory=True)
        if inner := section_of(info.annotation):
            kind, default = options_of(inner), functools.partial(_filled, options_of(inner), default())
        fields.append((name, Annotated[kind, tyro.conf.arg(help=info.description)], field(default_factory=default)))
    options = make_dataclass(f"{section.__name__}Options", fields, frozen=True)
    options.__doc__ = section.__doc__
    return options


def _filled(options: Any, section: BaseModel) -> Any:
    """The options of a section with its values, but for dicts."""
    blank, values = options(), {}
    for name, value in section:
        if isinstance(value, BaseModel):
            values[name] = _filled(type(getattr(blank, name)), value)
        elif not isinstance(value, dict):
            values[name] = value
    return replace(blank, **values)


if TYPE_CHECKING:
    RunOptions = Any
else:
    RunOptions = options_of(RunConfig)


@dataclass(frozen=True)
class RunSettings:
    """A config file and options."""

    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[CONFIG.toml]")] = None
    """Config file, before or after the options (right after an option of several values, `--` goes before it)."""
    options: Annotated[RunOptions, tyro.conf.arg(name="")] = field(default_factory=RunOptions)
    """Settings; they override the config file."""
    words: Annotated[tuple[str, ...], tyro.conf.Suppress] = ()
    """The command line, which names the options that count."""

    def config(self) -> RunConfig:
        """The settings of the file, completed and overridden by the options that were named.

        Raises:
            ConfigError: If the file cannot be read, or the settings do not go together.
        """
        return load_config(self.file, {setting: _value(self.options, setting) for setting in self._named()})

    def naming(self, words: Sequence[str]) -> RunSettings:
        """A copy for another command line: only options that it names override the file."""
        return replace(self, words=tuple(words))

    def showing_file(self) -> RunSettings:
        """A copy whose options are the settings of the file, but for dicts, to be shown as defaults by help."""
        return RunSettings(self.file, _filled(RunOptions, load_config(self.file)))

    def _named(self) -> Iterator[Setting]:
        options = takewhile(lambda word: word != "--", self.words)
        named = {word.partition("=")[0].replace("_", "-") for word in options if word.startswith("--")}
        for setting in setting_names(RunConfig):
            *sections, name = (part.replace("_", "-") for part in setting)
            if named & {"--" + ".".join([*sections, flag]) for flag in (name, f"no-{name}")}:
                yield setting


def _value(options: Any, setting: Setting) -> Any:
    return functools.reduce(getattr, setting, options)
