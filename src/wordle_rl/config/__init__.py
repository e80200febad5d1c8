"""Every setting: frozen pydantic models, read from TOML, overridden on the command line, stored as JSON.

run.py          `RunConfig`: all sections of a run, and checks across sections
model.py        words, rules and wording, the model
teachers.py     teacher games
training.py     SFT, and what it shares with RL: optimizer, sampling, reward
rl.py           [rl] and the section of each algorithm, and both merged for the training functions
evaluation.py   evaluation, in a run and of endpoints
files.py        load_config(), stored_config(): presets, files, overrides, errors in one line
context.py      `GameContext`: words, split, prompts and solver of a config
presets/        ready-made runs by name: `wordle-rl run quickstart`
"""

from wordle_rl.config.base import LARGEST_SEED, ConfigError, Section, check_seed, fields_only, section_of, seed_after
from wordle_rl.config.evaluation import (
    BackendName,
    Constrain,
    EngineName,
    EvalSettings,
    PatienceSettings,
    PrefixChoice,
    Variant,
    evaluation_name,
)
from wordle_rl.config.files import PRESETS_DIRECTORY, describe, load_config, stored_config
from wordle_rl.config.model import GameSettings, LoraSettings, ModelSettings, WordSettings
from wordle_rl.config.rl import (
    ALGORITHM_NAMES,
    MODEL_NAMES,
    TRAININGS,
    Algorithm,
    DistillSettings,
    DistillTraining,
    DPOSettings,
    DPOTraining,
    ExpertIterationSettings,
    ExpertIterationTraining,
    GRPOSettings,
    GRPOTraining,
    RLSettings,
    RLTraining,
    RoundTraining,
    StartSettings,
    Training,
)
from wordle_rl.config.run import RunConfig, RunStage, Setting, setting_names
from wordle_rl.config.teachers import LLMTeacherSettings, ServedName, TeacherSettings, TraceSettings, served_name
from wordle_rl.config.training import (
    FixedRewardSettings,
    OptimizerSettings,
    Precision,
    RewardSettings,
    RLOptimizerSettings,
    SamplingSettings,
    SFTOptimizerSettings,
    SFTSettings,
    SFTTraining,
)

__all__ = [
    "ALGORITHM_NAMES",
    "LARGEST_SEED",
    "MODEL_NAMES",
    "PRESETS_DIRECTORY",
    "TRAININGS",
    "Algorithm",
    "BackendName",
    "ConfigError",
    "Constrain",
    "DPOSettings",
    "DPOTraining",
    "DistillSettings",
    "DistillTraining",
    "EngineName",
    "EvalSettings",
    "ExpertIterationSettings",
    "ExpertIterationTraining",
    "FixedRewardSettings",
    "GRPOSettings",
    "GRPOTraining",
    "GameSettings",
    "LLMTeacherSettings",
    "LoraSettings",
    "ModelSettings",
    "OptimizerSettings",
    "PatienceSettings",
    "Precision",
    "PrefixChoice",
    "RLOptimizerSettings",
    "RLSettings",
    "RLTraining",
    "RewardSettings",
    "RoundTraining",
    "RunConfig",
    "RunStage",
    "SFTOptimizerSettings",
    "SFTSettings",
    "SFTTraining",
    "SamplingSettings",
    "Section",
    "ServedName",
    "Setting",
    "StartSettings",
    "TeacherSettings",
    "TraceSettings",
    "Training",
    "Variant",
    "WordSettings",
    "check_seed",
    "describe",
    "evaluation_name",
    "fields_only",
    "load_config",
    "section_of",
    "seed_after",
    "served_name",
    "setting_names",
    "stored_config",
]
