"""Parse a command's arguments with tyro, from the function's signature, and its run settings beside them.

A setting of a run is `--section.key value` over a preset or file, named as in the file, with dashes or underscores.
tyro could read `RunConfig` itself, but not what these settings need, so they are taken out before it sees the rest:

- A file and the command line are validated together, so either may mend or complete the other. tyro validates a whole
  value first, and cannot say afterwards which settings were typed.
- A table takes entries that its default has not (`--grpo.reward.weights.win 2`), and a stage such as `grpo_2` brings a
  section of its own.
- A refusal is one line, and the file may stand anywhere among the settings.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import re
import sys
import textwrap
import tomllib
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import tyro
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from wordle_rl.cli import console
from wordle_rl.config.base import ConfigError, section_of
from wordle_rl.config.files import load_config, nearest_setting
from wordle_rl.config.options import Quiet
from wordle_rl.config.run import RunConfig, Setting, config_class, every_setting
from wordle_rl.errors import special_file
from wordle_rl.runs.distributed import num_processes
from wordle_rl.runs.foreign_text import visible

_HELP = {"-h", "--help", "--help-all"}

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


def read(
    function: Callable[..., int | None], program: str, arguments: Sequence[str], examples: Mapping[str, str] = {}
) -> Callable[[], int | None]:
    """Bind a command's function to its arguments. tyro prints help, or what is wrong, and exits.

    Signature and docstring give the options and the help, which ends in `examples`: arguments, and what they do. A
    parameter `overrides: Overrides` takes the run settings.
    """
    given = list(arguments)
    # An unset shell variable leaves an empty argument, and an empty path would mean the current directory.
    for before, word in pairwise(["", *given]):
        option, equals, value = word.partition("=") if word.startswith("--") else (before, "=", word)
        if equals and not value and not option.replace("_", "-").endswith("system-prompt"):
            raise ConfigError(f"{option if option.startswith('--') else 'an argument'} is empty; give a value")
        if equals and (kind := special_file(value)):
            raise ConfigError(f"{option if option.startswith('--') else 'an argument'} {value} is {kind}; name a file")
    signature = inspect.signature(function, eval_str=True)
    bound: dict[str, Any] = {}
    if takes_settings := "overrides" in signature.parameters:
        bound["overrides"], given = take_settings(given)
    helps = _HELP.intersection(given)
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    parameters = [*(each for each in signature.parameters.values() if each.name != "overrides"), quiet]

    def with_arguments(*args: Any, **kwargs: Any) -> Callable[[], int | None]:
        console.messages.quiet = kwargs.pop("quiet")
        for name, value in signature.bind_partial(*args, **kwargs).arguments.items():
            numbers = value if isinstance(value, tuple) else (value,)
            if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
                raise ConfigError(f"--{name.replace('_', '-')}: {value} is no finite number; give one")
        return functools.partial(function, *args, **kwargs, **bound)

    # A docstring's line breaks are the source's; a help text is wrapped to the terminal's width.
    with_arguments.__doc__ = re.sub(r"\n {8,}(?=\S)", " ", inspect.getdoc(function) or "")
    with_arguments.__annotations__ = {each.name: each.annotation for each in parameters}
    with_arguments.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    flags = (tyro.conf.FlagCreatePairsOff, tyro.conf.EnumChoicesFromValues)
    said = io.StringIO()  # what tyro says about an argument holds the argument
    try:
        with contextlib.redirect_stderr(said):
            call: Callable[[], int | None] = tyro.cli(
                with_arguments, prog=program, args=["--help"] if helps else given, config=flags
            )
    except ValidationError as error:
        # A rule across options has no place, and names them itself.
        faults = [(".".join(map(str, each["loc"])).replace("_", "-"), each) for each in error.errors()]
        told = [f"--{name} {each['input']}: {each['msg']}" if name else each["msg"] for name, each in faults]
        raise ConfigError("; ".join(told).replace("Value error, ", "")) from None
    except SystemExit:
        if takes_settings and helps:
            source = next((word for word in given if not word.startswith("-")), None)
            show_settings(program, source, whole="--help-all" in helps)
        if helps and examples:
            width = max(map(len, examples))
            lines = (f"  {program} {example:<{width}}  {what}\n" for example, what in examples.items())
            sys.stdout.write("".join(["\nExamples:\n", *lines]))
        raise
    finally:
        if said.getvalue():
            sys.stderr.write(visible(said.getvalue(), keeps_colors=True))
    return call


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


def fill_in(out: Path, model: str | None) -> Path:
    """Replace `{model}` and `{time}` in a path of --out, and print the path that came of it.

    Args:
        out: A path, such as `runs/{model}-{time}`.
        model: Path or name of the model; its last part is taken, with a dash for what is no letter, digit, dot or
            underscore. None: the command has no model.

    Raises:
        ConfigError: For another field in braces, and for `{time}` in a launch of several processes.
    """
    fields = {"time": f"{datetime.now():%Y%m%d-%H%M%S}"}
    if model is not None:
        fields["model"] = re.sub(r"[^\w.]+", "-", Path(model).resolve().name)
    text = str(out)
    for name in re.findall(r"{([^{}]*)}", text):
        if name not in fields:
            known = " or ".join(f"{{{each}}}" for each in sorted(fields))
            raise ConfigError(f"--out {text}: {{{name}}} is no field of this command; use {known}")
    if "{time}" in text and num_processes() > 1:
        # Each process would fill in its own time.
        raise ConfigError(f"--out {text}: the processes of a launch start at different times; drop {{time}}")
    filled = Path(re.sub(r"{([^{}]*)}", lambda found: fields[found[1]], text))
    if filled != out:
        console.messages.print(f"--out {filled}", soft_wrap=True)
    return filled


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
    if not whole:
        lines += ["", f"All {len(settings)} settings: {program} --help-all. Files: docs/runs.md."]
    sys.stdout.write(visible("\n".join(lines) + "\n"))
