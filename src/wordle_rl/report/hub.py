"""Push to the Hugging Face hub: which files of a model to send, and what can go wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wordle_rl.config.base import ConfigError
from wordle_rl.policy.directory import find_model
from wordle_rl.report.card import write_cards
from wordle_rl.runs import CARD_FILE
from wordle_rl.runs.checksums import check_sealed

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Kind = Literal["model", "dataset", "space"]
"""What a repository of the hub holds."""
_NOT_SENT = re.compile(
    r"\..*|checkpoints|epochs|steps|best|tensorboard|runs|training_args\.bin"
    r"|optimizer\.(pt|bin)|(scheduler|scaler)\.pt|rng_state(_\d+)?\.pth|trainer_state\.json"
)
"""Files in a model directory or a checkpoint that are not part of the model."""


def files_of(model: Path) -> list[str]:
    """List the files of a model relative to its directory, sorted, without training state and hidden files."""
    relative = (path.relative_to(model) for path in model.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in relative if not any(map(_NOT_SENT.fullmatch, path.parts)))


def push(path: Path, repo: str, *, private: bool = False, dry_run: bool = False, api: HfApi | None = None) -> list[str]:
    """Push a model, or the last model of a run, with its card, and return the names of its files.

    The repository is created if it does not exist. An existing card is pushed as it is; a missing one is written first.
    `api` is the hub; None: that of HF_ENDPOINT, with the token in HF_TOKEN or of the last login.
    """
    model = find_model(path)
    check_sealed(model)
    check_name(repo)
    if not dry_run and api is None:
        api = _logged_in()
    # A card that somebody has edited is theirs, and stays.
    if not (model / CARD_FILE).is_file():
        write_cards(model, dry_run=dry_run)
    files = sorted({*files_of(model), CARD_FILE})
    if not dry_run and api is not None:
        send(api, model, repo, files, f"Add {model.name} of wordle-rl", private=private)
    return files


def open_repo(repo: str, *, private: bool = False, kind: Kind = "model") -> HfApi:
    """Return the hub after creating the repository, unless it exists. A Space is built from its Dockerfile."""
    check_name(repo)
    api = _logged_in()
    with _refusals(repo):
        space_sdk = "docker" if kind == "space" else None
        api.create_repo(repo, private=private or None, repo_type=kind, space_sdk=space_sdk, exist_ok=True)
    return api


def send(api: HfApi, model: Path, repo: str, files: list[str], message: str, *, private: bool = False) -> None:
    """Push files of a model directory as one commit."""
    with _refusals(repo):
        api.create_repo(repo, private=private or None, exist_ok=True)
        # One commit, so nobody downloads new weights with an old tokenizer.
        api.upload_folder(repo_id=repo, folder_path=model, allow_patterns=files, commit_message=message)


def send_folder(api: HfApi, folder: Path, repo: str, message: str, kind: Kind) -> None:
    """Push all files of a folder as one commit to a repository that `open_repo` has opened."""
    with _refusals(repo):
        api.upload_folder(repo_id=repo, folder_path=folder, repo_type=kind, commit_message=message)


def check_name(repo: str) -> None:
    """Refuse what is not the name of a repository, USER/NAME."""
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # its module does not say so

    try:
        validate_repo_id(repo)
        # The hub's own check takes a name without a user, too, which would create it under the token's account.
        valid = repo.count("/") == 1
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(
            f"repo {repo!r} is not the name of a repository; give USER/NAME with letters, digits, '-', '_', '.'"
        )


def _logged_in() -> HfApi:
    from huggingface_hub import HfApi, get_token

    if not get_token():
        raise ConfigError("no token for the hub; set HF_TOKEN to one that can write, or run `hf auth login`")
    return HfApi()


@contextmanager
def _refusals(repo: str) -> Iterator[None]:
    from huggingface_hub import errors

    try:
        yield
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        advice = {
            401: "the token is invalid (401); set HF_TOKEN to a valid one, or run `hf auth login`",
            403: "the token cannot write there (403); use one with write access, or your own repository",
        }
        reason = advice.get(status, f"status {status}, {error.server_message or 'no reason given'}")
        raise ConfigError(f"the hub refused {repo}: {reason}") from None
    except errors.OfflineModeIsEnabled:
        raise ConfigError("HF_HUB_OFFLINE forbids access to the hub; unset it") from None
    except (errors.HTTPError, ConnectionError) as error:  # type: ignore[attr-defined]  # of the HTTP library it uses
        raise ConfigError(
            f"the hub could not be reached ({type(error).__name__}); check the network, then push again"
        ) from None
