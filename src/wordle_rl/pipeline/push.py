"""Push models to the hub while a run trains: each checkpoint, and at the end the trained model with its card.

A checkpoint is pushed in the background from a copy made of hard links, so training neither waits nor removes its files
meanwhile. While one is being pushed, the next is skipped. A failure prints a line and never stops the run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from wordle_rl.errors import UserError
from wordle_rl.report.hub import files_of, open_repo, push, send
from wordle_rl.runs import has_weights

if TYPE_CHECKING:
    from huggingface_hub import HfApi

OUTBOX = ".outbox"
"""Directory in a run for the checkpoint that is being pushed."""


class HubPusher:
    """Push the models of a run to a repository, which is created if it does not exist; `show` prints a line."""

    def __init__(
        self, repo: str, show: Callable[[str], None], *, private: bool = False, api: HfApi | None = None
    ) -> None:
        self._api = open_repo(repo, private=private) if api is None else api
        self._repo, self._private, self._show = repo, private, show
        self._sending: Thread | None = None

    def send_checkpoint(self, checkpoint: Path, title: str) -> None:
        """Push a checkpoint in the background, unless an earlier one is still being pushed or it is sharded."""
        if (self._sending is not None and self._sending.is_alive()) or not has_weights(checkpoint):
            return
        copy = checkpoint.parent.parent.parent / OUTBOX
        try:
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir()
            for name in files_of(checkpoint):
                _link(checkpoint / name, copy / name)
        except (OSError, UserError) as error:
            shutil.rmtree(copy, ignore_errors=True)
            self._show(f"{title} was not sent: {error}")
            return
        self._sending = Thread(target=self._send, args=(copy, title), daemon=True)
        self._sending.start()

    def finish(self, run: Path) -> None:
        """Wait for the checkpoint that is being pushed, then push the trained model and its card."""
        if self._sending is not None:
            self._sending.join()
        try:
            push(run, self._repo, private=self._private, api=self._api)
        except (OSError, UserError) as error:
            self._show(f"{error}; `wordle-rl export {run} --repo {self._repo}` sends the model")
        else:
            self._show(f"sent to {self._repo}: the trained model and its card")

    def _send(self, copy: Path, title: str) -> None:
        try:
            send(self._api, copy, self._repo, files_of(copy), title, private=self._private)
        except (OSError, UserError) as error:
            self._show(f"{title} was not sent: {error}")
        else:
            self._show(f"sent to {self._repo}: {title}")
        finally:
            shutil.rmtree(copy, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # the file system has no hard links
        shutil.copy2(source, target)
