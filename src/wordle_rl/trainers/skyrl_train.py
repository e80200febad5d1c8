"""GRPO under SkyRL: run its trainer on our games, as `scripts/skyrl` does.

    python -m wordle_rl.trainers.skyrl_train CONFIG.yaml [KEY=VALUE ...]

SkyRL refuses unknown keys, so our environment's section is added to its configuration here. The data files are written
with the games of training and validation secrets, and the environment is registered in the process of the trainer.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from skyrl.train.config import EnvironmentConfig, SkyRLGymConfig, SkyRLTrainConfig

from wordle_rl.config import ConfigError
from wordle_rl.runs.files import write_jsonl
from wordle_rl.trainers.games import LoopSettings
from wordle_rl.trainers.skyrl import ENV_ID, dataset_rows, register

# SkyRL needs the types of fields as objects, so this file does not postpone annotations.


@dataclass
class WordleGymConfig(SkyRLGymConfig):
    """SkyRL's environments plus ours."""

    wordle: dict[str, Any] = field(default_factory=dict)
    """`LoopSettings`: words, rules, wording and reward."""


@dataclass
class WordleEnvironmentConfig(EnvironmentConfig):
    """SkyRL's section `environment` with `WordleGymConfig`."""

    env_class: str = ENV_ID
    skyrl_gym: WordleGymConfig = field(default_factory=WordleGymConfig)


@dataclass
class WordleTrainConfig(SkyRLTrainConfig):
    """SkyRL's configuration with our environment's section."""

    environment: WordleEnvironmentConfig = field(default_factory=WordleEnvironmentConfig)


def load_config(path: Path, overrides: Sequence[str] = ()) -> WordleTrainConfig:
    """Read YAML under SkyRL's names, with overrides `a.b.c=value`."""
    merged = OmegaConf.merge(OmegaConf.load(path), OmegaConf.from_cli(list(overrides)))
    config: WordleTrainConfig = WordleTrainConfig.from_dict_config(merged)
    turns = loop_settings(config).game.rules.max_replies
    if config.generator.max_turns < turns:
        raise ConfigError(
            f"generator.max_turns {config.generator.max_turns} cuts off games of up to {turns} replies; set it to "
            f"{turns}"
        )
    # Ray's workers have a working directory of their own.
    config.data.train_data = [_absolute(path) for path in config.data.train_data]
    config.data.val_data = [_absolute(path) for path in config.data.val_data]
    config.trainer.ckpt_path = _absolute(config.trainer.ckpt_path)
    config.trainer.export_path = _absolute(config.trainer.export_path)
    return config


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).absolute())


def loop_settings(config: WordleTrainConfig) -> LoopSettings:
    """Return words, rules, wording and reward of a configuration."""
    return LoopSettings.model_validate(config.environment.skyrl_gym.wordle)


def write_data(config: WordleTrainConfig) -> None:
    """Write the games for the trainer, each named by its place in the split."""
    settings = loop_settings(config)
    files = {"train": config.data.train_data, "val": config.data.val_data}
    for split, paths in files.items():
        if len(paths) != 1 or not paths[0].endswith(".jsonl"):
            raise ConfigError(f"data.{split}_data is {paths}, not one file of JSON lines; name one that ends in .jsonl")
        path = Path(paths[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(path, dataset_rows(settings, split))


def train(config: WordleTrainConfig) -> None:
    """Train in a Ray task, as SkyRL does."""
    import ray
    from skyrl.train.utils import validate_cfg
    from skyrl.train.utils.utils import initialize_ray

    validate_cfg(config)
    initialize_ray(config)
    ray.get(ray.remote(num_cpus=1)(run_experiment).remote(config))


def run_experiment(config: WordleTrainConfig) -> None:
    """Run SkyRL's experiment with our environment."""
    from skyrl.train.entrypoints.main_base import BasePPOExp

    register()
    BasePPOExp(config).run()


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the data and train."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments:
        raise SystemExit("usage: python -m wordle_rl.trainers.skyrl_train CONFIG.yaml [KEY=VALUE ...]")
    config = load_config(Path(arguments[0]), arguments[1:])
    write_data(config)
    train(config)


if __name__ == "__main__":
    main()
