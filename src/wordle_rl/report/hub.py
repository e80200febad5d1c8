"""Trained models to the Hugging Face hub: which files are sent, and what can go wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wordle_rl.config import ConfigError
from wordle_rl.models.directory import find_model
from wordle_rl.report.card import CARD_FILE, write_cards

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

_NOT_SENT = re.compile(
    r"\..*|checkpoints|epochs|steps|best|tensorboard|runs|training_args\.bin"
    r"|optimizer\.(pt|bin)|(scheduler|scaler)\.pt|rng_state(_\d+)?\.pth|trainer_state\.json"
)
"""Files that may be in a model directory, or in a checkpoint, but are not part of the model."""


class HubApi(Protocol):
    """The calls made to the hub; `huggingface_hub.HfApi` fits."""

    def create_repo(self, repo_id: str, *, private: bool | None, exist_ok: bool) -> Any:
        """Make the repository, or leave the one that is there."""

    def upload_folder(self, *, repo_id: str, folder_path: Path, allow_patterns: list[str], commit_message: str) -> Any:
        """Send the files that match, as one commit."""


def files_of(model: Path) -> list[str]:
    """The files that make a model, relative to its directory, sorted: no state of a training, nothing hidden."""
    relative = (path.relative_to(model) for path in model.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in relative if not any(map(_NOT_SENT.fullmatch, path.parts)))


def push(
    path: Path, repo: str, *, private: bool = False, dry_run: bool = False, api: HubApi | None = None
) -> list[str]:
    """Send a model with its card to a repository, which is created if it does not exist.

    An existing card is sent as it is; a missing one is written first.

    Args:
        path: A model directory, or a run: its last model is sent.
        repo: USER/NAME.
        private: Whether a new repository is hidden from others.
        dry_run: Send and write nothing.
        api: The hub; None: the one of HF_ENDPOINT, with the token of HF_TOKEN or of the last login.

    Returns:
        The files sent, or to be sent, the card among them.

    Raises:
        ConfigError: If there is no such model, no such name or no token, or the hub refuses or cannot be reached.
    """
    model = find_model(path)
    _check_name(repo)
    if not dry_run and api is None:
        api = _logged_in()
    if not (model / CARD_FILE).is_file():
        write_cards(model, dry_run=dry_run)
    files = sorted({*files_of(model), CARD_FILE})
    if not dry_run and api is not None:
        send(api, model, repo, files, f"Add {model.name} of wordle-rl", private=private)
    return files


def open_repo(repo: str, *, private: bool = False) -> HubApi:
    """The hub, with a repository that is there and may be written to.

    Raises:
        ConfigError: If there is no such name or no token, or the hub refuses or cannot be reached.
    """
    _check_name(repo)
    api = _logged_in()
    with _refusals(repo):
        api.create_repo(repo, private=private or None, exist_ok=True)
    return api


def _check_name(repo: str) -> None:
    _library()
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # it is, though its module does not say so

    try:
        validate_repo_id(repo)
    except ValueError:
        valid = False
    else:
        valid = repo.count("/") == 1
    if not valid:
        raise ConfigError(
            f"repo {repo!r} is not the name of a repository; give USER/NAME of letters, digits, '-', '_', '.'"
        )


def _library() -> Any:
    try:
        import huggingface_hub
    except ModuleNotFoundError:
        raise ConfigError('pushing needs huggingface_hub: pip install "wordle-rl[train]"') from None
    return huggingface_hub


def _logged_in() -> HubApi:
    library = _library()
    if not library.get_token():
        raise ConfigError("no token for the hub: set HF_TOKEN to one that may write, or run `hf auth login`")
    api: HubApi = library.HfApi()
    return api


def send(api: HubApi, model: Path, repo: str, files: list[str], message: str, *, private: bool = False) -> None:
    """Send files of a model's directory as one commit.

    Raises:
        ConfigError: If the hub refuses or cannot be reached.
    """
    with _refusals(repo):
        api.create_repo(repo, private=private or None, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=model, allow_patterns=files, commit_message=message)


@contextmanager
def _refusals(repo: str) -> Iterator[None]:
    """Report in one line what the hub says no to."""
    from huggingface_hub import errors

    try:
        yield
    except errors.HfHubHTTPError as error:
        raise ConfigError(f"the hub refused {repo}: {_refusal(error)}") from None
    except errors.OfflineModeIsEnabled:
        raise ConfigError("HF_HUB_OFFLINE forbids access to the hub; unset it") from None
    except (errors.HTTPError, ConnectionError) as error:  # type: ignore[attr-defined]  # of the HTTP library it uses
        raise ConfigError(
            f"the hub could not be reached ({type(error).__name__}); check the network, then push again"
        ) from None


def _refusal(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    if status == 401:
        return "the token is not valid (401); set HF_TOKEN to one that is, or run `hf auth login`"
    if status == 403:
        return "the token may not write there (403); use one with write access, or a repository of your own"
    return f"status {status}, {error.server_message or 'no reason given'}"
