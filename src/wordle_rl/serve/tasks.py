"""Tasks of a word list: secrets by split and index, with opaque ids and a coarse difficulty."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from enum import StrEnum
from functools import cached_property
from typing import Any

from wordle_rl.config.context import GameContext
from wordle_rl.serve.errors import Reason, Refusal
from wordle_rl.trainers.games import BoardTask

SPLIT_TYPES = {"train": "train", "val": "validation", "test": "test"}
"""Parts of the answers, and OpenEnv's type of each."""


class Difficulty(StrEnum):
    """Difficulty of a secret by the guesses that the solver's best tree needs."""

    EASY = "easy"
    """At most three guesses."""
    MEDIUM = "medium"
    """Four guesses."""
    HARD = "hard"
    """Five or more guesses, or not found."""

    @classmethod
    def of(cls, num_guesses: int) -> Difficulty:
        """Classify a number of guesses."""
        return cls.EASY if num_guesses <= 3 else cls.MEDIUM if num_guesses == 4 else cls.HARD


class WordTasks:
    """The tasks of a word list, with the methods of OpenEnv's TaskProvider.

    Args:
        context: The list, its split, and its solver, for difficulties. A task's index is its place in its part.
        key: Key of the ids.
        allowed: Held-out parts that can be played and listed.
    """

    def __init__(self, context: GameContext, key: bytes, allowed: Collection[str]) -> None:
        self.context, self._key = context, key
        self._open = {"train", *allowed}

    def secret(self, task: BoardTask) -> str:
        """Return the secret of a task; only the game may see it."""
        return self._part(task.split)[task.index]

    def pick(self, split: str, index: int | None, seed: int) -> BoardTask:
        """Return the task of an index, or of a seed without an index.

        Raises:
            Refusal: If there is no such task, or the part is held out.
        """
        self._check_open(split)
        count = self.num_tasks(split)
        if index is None:
            digest = hashlib.sha256(f"{self._split_mark}:{split}:{seed}".encode()).digest()
            index = int.from_bytes(digest[:8], "big") % count
        if not 0 <= index < count:
            raise Refusal(Reason.UNKNOWN_TASK, f"split {split!r} has tasks 0 to {count - 1}, not {index}")
        return BoardTask(split=split, index=index)

    def task_id(self, task: BoardTask) -> str:
        """Return an opaque id: a keyed hash of the place, which reveals nothing without the key."""
        place = f"{self._split_mark}:{task.split}:{task.index}"
        return hmac.new(self._key, place.encode(), hashlib.sha256).hexdigest()[:32]

    def list_splits(self) -> list[dict[str, Any]]:
        """List the parts with type, number of tasks, and whether they can be played here."""
        return [
            {"name": name, "type": kind, "num_tasks": len(self._part(name)), "playable": name in self._open}
            for name, kind in SPLIT_TYPES.items()
        ]

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks of a part, held out or not.

        Raises:
            Refusal: If there is no such part.
        """
        return len(self._part(split))

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """All tasks of a part.

        Raises:
            Refusal: If there is no such part, or it is held out here.
        """
        return self.get_task_range(split)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One task.

        Raises:
            Refusal: If there is no such task, or the part is held out here.
        """
        return self._described(self.pick(split, index, 0))

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Tasks `start` to `stop`, as a slice takes them.

        Raises:
            Refusal: If there is no such part, or it is held out here.
        """
        self._check_open(split)
        return [
            self._described(BoardTask(split=split, index=index)) for index in range(self.num_tasks(split))[start:stop]
        ]

    def _described(self, task: BoardTask) -> dict[str, Any]:
        difficulty = self._difficulties[self.secret(task)]
        return {"id": self.task_id(task), "split": task.split, "index": task.index, "difficulty": difficulty.value}

    @cached_property
    def _difficulties(self) -> dict[str, Difficulty]:
        tree = self.context.solver.tree()
        return {secret: Difficulty.of(len(path) + (path[-1] != secret)) for secret, path in tree.paths.items()}

    @property
    def _split_mark(self) -> str:
        return f"{self.context.words.fingerprint}:{self.context.split.seed}"

    def _part(self, split: str) -> tuple[str, ...]:
        if split not in SPLIT_TYPES:
            raise Refusal(Reason.UNKNOWN_TASK, f"unknown split {split!r}; use {', '.join(SPLIT_TYPES)}")
        return self.context.split.named(split)  # type: ignore[arg-type]  # one of the three

    def _check_open(self, split: str) -> None:
        self._part(split)
        if split not in self._open:
            raise Refusal(Reason.HELD_OUT, f"split {split!r} is held out here; only its number of tasks is shown")
