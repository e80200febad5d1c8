"""Models sent to the hub while a run trains: each checkpoint, and at the end the trained model with its card.

A checkpoint is sent in the background, from a copy by links, so that training neither waits for it nor removes its
files meanwhile. While one is on its way, the next is left out. A failure costs a line, never the run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from wordle_rl.config import ConfigError
from wordle_rl.report.hub import HubApi, files_of, open_repo, push, send
from wordle_rl.runs import trained_model
from wordle_rl.runs.lineage import Lineage, save_lineage

OUTBOX = ".outbox"
"""Directory in that of a run, where a checkpoint lies while it is sent."""


class HubPusher:
    """Sends the models of a run to one repository.

    Args:
        repo: USER/NAME; it is made if there is none.
        private: Hide a new repository from others.
        show: Prints a line.
        api: The hub; None: that of HF_ENDPOINT, with the token of HF_TOKEN or of the last login.

    Raises:
        ConfigError: If there is no such name or no token, or the hub refuses or cannot be reached.
    """

    def __init__(
        self, repo: str, show: Callable[[str], None], *, private: bool = False, api: HubApi | None = None
    ) -> None:
        self._api = open_repo(repo, private=private) if api is None else api
        self._repo, self._private, self._show = repo, private, show
        self._sending: Thread | None = None

    def send_checkpoint(self, lineage: Lineage, checkpoint: Path, title: str) -> None:
        """Send a checkpoint's model in the background, unless an earlier one is still on its way.

        A checkpoint in shards is left out. The lineage goes with the model, so that whoever fetches it plays it as it
        was trained.
        """
        if (self._sending is not None and self._sending.is_alive()) or trained_model(checkpoint) != checkpoint:
            return
        copy = checkpoint.parent.parent.parent / OUTBOX
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name in files_of(checkpoint):
            _link(checkpoint / name, copy / name)
        save_lineage(copy, lineage)
        self._sending = Thread(target=self._send, args=(copy, title), daemon=True)
        self._sending.start()

    def finish(self, run: Path) -> None:
        """Send the last trained model and its card, once the checkpoint on its way has arrived."""
        if self._sending is not None:
            self._sending.join()
        try:
            push(run, self._repo, private=self._private, api=self._api)
        except ConfigError as error:
            self._show(f"{error}; `wordle-rl export {run} --repo {self._repo}` sends the model")
        else:
            self._show(f"sent to {self._repo}: the trained model and its card")

    def _send(self, copy: Path, title: str) -> None:
        try:
            send(self._api, copy, self._repo, files_of(copy), title, private=self._private)
        except ConfigError as error:
            self._show(f"{title} was not sent: {error}")
        else:
            self._show(f"sent to {self._repo}: {title}")
        finally:
            shutil.rmtree(copy, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    """A second name for a file; a copy where the file system has no such names."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
