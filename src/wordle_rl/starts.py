"""Where the groups of a GRPO step begin: with which secret, on which board.

What the groups of a secret or board came to is remembered, so that later steps prefer those that still teach something.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from transformers import PreTrainedModel

from wordle_rl.boards import Boards, likelihoods
from wordle_rl.chat import ChatCodec
from wordle_rl.config import GRPOSettings
from wordle_rl.env import Transcript, random_given
from wordle_rl.focus import SecretPicker, with_outside
from wordle_rl.prompt import Prompter, Thinking
from wordle_rl.rollout import Start
from wordle_rl.runs import Run
from wordle_rl.words import WordList


class GroupStarts:
    """Draws the starts of each step.

    Args:
        words: The word lists.
        prompter: Wording and rules.
        secrets: The answers that may be secrets.
        settings: Shares of outside words and boards, start states, focus.
        run: The run whose traces.jsonl holds the boards, and whose secrets.jsonl records what was drawn.
        seed: With the step it determines the draw, given the same record.

    Raises:
        RunError: If boards are asked for and there are none.
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
        self.boards = Boards(run.directory / "traces.jsonl", words, seed) if settings.board_rate else None
        answers = self.boards.answers if self.boards else None
        self.board_picker = SecretPicker(answers, settings.focus, seed + 1) if answers else None

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
        if self.boards is not None and self.board_picker is not None:
            num_boards = sum(rng.random() < settings.board_rate for _ in starts)
            left = self.board_picker.pick(num_boards, step, process, refill)
            starts[:num_boards] = [self.boards.draw(answer, rng) for answer in left]
        self.record("grpo", step, process, [start.secret for start in starts])
        return starts

    def record(self, stage: str, step: int, process: int, secrets: list[str]) -> None:
        """Put down which secrets are played, for the audit."""
        self._run.append("secrets.jsonl", {"stage": stage, "step": step, "process": process, "secrets": secrets})

    def note(self, transcript: Transcript, spread: float) -> None:
        """Remember how far the rewards of a group lay apart; one of its games tells which group it was."""
        if transcript.secret in self._words.answer_index:
            self.picker.update(transcript.secret, spread)
        elif self.boards is not None and self.board_picker is not None:
            given = tuple(played.turn.guess or "" for played in transcript.turns if played.given)
            if (answer := self.boards.answer_of(Start(transcript.secret, given))) is not None:
                self.board_picker.update(answer, spread)

    def scout_boards(self, model: PreTrainedModel, codec: ChatCodec) -> None:
        """Note how undecided the policy is on one board of each answer; nothing where it thinks before it guesses."""
        if self.boards is None or self.board_picker is None or self._prompter.thinking is not Thinking.OFF:
            return
        rng = random.Random(f"{self._seed}:boards")
        starts = {answer: self.boards.draw(answer, rng) for answer in self.boards.answers}
        for answer, p in likelihoods(model, codec, self._words, self._prompter, starts).items():
            self.board_picker.update(answer, (p * (1 - p)) ** 0.5)

    def state(self) -> dict[str, Any]:
        """The record, to be stored with a checkpoint."""
        boards = {} if self.board_picker is None else self.board_picker.state()
        return {"spread": self.picker.state(), "board_spread": boards}

    def load_state(self, record: dict[str, Any]) -> None:
        """Restore a record."""
        self.picker.load_state(record["spread"])
        if self.board_picker is not None:
            self.board_picker.load_state(record["board_spread"])
