"""Every setting: frozen pydantic models, read from TOML, overridden on the command line, stored as JSON.

run.py          `RunConfig`: all sections of a run, and whether they go together
model.py        words, rules and wording, the model
teachers.py     teacher games
training.py     SFT, and what it has in common with RL: optimizer, sampling, reward
rl.py           [rl], and the section of each algorithm
rl_training.py  both as one value, which training functions take
evaluation.py   evaluation, in a run and of endpoints
engine.py       the vLLM engine colocated with a training
files.py        load_config(), stored_config(): files, options, faults in one line
context.py      `GameContext`: words, split, prompts and solver of a config
"""

from wordle_rl.config.base import LARGEST_SEED, ConfigError, Section, check_seed, fields_only, section_of, seed_after
from wordle_rl.config.engine import BackendName, EngineName, VLLMSettings
from wordle_rl.config.evaluation import (
    Constrain,
    EvalSettings,
    PatienceSettings,
    PlayerEvalSettings,
    PlaySettings,
    PrefixChoice,
    Variant,
    evaluation_name,
)
from wordle_rl.config.files import describe, load_config, stored_config
from wordle_rl.config.model import GameSettings, LoraSettings, ModelSettings, WordSettings
from wordle_rl.config.rl import (
    ALGORITHM_NAMES,
    MODEL_NAMES,
    Algorithm,
    DistillSettings,
    DPOSettings,
    ExpertIterationSettings,
    GRPOSettings,
    RLSettings,
    RoundSettings,
    StartSettings,
)
from wordle_rl.config.rl_training import (
    TRAININGS,
    DistillTraining,
    DPOTraining,
    ExpertIterationTraining,
    GRPOTraining,
    RLTraining,
    RoundTraining,
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
    SFTSettings,
    TokenSampling,
)

__all__ = [
    "ALGORITHM_NAMES",
    "LARGEST_SEED",
    "MODEL_NAMES",
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
    "PlaySettings",
    "PlayerEvalSettings",
    "Precision",
    "PrefixChoice",
    "RLOptimizerSettings",
    "RLSettings",
    "RLTraining",
    "RewardSettings",
    "RoundSettings",
    "RoundTraining",
    "RunConfig",
    "RunStage",
    "SFTSettings",
    "SamplingSettings",
    "Section",
    "ServedName",
    "Setting",
    "StartSettings",
    "TeacherSettings",
    "TokenSampling",
    "TraceSettings",
    "Training",
    "VLLMSettings",
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
