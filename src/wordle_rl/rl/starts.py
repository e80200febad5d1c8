"""Where the groups of a GRPO step begin: with which secret, and which guesses already made.

What the groups of a secret came to is remembered, so that later steps prefer those that still teach something.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from wordle_rl.config import GRPOSettings
from wordle_rl.env import Transcript, random_given
from wordle_rl.prompt import Prompter
from wordle_rl.rl.focus import SecretPicker, with_outside
from wordle_rl.rollout import Start
from wordle_rl.runs import Run
from wordle_rl.words import WordList


class GroupStarts:
    """Draws the starts of each step.

    Args:
        words: The word lists.
        prompter: Wording and rules.
        secrets: The answers that may be secrets.
        settings: Share of outside words, start states, focus.
        run: The run whose secrets.jsonl records what was drawn.
        seed: With the step it determines the draw, given the same record.
    """

    def __init__(
        self,
        words: WordList,
        prompter: Prompter,
        secrets: Iterable[str],
        settings: GRPOSettings,
        run: Run,
        seed: int,
    ) -> None:
        self._words, self._prompter, self._settings, self._run, self._seed = words, prompter, settings, run, seed
        self.picker = SecretPicker(list(secrets), settings.focus, seed)

    def draw(self, num_groups: int, step: int, process: int, refill: int) -> list[Start]:
        """One start per group; `refill` counts the draws of one step."""
        settings, hard_mode = self._settings, self._prompter.rules.hard_mode
        rng = random.Random(":".join(str(part) for part in (self._seed, step, process, *[refill] * (refill > 0))))
        secrets = self.picker.pick(num_groups, step, process, refill)
        secrets = with_outside(secrets, self._words, settings.outside_rate, rng)
        starts = []
        for secret in secrets:
            given = random_given(self._words, secret, rng, settings.max_given, hard_mode=hard_mode)
            starts.append(Start(secret, given))
        self.record("grpo", step, process, [start.secret for start in starts])
        return starts

    def record(self, stage: str, step: int, process: int, secrets: list[str]) -> None:
        """Put down which secrets are played, for the audit."""
        self._run.append("secrets.jsonl", {"stage": stage, "step": step, "process": process, "secrets": secrets})

    def note(self, transcript: Transcript, spread: float) -> None:
        """Remember how far the rewards of a group lay apart; one of its games tells which group it was."""
        if transcript.secret in self._words.answer_index:
            self.picker.update(transcript.secret, spread)

    def state(self) -> dict[str, Any]:
        """The record, to be stored with a checkpoint."""
        return {"spread": self.picker.state()}

    def load_state(self, record: dict[str, Any]) -> None:
        """Restore a record."""
        self.picker.load_state(record["spread"])
