"""Read the settings of a run: a preset, a TOML file, or the JSON that a run stores, with overrides on top."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from wordle_rl.config.base import FIELDS_ONLY, ConfigError, section_of
from wordle_rl.config.run import RunConfig, Setting, config_class, every_setting
from wordle_rl.config.stages import is_stage, kind_of
from wordle_rl.errors import special_file
from wordle_rl.prompt import Shape

PRESETS_DIRECTORY = Path(__file__).parent / "presets"
"""TOML files of the presets."""

MOVED = {
    "algorithm": 'list the stages of the run instead, such as stages = ["sft", "grpo"]',
    "rl": "each stage has its own: write it into the section of the stage, such as [grpo]",
}
"""Settings of files that were written before runs had stages."""
_MOST_FAULTS = 10
"""Faults told in one line; a file of another kind can have thousands."""

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

    Args:
        source: Name of a preset, or a file. None: defaults.
        overrides: Values by setting, such as `("grpo", "steps")`. They win over the file.
    """
    path = None if source is None else find_config(source)
    values = {} if path is None else _read(path)
    given = dict(overrides or {})
    for setting, value in given.items():
        _lay_over(values, setting, value)
    kind = _class_for(values)
    # A file may describe stages that a run leaves out, so that --stages can choose. What you type is for this run.
    stages = values.get("stages", kind.model_fields["stages"].default)
    faults: list[tuple[Place, str]] = [
        (setting, f"stages are {', '.join(map(str, stages))}; add {setting[0]} to stages, or remove it")
        for setting in given
        if is_stage(setting[0]) and isinstance(stages, list | tuple) and setting[0] not in stages
    ]
    try:
        config = kind.model_validate(values)
    except ValidationError as error:
        faults += _faults_of(error)
    else:
        texts = ((place, value) for place, _, value in every_setting(config) if isinstance(value, str))
        faults += [(place, f"{text} is {found}; name a file") for place, text in texts if (found := special_file(text))]
    if not faults:
        return config
    # A preset is right by itself, so a rule that it breaks names what you typed.
    source = "" if path is None or path.parent == PRESETS_DIRECTORY else f"{path}: "
    raise ConfigError(_joined(faults, lambda place: "" if place in given else source))


_TINY: dict[Setting, Any] = {
    # The bundled player wins now and then, so that there is something to learn from; random weights would win nothing.
    ("model", "path"): "bundled",
    ("model", "max_length"): 256,
    ("model", "micro_batch_size"): 0,
    ("model", "chat_template"): None,
    ("model", "template_kwargs"): {},
    ("model", "attn_implementation"): None,
    ("model", "load_in_4bit"): False,
    ("model", "compile"): False,
    ("game", "style"): "compact",  # its tokens spell no other wording
    ("game", "thinking"): "off",
    ("game", "system_prompt"): None,
    ("max_completion_tokens",): 12,
    ("traces", "num_games"): 64,
    ("traces", "narrate"): False,
    ("eval", "max_games"): 8,
    ("eval", "engine"): "transformers",
    ("report_to",): (),
}
_TINY_GROUP = 4
_TINY_PLAY = {"rounds": 2, "groups_per_round": 16, "batch_size": 16, "epochs": 1}
_NO_TEXT = {"plain_text_fraction": 0.0}  # the small model has never read any
_TINY_STAGES: dict[str, dict[str, Any]] = {
    "sft": {"epochs": 1, "batch_size": 16, **_NO_TEXT},
    "grpo": {
        "steps": 2,
        "groups_per_step": 4,
        "max_refills": 0,
        "engine": "transformers",
        "batches_ahead": 0,
        "server_timeout_s": 600.0,
    },
    "expert_iteration": {**_TINY_PLAY, **_NO_TEXT},
    "dpo": {**_TINY_PLAY, "boards_per_round": 16},
    "distill": {**_TINY_PLAY, **_NO_TEXT},
}


