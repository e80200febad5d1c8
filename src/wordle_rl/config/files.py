"""Read the settings of a run: a preset, a TOML file, or the JSON that a run stores, with overrides on top."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wordle_rl.config.base import ConfigError, fields_only, section_of
from wordle_rl.config.rl import ALGORITHM_NAMES, FOLLOWED_BY_SOME, FOLLOWS, RLSettings
from wordle_rl.config.run import RunConfig, Setting, setting_names

PRESETS_DIRECTORY = Path(__file__).parent / "presets"
"""TOML files of the presets."""
MAX_FILE_BYTES = 4 << 20
"""A larger file cannot be a config, and is refused before it is read."""
_FROM_EARLIER = "; an earlier development version of wordle-rl stored it, and such runs cannot be read"

Place = tuple[int | str, ...]
"""Where a fault lies: a setting, or its section."""


def find_config(source: str | Path) -> Path:
    """Return the file of a preset such as `quickstart`; any other path is returned unchanged."""
    path = Path(source)
    is_name = path.name == str(source) and not path.is_file()
    preset = PRESETS_DIRECTORY / f"{path.name.removesuffix('.toml')}.toml"
    return preset if is_name and preset.is_file() else path


def load_config(source: str | Path | None, overrides: Mapping[Setting, Any] | None = None) -> RunConfig:
    """Read settings, apply overrides, and validate everything together.

    An algorithm's section may hold any setting of [rl]. It then counts for that algorithm only.

    Args:
        source: Name of a preset, or a file. None: defaults.
        overrides: Values by setting, such as `("grpo", "steps")`. They win over the file.

    Raises:
        ConfigError: If the file is missing or unreadable, or a setting is unknown or invalid.
    """
    path = None if source is None else find_config(source)
    values = {} if path is None else _read(path)
    given = dict(overrides or {})
    algorithm = given.get(("algorithm",), values.get("algorithm", RunConfig.model_fields["algorithm"].default))
    faults = list(_faults_in_sections(values, algorithm))
    values, moved = _for_algorithm(values, algorithm)
    # The sections of other algorithms lose their settings of [rl]; these are checked above and then play no part.
    for name in set(values) & set(ALGORITHM_NAMES) - {algorithm}:
        if isinstance(values[name], dict):
            values[name] = {key: value for key, value in values[name].items() if key not in RLSettings.model_fields}
    for setting, value in given.items():
        if len(setting) > 1 and setting[0] in ALGORITHM_NAMES and setting[1] in RLSettings.model_fields:
            setting = ("rl", *setting[1:])
        _lay_over(values, setting, value)
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        for place, message in _faults_of(error):
            # Report a moved setting where the user wrote it.
            is_moved = len(place) > 1 and place[0] == "rl" and place[1] in moved and place not in given
            faults.append(((algorithm, *place[1:]) if is_moved else place, message))
    if not faults:
        return config
    told = [f"{'' if path is None or place in given else f'{path}: '}{_told(place, text)}" for place, text in faults]
    from_file = path is not None and path.suffix == ".json" and any(place not in given for place, _ in faults)
    raise ConfigError("; ".join(told) + _FROM_EARLIER * from_file, _setting(*faults[0]))


def stored_config(path: Path) -> RunConfig:
    """Read the settings that a run stored, without rules across settings.

    Raises:
        ConfigError: If the file is missing or unreadable, or an earlier development version stored it.
    """
    try:
        with fields_only():
            return RunConfig.model_validate(_read(path))
    except ValidationError as error:
        faults = list(_faults_of(error))
        told = _told(*faults[0]) + (f", and {len(faults) - 1} more" if len(faults) > 1 else "")
        raise ConfigError(f"{path}: {told}{_FROM_EARLIER}", _setting(*faults[0])) from None


def describe(error: ValidationError) -> str:
    """Return all faults of a validation in one line, each with the dotted name of its setting."""
    return "; ".join(_told(place, text) for place, text in _faults_of(error))


def nearest_setting(place: Place) -> str:
    """Return the dotted name of the known setting most like an unknown one; empty if none is similar."""
    fields = RunConfig.model_fields
    for part in place[:-1]:
        section = section_of(fields[str(part)].annotation) if part in fields else None
        fields = section.model_fields if section else {}
        if part in ALGORITHM_NAMES:
            fields = {**fields, **RLSettings.model_fields}
    close = difflib.get_close_matches(str(place[-1]), fields, n=1, cutoff=0.5)
    return ".".join(map(str, (*place[:-1], close[0]))) if close else ""


def _faults_of(error: ValidationError) -> Iterator[tuple[Place, str]]:
    for fault in error.errors():
        is_unknown = fault["type"] == "extra_forbidden"
        yield fault["loc"], "" if is_unknown else fault["msg"].removeprefix("Value error, ")


def _told(place: Place, text: str) -> str:
    """Format a fault. An empty text means that the setting is unknown."""
    if text:
        return f"{_dotted(place) or 'config'}: {text}"
    near = nearest_setting(place)
    return f"unknown setting {_dotted(place)}" + (f" (did you mean {near}?)" if near else "")


def _dotted(place: Place) -> str:
    return ".".join(map(str, place))


def _setting(place: Place, text: str) -> str:
    """Return the dotted setting of a fault. A rule across settings names its setting as the first word of its text."""
    section = ".".join(part for part in place if isinstance(part, str))  # drop list positions
    first = re.match(r"[a-z_.]*[a-z_]", text)
    known = {".".join(setting) for setting in setting_names()}
    named = f"{section}.{first[0]}".removeprefix(".") if first else section
    return named if named in known else section


def _for_algorithm(values: Mapping[str, Any], algorithm: str) -> tuple[dict[str, Any], set[str]]:
    """Move settings of [rl] from the chosen algorithm's section to [rl]. Also return their names."""
    section, shared = values.get(algorithm), values.get("rl", {})
    if algorithm not in ALGORITHM_NAMES or not isinstance(section, dict) or not isinstance(shared, dict):
        return dict(values), set()
    moved = {key for key in section if key in RLSettings.model_fields}
    own = {key: value for key, value in section.items() if key not in moved}
    return {**values, algorithm: own, "rl": _merged(shared, {key: section[key] for key in moved})}, moved


