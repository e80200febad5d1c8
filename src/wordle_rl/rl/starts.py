"""Where groups of games begin: with which secret, and which guesses already made.

The spread of the rewards of each secret's groups is remembered, so that later steps prefer those that still teach.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from wordle_rl.env import Transcript, random_given
from wordle_rl.prompt import Prompter
from wordle_rl.rl.focus import SecretPicker, draw_numbers, with_outside
from wordle_rl.rollout import Start, start_of
from wordle_rl.runs import Run
from wordle_rl.words import WordList


class GroupStarts:
    """Draws the starts of each step.

    Args:
        words: The word lists.
        prompter: Wording and rules.
        secrets: The answers that may be secrets.
        seed: With the step it determines the draw, given the same record.
        focus: See `SecretPicker`.
        outside_rate: Share of secrets that are listed words outside the answers.
        max_given: 0 to so many random turns are already played.
        given_starts: Starts that some groups take instead of one drawn here.
        starts_share: Share of those groups, if there are such starts.

    Raises:
        ValueError: If there are no secrets.
    """

    def __init__(
        self,
        words: WordList,
        prompter: Prompter,
        secrets: Iterable[str],
        seed: int,
        *,
        focus: float = 0.0,
        outside_rate: float = 0.0,
        max_given: int = 0,
        given_starts: Sequence[Start] = (),
        starts_share: float = 0.0,
    ) -> None:
        self._words, self._prompter, self._seed = words, prompter, seed
        self._outside_rate, self._max_given = outside_rate, max_given
        self._given_starts, self._starts_share = given_starts, starts_share
        self._given_boards = frozenset(start for start in given_starts if start.given)
        self.picker = SecretPicker(list(secrets), focus, seed)

    def draw(
        self, num_groups: int, step: int, process: int = 0, refill: int = 0, rng: random.Random | None = None
    ) -> list[Start]:
        """One start per group.

        Args:
            num_groups: How many.
            step: Optimizer step, or round.
            process: Of several processes each has groups of its own.
            refill: 0 for the step's first draw, then 1, 2, … for redraws.
            rng: Draws the words from outside and the given guesses; None: a stream of the seed and this draw.
        """
        if rng is None:
            rng = random.Random(":".join(map(str, (self._seed, *draw_numbers(step, process, refill)))))
        secrets = self.picker.pick(num_groups, step, process, refill)
        hard_mode = self._prompter.rules.hard_mode
        starts = []
        for secret in with_outside(secrets, self._words, self._outside_rate, rng):
            given = random_given(self._words, secret, rng, self._max_given, hard_mode=hard_mode)
            starts.append(Start(secret, given))
        return self._with_given(starts, draw_numbers(step, process, refill)) if self._given_starts else starts

    def _with_given(self, starts: Sequence[Start], numbers: Sequence[int]) -> list[Start]:
        """Replace each start, with probability `starts_share`, by a given one; without repeats while there are enough.

        The random stream is one of its own, so that all others stay as they were.
        """
        rng = random.Random(":".join(map(str, (self._seed, *numbers, "given"))))
        places = [place for place in range(len(starts)) if rng.random() < self._starts_share]
        repeats = len(places) > len(self._given_starts)
        draw = rng.choices if repeats else rng.sample
        replaced = dict(zip(places, draw(self._given_starts, k=len(places)), strict=True))
        return [replaced.get(place, start) for place, start in enumerate(starts)]

    def note(self, transcript: Transcript, spread: float) -> None:
        """Remember the standard deviation of a group's rewards; `transcript`: any game of the group.

        A group that went on from a given board says nothing of its secret's games from the start.
        """
        if transcript.secret in self.picker and start_of(transcript) not in self._given_boards:
            self.picker.update(transcript.secret, spread)

    def state(self) -> dict[str, Any]:
        """The record, to be stored with a checkpoint."""
        return {"spread": self.picker.state()}

    def load_state(self, record: dict[str, Any]) -> None:
        """Restore a record."""
        self.picker.load_state(record["spread"])


def record_secrets(run: Run, stage: str, step: int, process: int, secrets: Sequence[str]) -> None:
    """Write to secrets.jsonl which secrets are played, for the audit."""
    run.append("secrets.jsonl", {"stage": stage, "step": step, "process": process, "secrets": list(secrets)})
