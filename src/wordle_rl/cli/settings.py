"""Settings of a run on the command line, `--section.key value` over a preset or file, and their help.

A setting is named as in a file, with dashes or underscores. `config.files.load_config` validates file and command line
together.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from wordle_rl.config import ALGORITHM_NAMES, ConfigError, RLSettings, RunConfig, Setting, load_config, section_of
from wordle_rl.config.files import nearest_setting

Overrides = Mapping[Setting, Any]
"""Run settings from the command line, by their names."""

HELP = ("-h", "--help", "--help-all")
_ELSEWHERE = {
    "lr": "--sft.optimizer.learning-rate or --rl.optimizer.learning-rate",
    "learning_rate": "--sft.optimizer.learning-rate or --rl.optimizer.learning-rate",
    "output_dir": "--out",
    "model": "--model.path",
    "model_name_or_path": "--model.path",
    "config": "the file or preset without an option: wordle-rl run quickstart",
    "num_generations": "--rl.group-size",
    "batch_size": "--sft.batch-size or --rl.batch-size",
    "per_device_train_batch_size": "--sft.batch-size",
    "max_steps": "--grpo.steps",
    "num_train_epochs": "--sft.epochs",
    "gradient_accumulation_steps": "--model.micro-batch-size",
    "max_completion_length": "--max-completion-tokens",
    "temperature": "--rl.temperature",
    "beta": "--rl.beta",
    "use_vllm": "--grpo.engine vllm",
}
"""Settings that people know from other tools -> ours."""

USUAL = (
    "algorithm", "seed", "max_completion_tokens", "words.source", "game.style", "game.thinking", "model.path",
    "model.lora.rank", "model.micro_batch_size", "traces.num_games", "traces.file", "sft.epochs",
    "sft.optimizer.learning_rate", "rl.group_size", "rl.rounds", "rl.reward.preset", "rl.optimizer.learning_rate",
    "grpo.steps", "grpo.engine", "report_to",
)  # fmt: skip
"""Settings that people usually change, in the short help. --help-all shows the others."""

EXAMPLES = """\
Examples:
  {program} quickstart                                  {what}
  {program} quickstart --rl.rounds 6 --seed 1           with other settings
  {program} qwen3-1.7b --model.path DIR --out runs/own  a recipe for a pretrained model
  {program} quickstart --algorithm grpo                 or dpo, distill
  {program} my.toml --rl.reward.weights.win 2           your own file
