"""Every setting: frozen pydantic models, read from TOML, overridden on the command line, stored as JSON."""

from wordle_rl.config.base import LARGEST_SEED, ConfigError, Section, check_seed, seed_after
from wordle_rl.config.engine import EngineName, VLLMSettings
from wordle_rl.config.evaluation import Constrain, EvalSettings, PatienceSettings, PlayerEvalSettings, PlaySettings
from wordle_rl.config.model import GameSettings, LoraSettings, ModelSettings, WordSettings
from wordle_rl.config.rl import (
    ALGORITHM_NAMES,
    MODEL_NAMES,
    Algorithm,
    DaggerSettings,
    DPOSettings,
    ExpertIterationSettings,
    GRPOSettings,
    RoundSettings,
)
from wordle_rl.config.run import RunConfig, RunStage, Setting, describe, load_config, own_weights
from wordle_rl.config.teachers import LLMTeacherSettings, TeacherSettings, TraceSettings
from wordle_rl.config.training import (
    OptimizerSettings,
    Precision,
    RewardSettings,
    SamplingSettings,
    SFTSettings,
    two_rewards,
)

__all__ = [
    "ALGORITHM_NAMES",
    "LARGEST_SEED",
    "MODEL_NAMES",
    "Algorithm",
    "ConfigError",
    "Constrain",
    "DPOSettings",
    "DaggerSettings",
    "EngineName",
    "EvalSettings",
    "ExpertIterationSettings",
    "GRPOSettings",
    "GameSettings",
    "LLMTeacherSettings",
    "LoraSettings",
    "ModelSettings",
    "OptimizerSettings",
    "PatienceSettings",
    "PlaySettings",
    "PlayerEvalSettings",
    "Precision",
    "RewardSettings",
    "RoundSettings",
    "RunConfig",
    "RunStage",
    "SFTSettings",
    "SamplingSettings",
    "Section",
    "Setting",
    "TeacherSettings",
    "TraceSettings",
    "VLLMSettings",
    "WordSettings",
    "check_seed",
    "describe",
    "load_config",
    "own_weights",
    "seed_after",
    "two_rewards",
]