def _faults_in_sections(values: Mapping[str, Any], algorithm: str) -> Iterator[tuple[Place, str]]:
    """Check the settings of [rl] in algorithms' sections. The chosen algorithm's are validated with everything else."""
    for name in ALGORITHM_NAMES:
        section = values.get(name)
        if not isinstance(section, dict):
            continue
        shared = {key: value for key, value in section.items() if key in RLSettings.model_fields}
        for key in sorted(shared.keys() & FOLLOWED_BY_SOME - FOLLOWS[name]):
            yield (name, key), f"{ALGORITHM_NAMES[name]} does not use it; remove it"
        try:
            with fields_only():
                if name != algorithm:
                    RLSettings.model_validate(shared)
        except ValidationError as error:
            yield from (((name, *place), text) for place, text in _faults_of(error))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables recursively; `above` wins. Weights of a reward are replaced as a whole."""
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict) and name != "weights"
        merged[name] = _merged(merged[name], value) if both else value
    return merged


def _read(path: Path) -> dict[str, Any]:
    parse = json.loads if path.suffix == ".json" else tomllib.loads
    try:
        if (size := path.stat().st_size) > MAX_FILE_BYTES:
            raise ConfigError(f"{path} has {size:,} bytes, a config file at most {MAX_FILE_BYTES:,}; name another file")
        values = parse(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        known = sorted(preset.stem for preset in PRESETS_DIRECTORY.glob("*.toml"))
        close = difflib.get_close_matches(path.stem, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"presets are {', '.join(known)}"
        raise ConfigError(f"no config file or preset {path} ({hint})") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a directory; name a config file in it") from None
    except RecursionError:
        raise ConfigError(f"{path} cannot be read: it is nested too deeply") from None
    except ConfigError:
        raise
    except ValueError as error:  # from either parser, or bytes that are not UTF-8
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} cannot be read: it holds no settings")
    return values


def _lay_over(values: Any, setting: Setting, value: Any) -> None:
    """Set one value. If the file has something else in place of a section, leave it for validation to report."""
    for name in setting[:-1]:
        if not isinstance(values, dict):
            return
        values = values.setdefault(name, {})
    if isinstance(values, dict):
        values[setting[-1]] = value
