"""Reading settings: from TOML, from the JSON that a run stores, and with options laid over them."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from wordle_rl.config.base import ConfigError, fields_only, section_of
from wordle_rl.config.rl import ALGORITHM_NAMES, RLSettings, not_followed
from wordle_rl.config.run import RunConfig, Setting

Place = tuple[int | str, ...]
"""The place of a fault: a setting, or the section it lies in."""


@dataclass(frozen=True)
class Fault:
    """A setting that cannot be used, its dotted name as the file has it, and the reason."""

    place: Place
    setting: str
    message: str


_FROM_EARLIER = "; an earlier development version of wordle-rl stored it, whose runs are not read"

MAX_FILE_BYTES = 4 << 20
"""A larger file holds no settings, and is refused before it is read."""


def load_config(path: Path | None, options: Mapping[Setting, Any] | None = None) -> RunConfig:
    """Read settings from TOML, or from the JSON that a run stores, and lay options over them.

    Args:
        path: The file; None: every setting that is no option has its default.
        options: Values that count more than those of the file. Both are validated together.

    Raises:
        ConfigError: If the file is missing or cannot be read, or a setting is unknown or impossible.
    """
    options = options or {}
    is_stored = path is not None and path.suffix == ".json"
    found = _for_algorithm({} if path is None else _given(path), options)
    for setting, value in options.items():
        _lay_over(found.values, setting, value)

    def source(place: Place) -> str:
        return "" if path is None else _source(path, options, place)

    faults = list(found.faults)
    try:
        config = RunConfig.model_validate(found.values)
    except ValidationError as error:
        faults = [*_faults_of(error, found.written), *faults]
    if faults:
        from_file = is_stored and any(source(fault.place) for fault in faults)
        raise ConfigError(f"{_in_one_line(faults, source)}{_FROM_EARLIER if from_file else ''}", faults[0].setting)
    return config


def stored_config(path: Path) -> RunConfig:
    """Read the settings that a run stored, without checking whether they go together.

    Raises:
        ConfigError: If the file is missing, cannot be read, or an earlier development version stored it.
    """
    try:
        with fields_only():
            return RunConfig.model_validate(_read(path))
    except ValidationError as error:
        faults = list(_faults_of(error))
        raise ConfigError(f"{_in_one_line(faults, lambda _: f'{path}: ')}{_FROM_EARLIER}", faults[0].setting) from None


def describe(error: ValidationError) -> str:
    """All faults of a validation in one line, each with the dotted name of its setting."""
    return _in_one_line(_faults_of(error))


def _faults_of(error: ValidationError, written: Callable[[Place], Place] = lambda place: place) -> Iterator[Fault]:
    """The faults of a validation; `written`: from a setting to its place in the file, by which messages name it."""
    for fault in error.errors():
        name = written(fault["loc"])
        setting = ".".join(part for part in name if isinstance(part, str))  # an entry of a list is none
        if fault["type"] == "extra_forbidden":
            yield Fault(fault["loc"], setting, _unknown(name))
        else:
            message = f"{_dotted(name) or 'config'}: {fault['msg'].removeprefix('Value error, ')}"
            yield Fault(fault["loc"], setting, message)


def _dotted(place: Place) -> str:
    return ".".join(map(str, place))


def _in_one_line(faults: Iterable[Fault], source: Callable[[Place], str] = lambda _: "") -> str:
    """The faults' messages; the source of their settings is named once for consecutive faults of the same one."""
    told, last = [], ""
    for fault in faults:
        found = source(fault.place)
        told.append(f"{'' if found == last else found}{fault.message}")
        last = found
    return "; ".join(told)


def _unknown(place: Place) -> str:
    """The error for a setting that is not there, with the most similar one."""
    hint = _nearest(place)
    return f"unknown setting {_dotted(place)}" + (f" ({hint})" if hint else "")


def _nearest(place: Place) -> str:
    fields = RunConfig.model_fields
    for part in place[:-1]:
        section = section_of(fields[str(part)].annotation)
        fields = section.model_fields if section else {}
        if part in ALGORITHM_NAMES:
            fields = {**fields, **RLSettings.model_fields}
    close = difflib.get_close_matches(str(place[-1]), fields, n=1, cutoff=0.5)
    return f"did you mean {_dotted((*place[:-1], close[0]))}?" if close else ""


def _read(path: Path) -> dict[str, Any]:
    parse = json.loads if path.suffix == ".json" else tomllib.loads
    try:
        if (size := path.stat().st_size) > MAX_FILE_BYTES:
            raise ConfigError(f"{path} has {size:,} bytes, a config file at most {MAX_FILE_BYTES:,}; name another file")
        values = parse(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"no config file {path}; see configs/ for examples") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a directory; name a config file in it") from None
    except RecursionError:
        raise ConfigError(f"{path} cannot be read: it is nested too deeply") from None
    except ConfigError:
        raise
    except ValueError as error:  # both parsers' errors, and bytes that are no text
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} cannot be read: it holds no settings")
    return values


