"""Find the model directory that a path or hub name means, and read the settings stored with it.

No weights are loaded. A hub model is downloaded once, to the cache of huggingface_hub.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import OldRunError, stored_config
from wordle_rl.config.model import GameSettings, ModelSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.policy.gguf import PACKAGED, converted, packaged_file
from wordle_rl.policy.scripted import PLAYER_NAMES, is_own_player
from wordle_rl.prompt import Style
from wordle_rl.runs import has_weights, is_run, trained_model
from wordle_rl.runs.lineage import LINEAGE_FILE, lineage_of

logger = logging.getLogger(__name__)

BUNDLED = "bundled"
"""Name of the embedded model as trained by the preset `imitation`, shipped in this package."""
_HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?")
_NOT_FETCHED = ("*.bin", "*.pt", "*.pth", "*.gguf", "*.onnx", "*.msgpack", "*.h5", "*.ot", "*/*")
"""Files of a hub repository that are not needed: other weight formats, and subdirectories."""


def find_model(path: Path) -> Path:
    """Return the model directory of a path: itself, the last trained model of a run, or a hub model.

    `smollm2`, `gemma-3-270m` and GGUF files give the directory they are converted to.
    """
    if is_converted(str(path)):
        return Path(converted_path(str(path)))
    if (model := trained_model(path)) is not None:
        if model != path:
            run_around(path)  # refuses a run that does not say which of its models is the last
        return model
    if path.is_dir():
        raise ConfigError(f"{path} holds no trained model; train one with `wordle-rl run`, or name another directory")
    if is_hub_name(str(path)):
        return _fetched(str(path))
    raise ConfigError(f"no model or run directory {str(path)!r}; name what `wordle-rl run` wrote, or a model in it")


def is_converted(path: str) -> bool:
    """Return True for `bundled`, GGUF files and models of packages, which stand for a directory elsewhere.

    Examples:
        >>> is_converted("smollm2"), is_converted("models/some.gguf"), is_converted("someone/smollm2")
        (True, True, False)
    """
    return (path in (*PACKAGED, BUNDLED) or Path(path).suffix.lower() == ".gguf") and not Path(path).is_dir()


def converted_path(path: str) -> str:
    """Return the directory of a model that `is_converted` knows, converted on first use; other paths as they are."""
    if not is_converted(path):
        return path
    if path == BUNDLED:
        return str(Path(__file__).parent / BUNDLED)
    file = packaged_file(path) if path in PACKAGED else Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"no model file {path}; name an existing one")
    return str(converted(file))


def at_directory(settings: ModelSettings) -> ModelSettings:
    """Apply `converted_path` to the path of some settings."""
    path = converted_path(settings.path)
    return settings if path == settings.path else settings.model_copy(update={"path": path})


def is_hub_name(name: str) -> bool:
    """Return True if a name can only be a hub model, USER/NAME or USER/NAME@REVISION, not a local directory.

    Examples:
        >>> is_hub_name("somebody/wordle-grpo"), is_hub_name("runs/quickstart"), is_hub_name("nobody")
        (True, False, False)
    """
    if not _HUB_NAME.fullmatch(name) or is_converted(name):
        return False
    first = name.split("/")[0]
    return first not in (".", "..", "runs") and not Path(first).exists() and not Path(name).exists()


@contextmanager
def retries_in_one_line() -> Iterator[None]:
    """Let huggingface_hub say once, not twice a retry, that the hub does not answer."""
    from huggingface_hub.utils import logging as hub_logging

    handlers = hub_logging.get_logger().handlers
    for handler in handlers:
        handler.addFilter(_first_retry)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_first_retry)


def _first_retry(record: logging.LogRecord) -> bool:
    said = record.getMessage()
    if said.startswith("Retrying in") and "[Retry 1/" in said:
        record.msg, record.args = "the hub does not answer; trying again for half a minute", ()
        return True
    return not said.startswith("Retrying in") and "thrown while requesting" not in said


@lru_cache(maxsize=16)
def _fetched(name: str) -> Path:
    try:
        from huggingface_hub import errors, snapshot_download
    except ModuleNotFoundError:
        raise ConfigError('models of the hub need huggingface_hub: pip install "wordle-rl[train]"') from None
    repo, _, revision = name.partition("@")
    try:
        with retries_in_one_line():
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
    if not has_weights(place):
        raise ConfigError(f"{name} of the hub holds no weights in safetensors; name another model")
    if (game := game_of(place)) is not None and not isinstance(game.style, Style):
        raise ConfigError(
            f"{name} of the hub was trained with game.style {game.style!r}, and code named by a hub model is not "
            "imported; download it and name its directory"
        )
    return place


def described_at(path: str, *, cached: bool = False) -> Path:
    """Return the directory with the files that say how a model of some settings (`model.path`) was trained.

    Those of a hub model are downloaded; where the hub has none, the model was not trained here. If the hub gives no
    answer, it counts as not trained here, with a warning. `cached`: look only for what was downloaded before.
    """
    if not is_hub_name(path):
        return Path(converted_path(path))
    from huggingface_hub import errors, hf_hub_download

    repo, _, revision = path.partition("@")
    try:
        with retries_in_one_line():
            file = hf_hub_download(repo, LINEAGE_FILE, revision=revision or None, local_files_only=cached)
            return Path(file).parent
    except errors.EntryNotFoundError as error:
        # Its own subclass says that the file is not in the cache and the hub could not be asked.
        unanswered = isinstance(error, errors.LocalEntryNotFoundError)
    except (errors.HTTPError, ConnectionError):  # type: ignore[attr-defined]  # of the HTTP library it uses
        unanswered = True
    if unanswered and not cached:
        _warn_of_no_answer(path)
    return Path(path)


@lru_cache  # a run asks for its validation and again for its first stage
def _warn_of_no_answer(path: str) -> None:
    logger.warning("the hub did not say how %s was trained, so it counts as never trained on this game", path)


def weights_mark(model_directory: Path) -> str:
    """Return a hash that changes with a model's weights, from sizes and times of its files without reading them."""
    files = sorted(model_directory.glob("*.safetensors"))
    facts = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def game_of(model_directory: Path) -> GameSettings | None:
    """Return the game settings stored with a model that was trained here, else those of the run around it, or None."""
    lineage = lineage_of(model_directory)
    if lineage is not None:
        return lineage.game
    run = run_around(model_directory) if model_directory.is_dir() else None
    return run.game if run is not None else None


def settings_of(model_directory: Path) -> ModelSettings:
    """Return settings to load a model: its run's (dtype, 4 bits), or for an outside model the stored type."""
    run = run_around(model_directory)
    if run is not None:
        settings = run.model
    else:
        settings = ModelSettings(dtype="auto" if lineage_of(model_directory) is None else "float32")
    return settings.model_copy(update={"path": str(model_directory)})


def run_around(model_directory: Path) -> RunConfig | None:
    """Return the settings of the run that contains `model_directory`, or None."""
    run = run_directory_around(model_directory)
    if run is None:
        return None
    try:
        return stored_config(run / "config.json")
    except OldRunError:
        if run == model_directory.resolve():
            raise
        return None  # its models say themselves how they are played


def run_directory_around(model_directory: Path) -> Path | None:
    """Return the run directory that contains `model_directory` (or is it), or None."""
    place = model_directory.resolve()
    return next((parent for parent in (place, *place.parents) if is_run(parent)), None)


def is_model(player: str) -> bool:
    """Return True if a player's name means a model or run directory."""
    return player not in (*PLAYER_NAMES, "human") and not player.startswith("openai:") and not is_own_player(player)
