"""Model directories: which one a path means, and the settings stored with it. Nothing is loaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

from wordle_rl.config import ConfigError, GameSettings, ModelSettings, RunConfig, stored_config
from wordle_rl.runs import is_run, trained_model
from wordle_rl.runs.lineage import lineage_of
from wordle_rl.samplers.simple import PLAYER_NAMES


def find_model(path: Path) -> Path:
    """The model directory meant by a path: itself, or the last trained model of a run.

    Raises:
        ConfigError: If there is no model there.
    """
    if (model := trained_model(path)) is not None:
        return model
    if path.is_dir():
        raise ConfigError(f"{path} holds no trained model; train one with `wordle-rl run`, or name another directory")
    raise ConfigError(f"no model or run directory {str(path)!r}; name what `wordle-rl run` wrote, or a model in it")


def weights_mark(model_directory: Path) -> str:
    """Mark that changes with a model's weights: a hash of sizes and times of its files, which are not read."""
    files = sorted(model_directory.glob("*.safetensors"))
    facts = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def game_of(model_directory: Path) -> GameSettings | None:
    """The game settings stored with a model, if it was trained here.

    Raises:
        ConfigError: If the file is damaged.
    """
    lineage = lineage_of(model_directory)
    return lineage.game if lineage is not None else None


def settings_of(model_directory: Path) -> ModelSettings:
    """Settings that load a model: those of its run (dtype, 4 bits); elsewhere the defaults.

    Raises:
        ConfigError: If the run's settings are damaged.
    """
    run = run_around(model_directory)
    settings = run.model if run is not None else ModelSettings()
    return settings.model_copy(update={"path": str(model_directory)})


def run_around(model_directory: Path) -> RunConfig | None:
    """The settings of the run that contains a model, at any depth; None if none does."""
    run = run_directory_around(model_directory)
    return stored_config(run / "config.json") if run is not None else None


def run_directory_around(model_directory: Path) -> Path | None:
    """The run that a model lies in, however deep, if it lies in one; of a run's directory that itself."""
    place = model_directory.resolve()
    return next((parent for parent in (place, *place.parents) if is_run(parent)), None)


def is_model(player: str) -> bool:
    """True if a player's name means a model or run directory."""
    return player not in (*PLAYER_NAMES, "human") and not player.startswith("openai:")