def _given(path: Path) -> dict[str, Any]:
    """The settings of a file; of those of a run, which stores all, the ones that differ from the defaults."""
    values = _read(path)
    return _without_defaults(values, RunConfig) if path.suffix == ".json" else values


def _without_defaults(values: Mapping[str, Any], section: type[BaseModel]) -> dict[str, Any]:
    """The values of a section but for those that are its defaults."""
    defaults, kept = section().model_dump(mode="json"), {}
    for name, value in values.items():
        inner = _section_in(section, name)
        if inner and isinstance(value, dict):
            if below := _without_defaults(value, inner):
                kept[name] = below
        elif name not in defaults or value != defaults[name]:
            kept[name] = value
    return kept


@dataclass(frozen=True)
class _Resolved:
    """Settings of a file for one algorithm.

    Attributes:
        values: With the settings of [rl] that its section holds moved there.
        moved: Those settings, by their names in [rl].
        algorithm: The algorithm.
        faults: In what sections of algorithms hold of [rl].
    """

    values: dict[str, Any]
    moved: frozenset[Setting]
    algorithm: str
    faults: tuple[Fault, ...]

    def written(self, place: Place) -> Place:
        """The place in the file of a setting that may have been moved."""
        is_moved = any(place == setting[: len(place)] or setting == place[: len(setting)] for setting in self.moved)
        return (self.algorithm, *place[1:]) if len(place) > 1 and is_moved else place


def _for_algorithm(values: Mapping[str, Any], options: Mapping[Setting, Any]) -> _Resolved:
    """Move settings of [rl] out of the sections of algorithms: of the chosen one to [rl], of the others away."""
    chosen = options.get(("algorithm",), values.get("algorithm", RunConfig.model_fields["algorithm"].default))
    left, faults, moved = dict(values), [], frozenset[Setting]()
    for name in ALGORITHM_NAMES:
        section = left.get(name)
        if not isinstance(section, dict):
            continue
        judge = options.get(("dpo", "judge"), section.get("judge"))
        shared = {key: value for key, value in section.items() if key in RLSettings.model_fields}
        left[name] = {key: value for key, value in section.items() if key not in shared}
        for key, instead in not_followed(name, judge).items():
            if shared.pop(key, None) is not None:
                message = f"{name}.{key}: {ALGORITHM_NAMES[name]} {instead}; leave it out"
                faults.append(Fault((name, key), f"{name}.{key}", message))
        if name != chosen:
            faults += _faults_in(name, shared)
        elif isinstance(below := left.get("rl", {}), dict):
            left["rl"] = _merged(below, shared, RLSettings)
            moved = frozenset(("rl", *setting) for setting in _leaves(shared, RLSettings)) - options.keys()
    return _Resolved(left, moved, str(chosen), tuple(faults))


def _faults_in(name: str, shared: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults of settings of [rl] in the section of an algorithm that is not chosen."""
    try:
        with fields_only():
            RLSettings.model_validate(shared)
    except ValidationError as error:
        for fault in _faults_of(error, lambda place: (name, *place)):
            yield replace(fault, place=(name, *fault.place))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any], section: type[BaseModel]) -> dict[str, Any]:
    """The values of a section with others laid over them, setting by setting."""
    merged = dict(below)
    for name, value in above.items():
        inner = _section_in(section, name)
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value, inner) if inner and both else value
    return merged


def _leaves(values: Mapping[str, Any], section: type[BaseModel]) -> Iterator[Setting]:
    """The settings that a table of a file gives."""
    for name, value in values.items():
        inner = _section_in(section, name)
        if inner and isinstance(value, dict):
            yield from ((name, *below) for below in _leaves(value, inner))
        else:
            yield (name,)


def _section_in(section: type[BaseModel], name: str) -> type[BaseModel] | None:
    return section_of(section.model_fields[name].annotation) if name in section.model_fields else None


def _lay_over(values: Any, setting: Setting, value: Any) -> None:
    """Set one value, unless the file holds something else where a section should be, which is refused with the rest."""
    for name in setting[:-1]:
        if not isinstance(values, dict):
            return
        values = values.setdefault(name, {})
    if isinstance(values, dict):
        values[setting[-1]] = value


def _source(path: Path, options: Mapping[Setting, Any], place: Place) -> str:
    """Source of a fault, named before it; empty for an option, whose name shows it."""
    if any(place[: len(setting)] == setting for setting in options):
        return ""
    has_option_below = any(setting[: len(place)] == place for setting in options)
    return f"{path} and options: " if has_option_below else f"{path}: "
