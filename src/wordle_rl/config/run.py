"""Settings of a whole run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from wordle_rl.config.base import FIELDS_ONLY, LARGEST_SEED, Section
from wordle_rl.config.evaluation import BackendName, EvalSettings
from wordle_rl.config.model import GameSettings, ModelSettings, WordSettings
from wordle_rl.config.rl import (
    FOLLOWED_BY_SOME,
    FOLLOWS,
    TRAININGS,
    Algorithm,
    DistillSettings,
    DPOSettings,
    ExpertIterationSettings,
    GRPOSettings,
    RLSettings,
    Training,
)
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.config.training import FittingSettings, OptimizerSettings, SamplingSettings, SFTSettings, SFTTraining
from wordle_rl.game import Dictionary
from wordle_rl.prompt import Thinking

RunStage = Literal["traces", "sft", "grpo", "expert_iteration", "dpo", "distill", "report"]
"""Stages of a run."""
Setting = tuple[str, ...]
"""Path of a setting: its sections, then its name."""


class RunConfig(Section):
    """A whole run: words, teacher games, SFT, RL, evaluation."""

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
    backend: BackendName = "torch"
    """Library that holds, plays and trains the models: `torch`, or `mlx` for the GPU of a Mac. Both write the same run
    directory, and either plays the other's models."""
    algorithm: Algorithm = "grpo"
    """Algorithm after SFT. It uses [rl] and the section of its own name."""
    max_completion_tokens: int = Field(512, ge=1)
    """Token limit of a completion, thinking included, in RL and evaluation."""
    max_batch_size: int = Field(1024, ge=1)
    """Most games per forward pass in play, or requests at once to a server that plays GRPO's games. It limits
    activations; the key/value cache always holds all games in play."""
    rl: RLSettings = RLSettings()
    """Settings shared by GRPO, expert iteration, DPO and distillation. In a config file an algorithm's section may
    also hold them, for that algorithm only."""
    grpo: GRPOSettings = GRPOSettings()
    """Multi-turn GRPO."""
    expert_iteration: ExpertIterationSettings = ExpertIterationSettings()
    """Expert iteration."""
    dpo: DPOSettings = DPOSettings()
    """DPO on pairs of guesses."""
    distill: DistillSettings = DistillSettings()
    """Distillation of the solver teacher on boards of the policy's own games."""
    eval: EvalSettings = EvalSettings()
    """Evaluation."""
    seed: int = Field(0, ge=0, le=LARGEST_SEED)
    """Random seed of everything except the split."""
    report_to: tuple[str, ...] = ()
    """Experiment trackers for metrics and sample games: `trackio`, `wandb`, `tensorboard`; `trackio:USER/SPACE` shows
    them in a Hugging Face Space, created if missing."""
    report_project: str | None = None
    """Project in those trackers, or PROJECT/RUN to name the run too. None: the tracker's default project, and the name
    of the run directory. Each stage is a run of its own, ending in `-sft` or `-grpo`."""

    def check(self) -> None:
        """Check rules across sections."""
        self._check_teacher()
        self._check_shared()
        self._check_trackers()
        self.training.check()
        if not self.sft.epochs:
            self._check_without_sft()

    def _check_trackers(self) -> None:
        for name in self.report_to:
            if name not in ("trackio", "wandb", "tensorboard") and not name.startswith("trackio:"):
                raise ValueError(
                    f"report_to {name!r} is unknown; give trackio, trackio:USER/SPACE, wandb or tensorboard"
                )

    def _check_teacher(self) -> None:
        if self.traces.teacher.is_own:
            if self.algorithm == "distill":
                raise ValueError("distill learns the solver's guesses; remove traces.teacher.name")
            return
        if self.game.hard_mode and self.traces.teacher.plan == "probes":
            raise ValueError('game.hard_mode forbids the teacher\'s probes; set traces.teacher.plan to "classes"')
        if self.traces.slip_rate and self.game.dictionary is not Dictionary.STRICT:
            raise ValueError(f"traces.slip_rate is for the strict dictionary, not {self.game.dictionary}; set it to 0")
        if self.algorithm == "distill":
            self._check_thinking_teacher()

    def _check_thinking_teacher(self) -> None:
        if self.distill.teacher_model is not None:
            return  # it thinks in its own way
        is_required = self.game.thinking is Thinking.REQUIRED
        narrates = self.traces.narrate and self.game.thinking is not Thinking.OFF
        if self.distill.targets == "distribution" and (is_required or narrates):
            raise ValueError(
                "distill.targets 'distribution' labels guesses without thinking; set game.thinking to \"off\", or "
                'distill.targets to "guess"'
            )
        if is_required and not self.traces.narrate:
            raise ValueError("distill with game.thinking required needs the teacher's thinking; set traces.narrate")

    def _check_shared(self) -> None:
        for name in sorted(FOLLOWED_BY_SOME - FOLLOWS[self.algorithm]):
            if not self.rl.is_default(name):
                fit = " and ".join(each for each, followed in FOLLOWS.items() if name in followed)
                raise ValueError(f"rl.{name} is for {fit}, not for {self.algorithm}; remove it")
        names_secrets = self.algorithm == "expert_iteration" and self.expert_iteration.labels in ("secret", "mistakes")
        if names_secrets and self.game.thinking is not Thinking.OFF:
            raise ValueError(
                f"expert_iteration.labels {self.expert_iteration.labels!r} are guesses without thinking, so the model "
                'would forget to think; set game.thinking to "off"'
            )
        starts = self.rl.starts
        if starts.max_prefix_guesses >= self.game.max_turns:
            raise ValueError(
                f"rl.starts.max_prefix_guesses {starts.max_prefix_guesses} leaves no turn of {self.game.max_turns} to "
                "play; lower it"
            )

    def _check_without_sft(self) -> None:
        if self.training.is_skipped:
            raise ValueError(f"sft.epochs is 0 and {self.algorithm} is skipped, which leaves nothing to train")
        if self.model.path == "tiny":
            raise ValueError(
                "sft.epochs is 0 and model.path 'tiny' is untrained, so it would never win; name a trained model, or "
                "set sft.epochs above 0"
            )
        if self.traces.file is not None and not self.training.replay_fraction:
            raise ValueError("sft.epochs is 0, so nothing learns from traces.file; remove one of them")

    @property
    def trackers(self) -> tuple[str, ...]:
        """Names of the trackers, without Spaces."""
        return tuple(name.partition(":")[0] for name in self.report_to)

    @property
    def trackio_space(self) -> str | None:
        """Hugging Face Space for trackio, USER/SPACE, or None."""
        return next((name.partition(":")[2] for name in self.report_to if name.startswith("trackio:")), None)

    @property
    def start(self) -> Literal["base", "sft"]:
        """Model that learning by play starts from: the SFT model, or without SFT that of `model.path`."""
        return "sft" if self.sft.epochs else "base"

    def start_settings(self, directory: Path) -> ModelSettings:
        """Return the settings of the model that learning by play starts from."""
        return self.model_at(directory / "sft") if self.start == "sft" else self.model

    def model_at(self, directory: Path) -> ModelSettings:
        """Return the settings of a trained model, loaded as this run loads its models."""
        return self.model.model_copy(update={"path": str(directory)})

    @property
    def trained(self) -> tuple[RunStage, ...]:
        """Stages that produce a model, in order."""
        sft: tuple[RunStage, ...] = ("sft",) if self.sft.epochs else ()
        return sft if self.training.is_skipped else (*sft, self.algorithm)

    @property
    def chain(self) -> tuple[RunStage, ...]:
        """All stages of this run, in order."""
        if self.sft.epochs:
            return ("traces", "sft", self.algorithm, "report")
        return ("traces", self.algorithm, "report") if self.training.replay_fraction else (self.algorithm, "report")

    @property
    def evaluated(self) -> tuple[str, ...]:
        """Models that the run evaluates: `base` (if asked for, or without SFT), then those it trained."""
        base = ("base",) if "base" in self.eval.also or self.start == "base" else ()
        return (*base, *self.trained)

    @property
    def sft_training(self) -> SFTTraining:
        """Full settings of SFT: [sft] plus the training settings of [model]."""
        values = {name: value for name, value in self.sft if name != "optimizer"}
        return SFTTraining(
            **values,
            **self._fitting,
            optimizer=OptimizerSettings(**dict(self.sft.optimizer)),
            max_length=self.model.max_length,
        )

    @property
    def training(self) -> Training:
        """Full settings of the algorithm: [rl], its section, [model] and `max_completion_tokens`."""
        kind = TRAININGS[self.algorithm]
        values: dict[str, Any] = {**dict(self.rl), **dict(getattr(self, self.algorithm)), **self._fitting}
        del values["temperature"]  # the policy's; distillation has a field of this name for the teacher's
        values["sampling"] = SamplingSettings(
            temperature=self.rl.temperature,
            max_batch_size=self.max_batch_size,
            max_completion_tokens=self.max_completion_tokens,
        )
        if self.algorithm == "expert_iteration":
            values["labels"], _, number = self.expert_iteration.labels.partition(":")
            values["keep_per_group"] = int(number or 1)
        known = {name: value for name, value in values.items() if name in kind.model_fields and value is not None}
        return kind.model_validate(known, context=FIELDS_ONLY)

    @property
    def _fitting(self) -> dict[str, Any]:
        return {name: getattr(self.model, name) for name in FittingSettings.model_fields}

    def stored(self) -> dict[str, Any]:
        """Return every setting in the form of a run's config.json."""
        return self.model_dump(mode="json")


def every_setting(section: BaseModel, place: Setting = ()) -> Iterator[tuple[Setting, FieldInfo, Any]]:
    """Yield name, field and value of the settings of a section and its nested sections."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from every_setting(value, (*place, name))
        else:
            yield (*place, name), field, value
