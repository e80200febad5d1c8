"""Games of a traces file as the teacher games of a run: looked over once more, one by one.

What a language model played, or somebody else, is learnt only if its secret may be taught and every check of
`wordle-rl dataset` finds nothing wrong with it. The solver's games are right by construction; of theirs the marks alone
are worked out again, since they probe and stray on purpose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from wordle_rl.config import ConfigError, TraceSettings
from wordle_rl.dataset import DatasetLimits, fault_of
from wordle_rl.game import score_guess
from wordle_rl.split import Split
from wordle_rl.trace_files import read_games
from wordle_rl.traces import Trace
from wordle_rl.words import WordList


class GivenTraces:
    """The games of `settings.file` that a run may learn from, at most `settings.num_games`, in the file's order.

    Args:
        words: The word lists.
        split: Whose secrets may be taught.
        settings: The file, how many games, and which share of the training secrets is kept from teachers.
        max_turns: Guesses a game may have.

    Attributes:
        rejected: How many games were left out so far, by reason.

    Raises:
        ConfigError: If the settings name no file.
    """

    def __init__(self, words: WordList, split: Split, settings: TraceSettings, max_turns: int) -> None:
        if settings.file is None:
            raise ConfigError("traces.file names no file")
        self.path: Path = settings.file
        self.rejected: Counter[str] = Counter()
        self._words, self._num_games, self._limits = words, settings.num_games, DatasetLimits(max_turns=max_turns)
        taught, _ = split.shared(settings.rl_only_share)
        parts = {"rl_only_secret": split.train, "val_secret": split.val, "test_secret": split.test}
        self._kept_back = {secret: reason for reason, secrets in parts.items() for secret in secrets}
        for secret in taught:
            del self._kept_back[secret]

    def __iter__(self) -> Iterator[Trace]:
        """Read the file from its start.

        Raises:
            RunError: If there is no such file or a line is no trace.
            ConfigError: If no game of it may be learnt from.
        """
        self.rejected.clear()
        found = False
        for trace in islice(self._accepted(), self._num_games):
            found = True
            yield trace
        if not found:
            raise ConfigError(f"{self.path} holds no game to learn from; left out: {self.left_out() or 'none'}")

    def left_out(self) -> str:
        """The rejected games in words, as in `12 not_won, 3 test_secret`; empty if there were none."""
        return ", ".join(f"{count} {reason}" for reason, count in sorted(self.rejected.items()))

    def _accepted(self) -> Iterator[Trace]:
        for trace in read_games(self.path):
            fault = self._kept_back.get(trace.secret) or self._fault_of(trace)
            if fault is None:
                yield trace
            else:
                self.rejected[fault] += 1

    def _fault_of(self, trace: Trace) -> str | None:
        if trace.teacher != "solver":
            return fault_of(trace, self._words, self._limits)
        if trace.secret not in self._words:
            return "unlisted_secret"
        if len(trace.turns) > self._limits.max_turns:
            return "too_many_turns"
        wrong = any(turn.marks and score_guess(trace.secret, turn.guess) != turn.marks for turn in trace.turns)
        return "wrong_marks" if wrong else None
