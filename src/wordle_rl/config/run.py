"""A whole run's settings, and reading them from TOML or JSON."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from wordle_rl.config.base import LARGEST_SEED, ConfigError, Section
from wordle_rl.config.evaluation import EvalSettings
from wordle_rl.config.model import GameSettings, ModelSettings, WordSettings
from wordle_rl.config.rl import (
    ALGORITHM_NAMES,
    Algorithm,
    DaggerSettings,
    DPOSettings,
    ExpertIterationSettings,
    GRPOSettings,
)
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.config.training import RewardSettings, SFTSettings, two_rewards
from wordle_rl.game import Dictionary
from wordle_rl.prompt import Shape, Thinking

RunStage = Literal["traces", "sft", "grpo", "expert_iteration", "dpo", "dagger", "report"]
"""Stages of a run."""
Setting = tuple[str, ...]
"""A setting: the sections it lies in, and its own name."""


class RunConfig(Section):
    """A whole run: words, teacher games, SFT, learning by play, evaluation."""

    words: WordSettings = WordSettings()
    """Word lists and split."""
    game: GameSettings = GameSettings()
    """Rules and wording."""
    model: ModelSettings = ModelSettings()
    """The model."""
    traces: TraceSettings = TraceSettings()
    """Teacher games."""
    sft: SFTSettings = SFTSettings()
    """Supervised fine-tuning."""
    algorithm: Algorithm = "grpo"
    """Algorithm of learning by play after SFT; the section of that name has its settings."""
    grpo: GRPOSettings = GRPOSettings()
    """Multi-turn GRPO."""
    expert_iteration: ExpertIterationSettings = ExpertIterationSettings()
    """Expert iteration."""
    dpo: DPOSettings = DPOSettings()
    """DPO on pairs of guesses."""
    dagger: DaggerSettings = DaggerSettings()
    """DAgger."""
    starts_file: Path | None = None
    """Learning by play, whichever the algorithm, starts some groups from the boards of this file of `wordle-rl import
    --format grpo`, or of the `_rl_start_states.jsonl` of `wordle-rl dataset`. Left out and counted are boards of
    validation and test secrets, boards that are over or break the rules of the run, and, where only wins teach, boards
    whose secret is no answer."""
    starts_share: float = Field(0.5, gt=0, le=1)
    """Share of groups that start from a board of starts_file, each board as likely as another. The others are drawn as
    without a file."""
    eval: EvalSettings = EvalSettings()
    """Evaluation."""
    seed: int = Field(0, ge=0, le=LARGEST_SEED)
    """Seed of everything drawn at random, the split excepted."""
    report_to: tuple[Literal["trackio", "wandb", "tensorboard"], ...] = ()
    """Trackers: training metrics and the sample games of GRPO go beside metrics.jsonl and games.jsonl."""

    @model_validator(mode="after")
    def _teacher_fits_the_game(self) -> Self:
        if self.game.hard_mode and self.traces.teacher.stray_rate > 0:
            raise ValueError("game.hard_mode forbids the teacher's stray guesses; set traces.teacher.stray_rate to 0")
        if self.game.hard_mode and self.traces.teacher.probe_gain:
            raise ValueError("game.hard_mode forbids the teacher's probes; set traces.teacher.probe_gain to 0")
        if self.traces.slip_rate and self.game.dictionary is not Dictionary.STRICT:
            raise ValueError(f"traces.slip_rate is for the strict dictionary, not {self.game.dictionary}; set it to 0")
        if self.traces.teacher.max_turns > self.game.max_turns:
            raise ValueError(
                f"traces.teacher.max_turns {self.traces.teacher.max_turns} exceeds game.max_turns {self.game.max_turns}"
            )
        if self.algorithm == "dagger" and self.game.thinking is Thinking.REQUIRED and not self.traces.narrate:
            raise ValueError("game.thinking required leaves the teacher of dagger speechless; set traces.narrate")
        return self

    @model_validator(mode="after")
    def _learning_fits_the_run(self) -> Self:
        grpo = self.grpo
        several = grpo.credit != "game" and grpo.turn_candidates == 1 and self.game.shape is Shape.TRANSCRIPT
        if grpo.sequence_importance and several:
            raise ValueError(
                f"grpo.sequence_importance would average the advantages of credit {grpo.credit!r} over each game; "
                'set grpo.credit to "game"'
            )
        if self.starts_file is None and self.starts_share != RunConfig.model_fields["starts_share"].default:
            raise ValueError("starts_share is a share of groups from starts_file; set starts_file, or leave it out")
        if self.starts_file is not None and self.play_settings.is_skipped:
            raise ValueError(f"starts_file is for {self.algorithm}, which is skipped; leave one of them out")
        if not self.sft.epochs:
            self._check_without_sft()
        for name in ALGORITHM_NAMES:
            max_given = getattr(self, name).max_given
            if max_given >= self.game.max_turns:
                raise ValueError(f"{name}.max_given {max_given} leaves none of {self.game.max_turns} turns to play")
        return self

    def _check_without_sft(self) -> None:
        if self.play_settings.is_skipped:
            raise ValueError(f"sft.epochs is 0 and {self.algorithm} is skipped, which leaves nothing to train")
        if self.model.path == "tiny":
            raise ValueError(
                "sft.epochs is 0 and model.path 'tiny' was never trained, so it would win nothing to learn from; name "
                "a trained model, or set sft.epochs above 0"
            )
        if self.traces.file is not None and not self.play_settings.replays:
            raise ValueError("sft.epochs is 0, so nothing learns the games of traces.file; leave one of them out")

    @property
    def start(self) -> Literal["base", "sft"]:
        """Start of learning by play: the SFT model, or without SFT the model of `model.path`."""
        return "sft" if self.sft.epochs else "base"

    def start_settings(self, directory: Path) -> ModelSettings:
        """Settings of the model that learning by play starts from, in a run's directory or outside it."""
        return self.model_at(directory / "sft") if self.start == "sft" else self.model

    def model_at(self, directory: Path) -> ModelSettings:
        """A trained model, held as this run holds its models."""
        return self.model.model_copy(update={"path": str(directory)})

    @property
    def trained(self) -> tuple[RunStage, ...]:
        """The stages that leave a model, in their order."""
        sft: tuple[RunStage, ...] = ("sft",) if self.sft.epochs else ()
        return sft if self.play_settings.is_skipped else (*sft, self.algorithm)

    @property
    def chain(self) -> tuple[RunStage, ...]:
        """All stages of this run, in their order."""
        if self.sft.epochs:
            return ("traces", "sft", self.algorithm, "report")
        return ("traces", self.algorithm, "report") if self.play_settings.replays else (self.algorithm, "report")

    @property
    def evaluated(self) -> tuple[str, ...]:
        """The models that the run evaluates: `base`, if asked for or trained without SFT, and those it trained."""
        base = ("base",) if self.eval.base or self.start == "base" else ()
        return (*base, *self.trained)

    @property
    def play_settings(self) -> GRPOSettings | ExpertIterationSettings | DPOSettings | DaggerSettings:
        """The settings of the chosen algorithm."""
        settings: GRPOSettings | ExpertIterationSettings | DPOSettings | DaggerSettings = getattr(self, self.algorithm)
        return settings


