"""Settings of a run on the command line, `--section.key value` over a preset or file, and their help.

A setting is named as in a file, with dashes or underscores. `config.files.load_config` validates file and command line
together.
"""

from __future__ import annotations

import re
import sys
import textwrap
import tomllib
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.fields import FieldInfo

from wordle_rl.config.base import ConfigError, section_of
from wordle_rl.config.files import load_config, nearest_setting
from wordle_rl.config.run import RunConfig, Setting, config_class, every_setting
from wordle_rl.runs.foreign_text import visible

Overrides = Mapping[Setting, Any]
"""Run settings from the command line, by their names."""

_ELSEWHERE = {
    "lr": "--sft.optimizer.learning-rate or --grpo.optimizer.learning-rate",
    "learning_rate": "--sft.optimizer.learning-rate or --grpo.optimizer.learning-rate",
    "algorithm": "--stages sft,grpo",
    "rl": "a stage's own setting, such as --grpo.temperature",
    "output_dir": "--out",
    "model": "--model.path",
    "model_name_or_path": "--model.path",
    "config": "the file or preset without an option: wordle-rl run quickstart",
    "num_generations": "--grpo.group-size",
    "batch_size": "--sft.batch-size",
    "per_device_train_batch_size": "--sft.batch-size",
    "max_steps": "--grpo.steps",
    "num_train_epochs": "--sft.epochs",
    "gradient_accumulation_steps": "--model.micro-batch-size",
    "max_completion_length": "--max-completion-tokens",
    "temperature": "--grpo.temperature",
    "beta": "--grpo.beta",
    "use_vllm": "--grpo.engine vllm",
}
"""Settings that people know from other tools -> ours."""

USUAL = (
    "stages", "seed", "max_completion_tokens", "words.source", "game.style", "game.thinking", "model.path",
    "model.lora.rank", "model.micro_batch_size", "traces.num_games", "traces.file", "sft.epochs",
    "sft.optimizer.learning_rate", "grpo.steps", "grpo.group_size", "grpo.reward.preset",
    "grpo.optimizer.learning_rate", "grpo.engine", "expert_iteration.rounds", "expert_iteration.labels",
    "expert_iteration.optimizer.learning_rate", "report_to",
)  # fmt: skip
"""Settings that people usually change, in the short help. --help-all shows the others."""

EXAMPLES = """\
Examples:
  {program} quickstart                                  {what}
  {program} quickstart --expert-iteration.rounds 6      with other settings
  {program} qwen3-1.7b --model.path DIR                 a recipe for a pretrained model
  {program} quickstart --stages sft,grpo                or dpo, distill; any chain of stages
  {program} my.toml --grpo.reward.weights.win 2         your own file
"""


def take_settings(arguments: Sequence[str]) -> tuple[dict[Setting, Any], list[str]]:
    """Split arguments into run settings and the rest.

    A flag needs no value. Write a list with commas or as in TOML, and an entry of a table as `--table.key value`.
    """
    found: dict[Setting, Any] = {}
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        key = name.replace("-", "_")
        if (near := _ELSEWHERE.get(key.partition(".")[0] if key.startswith("rl.") else key)) and word.startswith("--"):
            raise ConfigError(f"unknown setting --{name} (did you mean {near}?)")
        if not word.startswith("--") or not ("." in key or key in RunConfig.model_fields):
            rest.append(word)
            continue
        setting, field, is_entry = _setting_of(name)
        if not equals:
            # A flag alone means true; `--flag false` turns off what the file turns on.
            takes_none = field.annotation is bool and not (words and words[0].lower() in ("true", "false"))
            if not takes_none and (not words or words[0].startswith("--")):
                raise ConfigError(f"--{name} has no value; give one")
            value = "true" if takes_none else words.pop(0)
        try:
            found[setting] = _value(value, field, is_entry=is_entry)
        except ConfigError as error:
            raise ConfigError(f"--{name}: {error}") from None
    return found, rest


def _setting_of(name: str) -> tuple[Setting, FieldInfo, bool]:
    # In a table, such as grpo.reward.weights, the rest of the name is the key of an entry.
    parts = name.replace("-", "_").split(".")
    fields: Mapping[str, FieldInfo] = config_class(parts[:1]).model_fields
    for place, key in enumerate(parts):
        if key not in fields:
            near = nearest_setting(tuple(parts[: place + 1]))
            meant = f"--{near.replace('_', '-')}" if near else _ELSEWHERE.get(key)
            raise ConfigError(f"unknown setting --{name}" + (f" (did you mean {meant}?)" if meant else ""))
        field = fields[key]
        if section := section_of(field.annotation):
            fields = section.model_fields
            continue
        rest = ".".join(parts[place + 1 :])
        if rest and typing.get_origin(field.annotation) is not dict:
            raise ConfigError(f"unknown setting --{name}: {'.'.join(parts[: place + 1])} has no parts")
        return (*parts[: place + 1], *([rest] if rest else [])), field, bool(rest)
    raise ConfigError(f"--{name} is a section; name a setting in it, such as --{name}.{next(iter(fields))}")


def _value(text: str, field: FieldInfo, *, is_entry: bool) -> Any:
    # Pydantic converts text itself, except for None, lists and tables.
    kinds = typing.get_args(field.annotation) or ()
    if text.lower() == "none" and type(None) in kinds:
        return None
    if is_entry:  # of a table
        return tomllib.loads(f"value = {text}")["value"] if re.fullmatch(r"-?[\d._e+-]+|true|false", text) else text
    origins = {typing.get_origin(field.annotation), *map(typing.get_origin, kinds)}
    if origins & {tuple, dict} and text.startswith(("[", "{")):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{text!r} cannot be read: {error}") from None
    if tuple in origins:
        return text.split(",") if text else []
    return text


def show_settings(program: str, source: str | None, *, whole: bool) -> None:
    """Print the usual settings or all of them, with the defaults of the preset or file, if you name one."""
    try:
        defaults = load_config(source)
    except ConfigError:
        defaults, source = RunConfig(), None
    settings = [*every_setting(defaults)]
    lines = ["", f"{'All' if whole else 'Usual'} settings{f', as in {source}' if source else ''}:"]
    for setting, field, value in settings:
        if whole or ".".join(setting) in USUAL:
            text = " ".join((field.description or "").split())
            text = text if whole else re.split(r"(?<=[.:;]) ", text)[0].rstrip(";:.")
            shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            name = f"--{'.'.join(setting).replace('_', '-')} {shown.lower() if isinstance(value, bool) else shown}"
            described = textwrap.wrap(text, 68)
            if len(name) <= 30:
                lines.append(f"  {name:<30} {described.pop(0)}")
            else:
                lines.append(f"  {name}")
            lines += (f"{'':33}{line}" for line in described)
    what = "the whole chain on two CPU cores, in minutes" if program.endswith("run") else "before you train"
    lines += ["", EXAMPLES.format(program=program, what=what)]
    if not whole:
        lines.append(f"All {len(settings)} settings: {program} --help-all. Files: docs/runs.md.")
    sys.stdout.write(visible("\n".join(lines) + "\n"))