"""


def take_settings(arguments: Sequence[str]) -> tuple[dict[Setting, Any], list[str]]:
    """Split arguments into run settings and the rest.

    A flag needs no value. Write a list with commas or as in TOML, and an entry of a table as `--table.key value`.

    Raises:
        ConfigError: If a setting does not exist or has no value.
    """
    found: dict[Setting, Any] = {}
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            return found, rest + words
        name, equals, value = word.removeprefix("--").partition("=")
        key = name.replace("-", "_")
        if key in _ELSEWHERE and word.startswith("--"):
            raise ConfigError(f"unknown setting --{name} (did you mean {_ELSEWHERE[key]}?)", key)
        if not word.startswith("--") or not ("." in key or key in RunConfig.model_fields):
            rest.append(word)
            continue
        setting, field = _setting_of(name)
        if not equals:
            takes_none = field.annotation is bool and not (words and words[0].lower() in ("true", "false"))
            if not takes_none and (not words or words[0].startswith("--")):
                raise ConfigError(f"--{name} has no value; give one", ".".join(setting))
            value = "true" if takes_none else words.pop(0)
        found[setting] = _value(value, field, ".".join(setting))
    return found, rest


def _setting_of(name: str) -> tuple[Setting, FieldInfo]:
    """Find the setting of a dotted name. In a table, the rest of the name is the key."""
    fields: Mapping[str, FieldInfo] = RunConfig.model_fields
    parts = name.split(".")
    keys = [part.replace("-", "_") for part in parts]
    for place, key in enumerate(keys):
        if place and keys[0] in ALGORITHM_NAMES:
            fields = {**fields, **RLSettings.model_fields} if place == 1 else fields
        if key not in fields:
            near = nearest_setting(tuple(keys[: place + 1]))
            hint = f" (did you mean --{near.replace('_', '-')}?)" if near else ""
            raise ConfigError(f"unknown setting --{name}{hint}", ".".join(keys))
        field = fields[key]
        if section := section_of(field.annotation):
            fields = section.model_fields
            continue
        rest = ".".join(parts[place + 1 :])
        if rest and typing.get_origin(field.annotation) is not dict:
            raise ConfigError(f"unknown setting --{name}: {'.'.join(keys[: place + 1])} has no parts", ".".join(keys))
        return (*keys[: place + 1], *([rest.replace("-", "_")] if rest else [])), field
    raise ConfigError(f"--{name} is a section; name a setting in it, such as --{name}.{next(iter(fields))}", name)


def _value(text: str, field: FieldInfo, name: str) -> Any:
    # Pydantic converts text itself, except for None, lists and tables.
    kinds = typing.get_args(field.annotation) if _is_union(field.annotation) else (field.annotation,)
    if text.lower() == "none" and type(None) in kinds:
        return None
    origins = {typing.get_origin(kind) for kind in kinds}
    is_table, is_list = dict in origins and len(name.split(".")) <= 3, tuple in origins
    if is_list and not text.startswith("["):
        return text.split(",") if text else []
    if is_list or (is_table and text.startswith("{")):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"--{name}: {text!r} cannot be read: {error}", name) from None
    if dict in origins:  # an entry of a table
        return tomllib.loads(f"value = {text}")["value"] if re.fullmatch(r"-?[\d._e+-]+|true|false", text) else text
    return text


def _is_union(annotation: Any) -> bool:
    return isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union


def show_help(function: Callable[..., Any], program: str, arguments: Sequence[str]) -> None:
    """Print the help of a command with run settings: its own options, then the usual settings or all of them.

    The defaults shown are those of the preset or file, if you name one.
    """
    given = [word for word in arguments if word not in HELP]
    file = next((word for word in given if not word.startswith("-")), None)
    try:
        defaults = load_config(file)
    except ConfigError:
        defaults, file = RunConfig(), None
    docstring = inspect.getdoc(function) or ""
    summary, _, described = docstring.partition("Args:")
    lines = [f"usage: {program} [PRESET | CONFIG.toml] [OPTIONS] [--section.key VALUE ...]", "", summary.strip(), ""]
    texts = dict(re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", described, flags=re.MULTILINE))
    lines.append("Options:")
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in texts and parameter.name not in ("config", "overrides", "cluster"):
            option = {"as_json": "json"}.get(parameter.name, parameter.name).replace("_", "-")
            lines += _entry(f"--{option}", " ".join(texts[parameter.name].split()))
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        section = getattr(parameter.annotation, "__origin__", parameter.annotation)
        for name, field in getattr(section, "model_fields", {}).items():
            shown_as = f"--{name.replace('_', '-')} {_shown(field.get_default(call_default_factory=True))}"
            lines += _entry(shown_as, " ".join((field.description or "").split()))
    lines.append("")
    whole = "--help-all" in arguments
    lines.append(f"{'All' if whole else 'Usual'} settings{f', as in {file}' if file else ''}:")
    for setting, field, value in _settings(defaults):
        if whole or ".".join(setting) in USUAL:
            text = " ".join((field.description or "").split())
            text = text if whole else re.split(r"(?<=[.:;]) ", text)[0].rstrip(";:.")
            lines += _entry(f"--{'.'.join(setting).replace('_', '-')} {_shown(value)}", text)
    what = "the whole chain on two CPU cores, in minutes" if program.endswith("run") else "before you train"
    lines += ["", EXAMPLES.format(program=program, what=what)]
    if not whole:
        lines.append(f"All {sum(1 for _ in _settings(defaults))} settings: {program} --help-all. Files: docs/runs.md.")
    sys.stdout.write("\n".join(lines) + "\n")


def _entry(name: str, text: str) -> list[str]:
    import textwrap

    wrapped = textwrap.wrap(text, 68)
    if len(name) <= 30:
        return [f"  {name:<30} {wrapped[0] if wrapped else ''}", *(f"{'':33}{line}" for line in wrapped[1:])]
    return [f"  {name}", *(f"{'':33}{line}" for line in wrapped)]


def _settings(section: BaseModel, place: Setting = ()) -> Iterator[tuple[Setting, FieldInfo, Any]]:
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _settings(value, (*place, name))
        else:
            yield (*place, name), field, value


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(str, value)) or "''"
    return str(value).lower() if isinstance(value, bool) else str(value)
