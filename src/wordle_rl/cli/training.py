"""Arguments of `run`, `sft`, `grpo` and `preflight`: a config file, and any of its settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro

from wordle_rl.cli.options import STYLE, Json
from wordle_rl.cli.preflight import preflight_run
from wordle_rl.cli.refusals import plain_refusals
from wordle_rl.cli.run import run_chain
from wordle_rl.config import ConfigError, RunConfig, RunStage, load_config, own_weights, two_rewards

DESCRIPTIONS = {
    "run": "The whole chain: teacher games, SFT, GRPO (or what --algorithm names), evaluation, report.",
    "sft": "The chain up to supervised fine-tuning.",
    "grpo": "The chain up to GRPO.",
    "preflight": "Whether a run will work: chat template, stop tokens, budgets, memory, a few games; trains nothing.",
}


@dataclass(frozen=True)
class StageArguments:
    """Where a run goes, and any setting of its config."""

    out: Path
    """The run directory. A run with the same settings goes on where it stopped."""
    overwrite: bool = False
    """Remove an earlier run in that directory first."""
    as_json: Json = False
    config: Annotated[RunConfig, tyro.conf.arg(name="")] = RunConfig()
    """Settings; they override the config file."""


@dataclass(frozen=True)
class RunArguments(StageArguments):
    """The same, and how far the run goes."""

    until: RunStage = "report"
    """The last stage to run."""


@dataclass(frozen=True)
class PreflightArguments:
    """How closely to look, and any setting of the run's config."""

    groups: int = 4
    """Groups of games the model plays; 0: none, so that its weights are not needed."""
    as_json: Json = False
    config: Annotated[RunConfig, tyro.conf.arg(name="")] = RunConfig()
    """Settings; they override the config file."""


Arguments = TypeVar("Arguments", StageArguments, RunArguments, PreflightArguments)


def run_config(arguments: list[str]) -> None:
    """`run CONFIG.toml --out DIR [--sft.epochs 2 …]`: the whole chain, or up to `--until`."""
    path, base, options = _config_file(arguments)
    parsed = _parse("run", RunArguments(_directory(path), config=base), options)
    run_chain(parsed.config, parsed.out, parsed.overwrite, parsed.until, parsed.as_json)


def stage_config(arguments: list[str], last: Literal["sft", "grpo"]) -> None:
    """`sft CONFIG.toml --out DIR [--sft.epochs 2 …]`: the chain up to a stage."""
    path, base, options = _config_file(arguments)
    parsed = _parse(last, StageArguments(_directory(path), config=base), options)
    run_chain(parsed.config, parsed.out, parsed.overwrite, last, parsed.as_json)


def preflight_config(arguments: list[str]) -> None:
    """`preflight CONFIG.toml [--groups N] [--model.path DIR …]`: whether a run will work."""
    _, base, options = _config_file(arguments)
    parsed = _parse("preflight", PreflightArguments(config=base), options)
    if parsed.groups < 0:
        raise ConfigError(f"groups {parsed.groups} must not be negative; 0 plays no games")
    preflight_run(parsed.config, parsed.groups, parsed.as_json)


def _config_file(arguments: list[str]) -> tuple[Path | None, RunConfig, list[str]]:
    """The config file if one is named, its settings, and the options after it."""
    if not arguments or arguments[0].startswith("-"):
        return None, RunConfig(), arguments
    path, options = Path(arguments[0]), arguments[1:]
    base = load_config(path)
    _refuse_hidden_presets(path, base, options)
    return path, base, options


def _directory(path: Path | None) -> Path:
    """The run directory where none is named."""
    return Path("runs") / (path.stem if path else "run")


def _refuse_hidden_presets(path: Path, base: RunConfig, options: list[str]) -> None:
    """Refuse a preset for a reward that the config file gives weights of its own: they would count, not the preset."""
    names = {option.partition("=")[0].replace("_", "-") for option in options}
    for name, reward in own_weights(base).items():
        preset = f"--{name.replace('_', '-')}.reward.preset"
        if preset in names:
            raise ConfigError(two_rewards(preset, f"{name}.reward.weights of {path}", reward.weights))


def _parse(name: str, default: Arguments, options: list[str]) -> Arguments:
    with plain_refusals():
        return tyro.cli(
            type(default),
            prog=f"wordle-rl {name} [CONFIG.toml]",
            description=DESCRIPTIONS[name],
            default=default,
            args=options,
            config=STYLE,
        )
