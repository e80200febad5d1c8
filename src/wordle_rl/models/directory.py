"""Model directories: which one a path or a name of the hub means, and the settings stored with it.

No weights are loaded. A model of the hub is fetched into the cache of huggingface_hub, once.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from wordle_rl.config import ConfigError, GameSettings, ModelSettings, RunConfig, stored_config
from wordle_rl.models.gguf import converted_path, is_converted
from wordle_rl.prompt import Style
from wordle_rl.runs import is_run, trained_model
from wordle_rl.runs.lineage import lineage_of
from wordle_rl.samplers.simple import PLAYER_NAMES, is_own_player

_HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?")
_NOT_FETCHED = ("*.bin", "*.pt", "*.pth", "*.gguf", "*.onnx", "*.msgpack", "*.h5", "*.ot", "*/*")
"""Files of a repository that play has no use for: other formats of the weights, directories below."""


def find_model(path: Path) -> Path:
    """The model directory meant by a path: itself, the last trained model of a run, or a model of the hub.

    `smollm2` and a GGUF file mean the directory that they are converted into.

    Raises:
        ConfigError: If there is no model there.
    """
    if is_converted(str(path)):
        return Path(converted_path(str(path)))
    if (model := trained_model(path)) is not None:
        return model
    if path.is_dir():
        raise ConfigError(f"{path} holds no trained model; train one with `wordle-rl run`, or name another directory")
    if is_hub_name(str(path)):
        return _fetched(str(path))
    raise ConfigError(f"no model or run directory {str(path)!r}; name what `wordle-rl run` wrote, or a model in it")


def is_hub_name(name: str) -> bool:
    """True if a name that is no directory here can only be a model of the hub: USER/NAME, or USER/NAME@REVISION.

    Examples:
        >>> is_hub_name("somebody/wordle-grpo"), is_hub_name("runs/quickstart"), is_hub_name("nobody")
        (True, False, False)
    """
    if not _HUB_NAME.fullmatch(name) or is_converted(name):
        return False
    first = name.split("/")[0]
    return first not in (".", "..", "runs") and not Path(first).exists() and not Path(name).exists()


@lru_cache(maxsize=16)
def _fetched(name: str) -> Path:
    """The directory in the cache that holds a model of the hub.

    Raises:
        ConfigError: If there is no such model, or it cannot be fetched and was not before.
    """
    try:
        from huggingface_hub import errors, snapshot_download
    except ModuleNotFoundError:
        raise ConfigError('models of the hub need huggingface_hub: pip install "wordle-rl[train]"') from None
    repo, _, revision = name.partition("@")
    try:
        place = Path(snapshot_download(repo, revision=revision or None, ignore_patterns=list(_NOT_FETCHED)))
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
        raise ConfigError(
            f"no model or run directory {name!r}, and the hub has none of that name; a private one needs HF_TOKEN"
        ) from None
    except (errors.HTTPError, errors.LocalEntryNotFoundError, ConnectionError) as error:  # type: ignore[attr-defined]  # of the HTTP library it uses
        raise ConfigError(
            f"no model or run directory {name!r}, and the hub could not be reached ({type(error).__name__}); check the "
            "name or the network"
        ) from None
    if trained_model(place) is None:
        raise ConfigError(f"{name} of the hub holds no weights in safetensors; name another model")
    if (game := game_of(place)) is not None and not isinstance(game.style, Style):
        raise ConfigError(
            f"{name} of the hub was trained with game.style {game.style!r}, and the hub does not choose what is "
            "imported here; download it and name its directory"
        )
    return place


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
    """Settings that load a model: those of its run (dtype, 4 bits); of a model from elsewhere the type it is stored in.

    Raises:
        ConfigError: If the run's settings are damaged.
    """
    run = run_around(model_directory)
    if run is not None:
        settings = run.model
    else:
        settings = ModelSettings(dtype="auto" if lineage_of(model_directory) is None else "float32")
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
    return player not in (*PLAYER_NAMES, "human") and not player.startswith("openai:") and not is_own_player(player)