def load_tiny(source: str | Path, overrides: Mapping[Setting, Any]) -> RunConfig:
    """Read settings as `load_config` does, then put a small model and few games in place of those that cost time.

    Stages, rewards, credit, adapters, words and rules stay as they are. `overrides` count more.
    """
    config = load_config(source, overrides)
    sizes: dict[Setting, Any] = {
        (stage, key): value for stage in config.stages for key, value in _TINY_STAGES[kind_of(stage)].items()
    }
    warmups: dict[Setting, Any] = {(stage, "optimizer", "warmup"): 0.0 for stage in config.stages}
    # What makes sense only beside a setting that is replaced.
    if config.game.shape is Shape.SPOKEN:
        sizes[("game", "shape")] = Shape.TRANSCRIPT.value
    for stage, own in config.stages_of("grpo"):
        candidates = own.turn_candidates
        sizes[(stage, "group_size")] = -(-_TINY_GROUP // candidates) * candidates
    return load_config(source, _TINY | sizes | warmups | dict(overrides))


class OldRunError(ConfigError):
    """A run made before runs had stages; its models can be played, but its settings are not read any more."""


def stored_config(path: Path) -> RunConfig:
    """Read the settings that a run stored, without rules across settings; `OldRunError` if it is from before stages."""
    values = _read(path)
    if "algorithm" in values and "stages" not in values:
        raise OldRunError(
            f"{path}: this run was made before runs had stages; its models still play (name their directories), but it "
            "can be neither resumed nor reported"
        )
    try:
        return _class_for(values).model_validate(values, context=FIELDS_ONLY)
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}") from None


def _class_for(values: dict[str, Any]) -> type[RunConfig]:
    """Return the class of these settings, and give each numbered stage what its section leaves to the first one's."""
    stages = values.get("stages", ())
    kind = config_class([*(stages if isinstance(stages, list | tuple) else ()), *values])
    for name in kind.model_fields.keys() - RunConfig.model_fields.keys():
        first, own = values.get(kind_of(name), {}), values.get(name, {})
        if isinstance(first, dict) and isinstance(own, dict):
            values[name] = _merged(first, own)
    return kind


def describe(error: ValidationError) -> str:
    """Return all faults of a validation in one line, each with the dotted name of its setting."""
    return _joined([*_faults_of(error)], lambda _: "")


def nearest_setting(place: Place) -> str:
    """Return the dotted name of the known setting most like an unknown one; empty if none is similar."""
    fields: Mapping[str, FieldInfo] = config_class([place[0]]).model_fields
    for part in place[:-1]:
        section = section_of(fields[str(part)].annotation) if part in fields else None
        fields = section.model_fields if section else {}
    close = difflib.get_close_matches(str(place[-1]), fields, n=1, cutoff=0.5)
    return ".".join(map(str, (*place[:-1], close[0]))) if close else ""


def _faults_of(error: ValidationError) -> Iterator[tuple[Place, str]]:
    for fault in error.errors():
        is_unknown = fault["type"] == "extra_forbidden"
        yield fault["loc"], "" if is_unknown else fault["msg"].removeprefix("Value error, ")


def _joined(faults: Sequence[tuple[Place, str]], source: Callable[[Place], str]) -> str:
    told = [f"{source(place)}{_told(place, text)}" for place, text in faults[:_MOST_FAULTS]]
    more = [f"and {len(faults) - _MOST_FAULTS:,} more"] if len(faults) > _MOST_FAULTS else []
    return "; ".join([*told, *more])


def _told(place: Place, text: str) -> str:
    # An empty text means that the setting is unknown.
    name = ".".join(map(str, place))
    if text:
        return f"{name or 'config'}: {text}"
    if moved := MOVED.get(str(place[0])):
        return f"unknown setting {name} ({moved})"
    near = nearest_setting(place)
    return f"unknown setting {name}" + (f" (did you mean {near}?)" if near else "")


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
        values = parse(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        known = sorted(preset.stem for preset in PRESETS_DIRECTORY.glob("*.toml"))
        close = difflib.get_close_matches(path.stem, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"presets are {', '.join(known)}"
        raise ConfigError(f"no config file or preset {path} ({hint})") from None
    except (OSError, RecursionError, ValueError) as error:  # a directory; nested too deeply; from a parser; not UTF-8
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
