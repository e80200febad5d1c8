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

# `name as name` marks an explicit re-export, for mypy and ruff alike.
from wordle_rl.config.base import FIELDS_ONLY as FIELDS_ONLY
from wordle_rl.config.base import LARGEST_SEED as LARGEST_SEED
from wordle_rl.config.base import MOST_LAYERS as MOST_LAYERS
from wordle_rl.config.base import ConfigError as ConfigError
from wordle_rl.config.base import Section as Section
from wordle_rl.config.base import check_seed as check_seed
from wordle_rl.config.base import section_of as section_of
from wordle_rl.config.base import seed_after as seed_after
from wordle_rl.config.evaluation import BackendName as BackendName
from wordle_rl.config.evaluation import Constrain as Constrain
from wordle_rl.config.evaluation import EngineName as EngineName
from wordle_rl.config.evaluation import EvalSettings as EvalSettings
from wordle_rl.config.evaluation import PatienceSettings as PatienceSettings
from wordle_rl.config.evaluation import Variant as Variant
from wordle_rl.config.evaluation import evaluation_name as evaluation_name
from wordle_rl.config.files import PRESETS_DIRECTORY as PRESETS_DIRECTORY
from wordle_rl.config.files import describe as describe
from wordle_rl.config.files import load_config as load_config
from wordle_rl.config.files import stored_config as stored_config
from wordle_rl.config.model import GameSettings as GameSettings
from wordle_rl.config.model import LoraSettings as LoraSettings
from wordle_rl.config.model import ModelSettings as ModelSettings
from wordle_rl.config.model import WordSettings as WordSettings
from wordle_rl.config.rl import ALGORITHM_NAMES as ALGORITHM_NAMES
from wordle_rl.config.rl import MODEL_NAMES as MODEL_NAMES
from wordle_rl.config.rl import TRAININGS as TRAININGS
from wordle_rl.config.rl import DistillTraining as DistillTraining
from wordle_rl.config.rl import DPOTraining as DPOTraining
from wordle_rl.config.rl import ExpertIterationTraining as ExpertIterationTraining
from wordle_rl.config.rl import GRPOSettings as GRPOSettings
from wordle_rl.config.rl import GRPOTraining as GRPOTraining
from wordle_rl.config.rl import RLSettings as RLSettings
from wordle_rl.config.rl import RLTraining as RLTraining
from wordle_rl.config.rl import RoundTraining as RoundTraining
from wordle_rl.config.rl import StartSettings as StartSettings
from wordle_rl.config.rl import Training as Training
from wordle_rl.config.run import RunConfig as RunConfig
from wordle_rl.config.run import RunStage as RunStage
from wordle_rl.config.run import Setting as Setting
from wordle_rl.config.run import every_setting as every_setting
from wordle_rl.config.teachers import LLMTeacherSettings as LLMTeacherSettings
from wordle_rl.config.teachers import TeacherSettings as TeacherSettings
from wordle_rl.config.teachers import TraceSettings as TraceSettings
from wordle_rl.config.teachers import served_name as served_name
from wordle_rl.config.training import FixedRewardSettings as FixedRewardSettings
from wordle_rl.config.training import OptimizerSettings as OptimizerSettings
from wordle_rl.config.training import Precision as Precision
from wordle_rl.config.training import RewardSettings as RewardSettings
from wordle_rl.config.training import RLOptimizerSettings as RLOptimizerSettings
from wordle_rl.config.training import SamplingSettings as SamplingSettings
from wordle_rl.config.training import SFTOptimizerSettings as SFTOptimizerSettings
from wordle_rl.config.training import SFTTraining as SFTTraining
from wordle_rl.config.training import check_vllm_temperature as check_vllm_temperature