def load_config(path: Path | None, options: Mapping[Setting, Any] | None = None) -> RunConfig:
    """Read settings from TOML, or from the JSON that a run stores, and lay options over them.

    Args:
        path: The file; None: every setting that is no option has its default.
        options: Values that count more than those of the file. Both are validated together.

    Raises:
        ConfigError: If the file is missing or cannot be read, or a setting is unknown or impossible.
    """
    options = options or {}
    values = {} if path is None else _read(path)
    for setting, value in options.items():
        _lay_over(values, setting, value)
    source = partial(_source, path, options)
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        is_stored = path is not None and path.suffix == ".json" and any(source(f["loc"]) for f in error.errors())
        stored = "; it was stored by another version of wordle-rl, use that one" if is_stored else ""
        raise ConfigError(f"{describe(error, source)}{stored}") from None
    for name, reward in own_weights(config).items():
        stored_preset = path is not None and path.suffix == ".json" and (name, "reward", "preset") not in options
        if not stored_preset and "preset" in reward.model_fields_set:  # a run stores every setting
            fault = two_rewards(f"preset {reward.preset!r}", "weights", reward.weights)
            raise ConfigError(f"{source((name, 'reward'))}{name}.reward: {fault}")
    return config


def _read(path: Path) -> Any:
    parse = json.loads if path.suffix == ".json" else tomllib.loads
    try:
        return parse(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"no config file {path}; see configs/ for examples") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a directory; name a config file in it") from None
    except ValueError as error:  # both parsers' errors, and bytes that are no text
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _lay_over(values: Any, setting: Setting, value: Any) -> None:
    """Set one value, unless the file holds something else where a section should be, which is refused with the rest.

    A section that the file leaves out keeps the defaults that its place gives it.
    """
    section: Any = RunConfig
    for name in setting[:-1]:
        if not isinstance(values, dict):
            return
        default = section.model_fields[name].get_default()
        values = values.setdefault(name, default.model_dump(exclude_unset=True))
        section = type(default)
    if isinstance(values, dict):
        values[setting[-1]] = value


def _source(path: Path | None, options: Mapping[Setting, Any], loc: tuple[int | str, ...]) -> str:
    """Source of a fault, named before it; empty for an option, which its own name tells."""
    if path is None or any(loc[: len(setting)] == setting for setting in options):
        return ""
    has_option_below = any(setting[: len(loc)] == loc for setting in options)
    return f"{path} and options: " if has_option_below else f"{path}: "


def own_weights(config: RunConfig) -> dict[str, RewardSettings]:
    """The rewards that give weights instead of a preset, by algorithm."""
    rewards = {name: getattr(config, name).reward for name in ALGORITHM_NAMES}
    return {name: reward for name, reward in rewards.items() if reward.weights}


def describe(error: ValidationError, source: Callable[[tuple[int | str, ...]], str] = lambda _: "") -> str:
    """All faults of a validation in one line, each with the dotted name of its setting.

    Args:
        error: The validation's error.
        source: Where the setting of a fault comes from, told once for faults in a row of the same source.
    """
    faults, last = [], ""
    for fault in error.errors():
        name = ".".join(str(part) for part in fault["loc"]) or "config"
        start = "" if (found := source(fault["loc"])) == last else found
        last = found
        if fault["type"] == "extra_forbidden":
            faults.append(f"{start}unknown setting {name}{_nearest(fault['loc'])}")
        else:
            faults.append(f"{start}{name}: {fault['msg'].removeprefix('Value error, ')}")
    return "; ".join(faults)


def _nearest(loc: tuple[int | str, ...]) -> str:
    """A hint at the setting with the most similar name."""
    section: Any = RunConfig
    for part in loc[:-1]:
        section = section.model_fields[str(part)].annotation
    close = difflib.get_close_matches(str(loc[-1]), section.model_fields, n=1, cutoff=0.5)
    return f" (did you mean {'.'.join([*map(str, loc[:-1]), close[0]])}?)" if close else ""
