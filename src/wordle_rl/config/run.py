"""Settings of a whole run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, overload

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from wordle_rl.config.base import LARGEST_SEED, Section
from wordle_rl.config.evaluation import BackendName, EvalSettings
from wordle_rl.config.model import GameSettings, ModelSettings, WordSettings
from wordle_rl.config.refusals import refused_settings
from wordle_rl.config.stages import (
    KIND_NAMES,
    STAGES,
    DistillSettings,
    DPOSettings,
    ExpertIterationSettings,
    GRPOSettings,
    Kind,
    PlaySettings,
    SFTSettings,
    check_stages,
    is_stage,
    kind_of,
)
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.config.training import SamplingSettings

Setting = tuple[str, ...]
"""Path of a setting: its sections, then its name."""


class RunConfig(Section):
    """A whole run: words, teacher games, stages of training, evaluation."""

    words: WordSettings = WordSettings()
    """Word lists and split."""
    game: GameSettings = GameSettings()
    """Rules and wording."""
    model: ModelSettings = ModelSettings()
    """The model."""
    traces: TraceSettings = TraceSettings()
    """Teacher games."""
    stages: tuple[str, ...] = ("sft", "grpo")
    """Stages of training, in order: `sft`, `grpo`, `expert_iteration`, `dpo`, `distill`. Each starts from the model of
    the one before, the first from `model.path`. A second one of a kind is `grpo_2`; its section holds what differs from
    [grpo]."""
    sft: SFTSettings = SFTSettings()
    """Supervised fine-tuning."""
    grpo: GRPOSettings = GRPOSettings()
    """Multi-turn GRPO."""
    expert_iteration: ExpertIterationSettings = ExpertIterationSettings()
    """Expert iteration."""
    dpo: DPOSettings = DPOSettings()
    """DPO on pairs of guesses."""
    distill: DistillSettings = DistillSettings()
    """Distillation of a teacher on boards of the policy's own games."""
    backend: BackendName = "torch"
    """Library that holds, plays and trains the models: `torch`, or `mlx` for the GPU of a Mac. Both write the same run
    directory, and either plays the other's models."""
    max_completion_tokens: int = Field(512, ge=1)
    """Token limit of a completion, thinking included, in learning by play and in evaluation."""
    max_batch_size: int = Field(1024, ge=1)
    """Most games per forward pass in play, or requests at once to a server that plays GRPO's games. It limits
    activations; the key/value cache always holds all games in play."""
    eval: EvalSettings = EvalSettings()
    """Evaluation."""
    seed: int = Field(0, ge=0, le=LARGEST_SEED)
    """Random seed of everything except the split."""
    report_to: tuple[str, ...] = ()
    """Experiment trackers for metrics and sample games: `trackio`, `wandb`, `tensorboard`; `trackio:USER/SPACE` shows
    them in a Hugging Face Space, created if missing."""
    report_project: str | None = None
    """Project in those trackers, or PROJECT/RUN to name the run too. None: the tracker's default project, and the name
    of the run directory. Each stage is a run of its own, ending in its name, such as `-sft` or `-grpo`."""

    def check(self) -> None:
        """Check the stages, the trackers, and rules across sections."""
        check_stages(self.stages)
        if missing := [stage for stage in self.stages if stage not in type(self).model_fields]:
            raise ValueError(f"{missing[0]} has no section; read the settings with load_config, which makes it")
        for name in self.report_to:
            if name not in ("trackio", "wandb", "tensorboard") and not name.startswith("trackio:"):
                raise ValueError(
                    f"report_to {name!r} is unknown; give trackio, trackio:USER/SPACE, wandb or tensorboard"
                )
        if refused := "; ".join(refused_settings(self)):
            raise ValueError(refused)

    # --- stages ---

    def settings_of(self, stage: str) -> Any:
        """Return the section of a stage: an instance of its kind's class in `config.stages.STAGES`."""
        return getattr(self, stage)

    @overload
    def stages_of(self, kind: None = None) -> list[tuple[str, PlaySettings]]: ...
    @overload
    def stages_of(self, kind: Kind) -> list[tuple[str, Any]]: ...
    def stages_of(self, kind: Kind | None = None) -> list[tuple[str, Any]]:
        """Return name and section of the stages of a kind, in order; without a kind, of those that learn by play."""
        # A stored run may name a stage that this version does not know; such a run is only read.
        wanted = [stage for stage in self.stages if is_stage(stage) and kind in (None, kind_of(stage))]
        found = [(stage, self.settings_of(stage)) for stage in wanted]
        return found if kind else [(stage, own) for stage, own in found if isinstance(own, PlaySettings)]

    @property
    def needs_traces(self) -> bool:
        """True if a stage learns from the teacher's games."""
        return any(kind_of(stage) == "sft" for stage in self.stages) or any(own.replays for _, own in self.stages_of())

    @property
    def chain(self) -> tuple[str, ...]:
        """All parts of this run, in order: `traces` if a stage needs them, the stages, `report`."""
        return (*(("traces",) if self.needs_traces else ()), *self.stages, "report")

    @property
    def evaluated(self) -> tuple[str, ...]:
        """Models that the run evaluates: `base` (if asked for, or if SFT is not the first stage), then each stage's."""
        base = ("base",) if "base" in self.eval.also or kind_of(self.stages[0]) != "sft" else ()
        return (*base, *self.stages)

    def start_of(self, stage: str, directory: Path) -> ModelSettings:
        """Return the settings of the model that a stage of the run in `directory` starts from."""
        place = self.stages.index(stage)
        return self.model_at(directory / self.stages[place - 1]) if place else self.model

    def seed_of(self, stage: str) -> int:
        """Return the seed of a stage: that of the run, and one of its own for each further stage of a kind."""
        return self.seed if stage in KIND_NAMES else random.Random(f"{self.seed}:{stage}").getrandbits(32)

    def model_at(self, directory: Path) -> ModelSettings:
        """Return the settings of a trained model, loaded as this run loads its models."""
        return self.model.model_copy(update={"path": str(directory)})

    @property
    def sampling(self) -> SamplingSettings:
        """How policies of this run sample, at temperature 1."""
        return SamplingSettings(max_batch_size=self.max_batch_size, max_completion_tokens=self.max_completion_tokens)

    # --- trackers ---

    @property
    def trackers(self) -> tuple[str, ...]:
        """Names of the trackers, without Spaces."""
        return tuple(name.partition(":")[0] for name in self.report_to)

    @property
    def trackio_space(self) -> str | None:
        """Hugging Face Space for trackio, USER/SPACE, or None."""
        return next((name.partition(":")[2] for name in self.report_to if name.startswith("trackio:")), None)

    def stored(self) -> dict[str, Any]:
        """Return every setting in the form of a run's config.json."""
        return self.model_dump(mode="json")


def config_class(stages: object) -> type[RunConfig]:
    """Return the class of a run's settings: `RunConfig`, with a section for each numbered stage such as `grpo_2`."""
    named = stages if isinstance(stages, Sequence) and not isinstance(stages, str) else ()
    numbered = {name for name in named if isinstance(name, str) and is_stage(name) and name not in KIND_NAMES}
    return _config_class(tuple(sorted(numbered)))


@cache
def _config_class(numbered: tuple[str, ...]) -> type[RunConfig]:
    # Only stages beyond the first of their kind need a section that the base class has not. One class for the same
    # ones: settings of different classes are never equal.
    if not numbered:
        return RunConfig
    kinds = {stage: STAGES[kind_of(stage)] for stage in numbered}
    fields: dict[str, Any] = {stage: (kind, kind()) for stage, kind in kinds.items()}
    return create_model("RunConfig", __base__=RunConfig, **fields)


def every_setting(section: BaseModel, place: Setting = ()) -> Iterator[tuple[Setting, FieldInfo, Any]]:
    """Yield name, field and value of the settings of a section and its nested sections."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from every_setting(value, (*place, name))
        else:
            yield (*place, name), field, value
