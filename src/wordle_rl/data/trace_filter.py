"""Select the games of a traces file that a run may learn from, and check each again.

The secret must be allowed, and replaying the game by the run's rules must give the same marks. A game that the solver
did not play must also pass the checks of `wordle-rl dataset`. The solver's games need not, since it loses, probes and
strays on purpose. Chat and instruction rows (see `readers`) are trained on unchanged if every reply holds a readable
guess. Sound games of validation secrets are never trained on; they give SFT its validation loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.data.dataset import DatasetLimits, fault_of, strict_words_of, unplayed
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.data.readers import games_of
from wordle_rl.game import Game, Rules
from wordle_rl.words import WordList
from wordle_rl.words.split import Split


class TracesFromFile:
    """Games of `settings.file` that a run may train on, at most `settings.num_games`, in file order.

    Attributes:
        rejected: Number of rejected games so far, by reason.
        num_otherwise: Number of used conversations whose opening differs from the run's games.
    """

    def __init__(self, words: WordList, split: Split, settings: TraceSettings, game: GameSettings) -> None:
        assert settings.file is not None  # the caller has games to read
        self.path: Path = settings.file
        self.rejected: Counter[str] = Counter()
        self.num_otherwise = 0
        self._words, self._num_games = words, settings.num_games
        self._prompter = game.prompter(words.word_length)
        self._rules = self._prompter.rules
        self._limits = DatasetLimits(max_turns=game.max_turns, thinking=game.thinking)
        # Secrets that SFT must leave to learning by play.
        taught, _ = split.shared(settings.rl_only_fraction)
        self._split, self._rl_only = split, frozenset(split.train).difference(taught)

    def __iter__(self) -> Iterator[GameRecord]:
        """Read the file from its start; a `ConfigError` if no game may be trained on."""
        self.rejected.clear()
        self.num_otherwise, opening = 0, self._prompter.opening()
        found = False
        for trace in islice(self._accepted(), self._num_games):
            found = True
            self.num_otherwise += bool(trace.messages) and [*trace.messages[: len(opening)]] != opening
            yield trace
        if not found:
            raise ConfigError(f"{self.path} holds no game to learn from; left out: {self.left_out() or 'none'}")

    def of_validation(self) -> list[GameRecord]:
        """Return sound games of validation secrets, at most `settings.num_games`. Never train on them."""
        games = (
            trace
            for trace in games_of(self.path, self._words, self._prompter)
            if not isinstance(trace, str)
            and self._split.part_of(trace.secret) == "val"
            and not strict_words_of(trace, self._split)
        )
        return list(islice((game for game in games if self._fault_of_game(game) is None), self._num_games))

    def left_out(self) -> str:
        """Return rejected games and rows by reason, as in `12 not_won, 3 test_secret`; empty if there are none."""
        return ", ".join(f"{count} {reason}" for reason, count in sorted(self.rejected.items()))

    def _accepted(self) -> Iterator[GameRecord]:
        for trace in games_of(self.path, self._words, self._prompter):
            fault = trace if isinstance(trace, str) else self._fault_of(trace)
            if fault is None and isinstance(trace, GameRecord):  # a reason in place of a game was counted as its fault
                yield trace
            else:
                self.rejected[str(fault)] += 1

    def _fault_of(self, trace: GameRecord) -> str | None:
        fault = self._split.held_out_reason(trace.secret)
        if fault is None and trace.secret in self._rl_only:
            fault = "rl_only_secret"
        if fault is None and strict_words_of(trace, self._split):
            fault = "strict_word"
        return fault or self._fault_of_game(trace)

    def _fault_of_game(self, trace: GameRecord) -> str | None:
        # The replies of chat rows were checked when they were read.
        if trace.messages:
            return None
        fault = fault_of(trace, self._words, self._limits) if trace.notes.teacher != "solver" else None
        return fault or replay_fault(trace, self._words, self._rules)


def replay_fault(trace: GameRecord, words: WordList, rules: Rules) -> str | None:
    """Return the first difference between a game and its replay by these rules, or None.

    The solver's secrets may be letter strings outside the word list, which its last guess may name.
    """
    made_up = trace.notes.teacher == "solver" and trace.secret not in words and len(trace.secret) == words.word_length
    if (fault := unplayed(trace, words)) and not (made_up and fault == "unlisted_secret"):
        return fault
    game = Game(trace.secret, words, rules)
    for number, turn in enumerate(trace.turns, start=1):
        # A secret outside the list can be named only by the last guess, which no rules would take.
        if made_up and turn == TurnRecord(trace.secret, "G" * words.word_length, thinking=turn.thinking):
            return None if number == len(trace.turns) and not game.over else "plays_on_after_win"
        if game.over:
            return "plays_on_after_win" if game.won else "too_many_turns"
        if not turn.outcome.broke_rules and turn.guess not in words:
            return "unlisted_guess"
        played = game.play(turn.guess)
        if (played.outcome, played.costs_turn) != (turn.outcome, turn.costs_turn):
            return "wrong_rules"
        if played.marks != turn.marks:
            return "wrong_marks"
    return None
