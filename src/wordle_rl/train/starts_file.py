"""The rows of a file as initial states of groups, or as the secrets they play, each checked again.

Rows may be boards (`{"secret", "turns": [{"guess"}, …]}` of `wordle-rl dataset --rows grpo`, of the
`_rl_start_states.jsonl` of `wordle-rl dataset`, of traces and sample games), prompts (`{"prompt", "answer"}` of its
`_rl_train.jsonl`), histories (`{"secret", "past_guess_history"}`), or words alone (a plain list, `{"word"}`). Secret
and guesses are all that is read: marks are those of our rules, prompts those of the run. A game that is over names its
secret, to be played from the empty board.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordle_rl.config import ConfigError, RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.data.external import OddRowError, guesses_of_history
from wordle_rl.data.game_record import board_row, in_our_names
from wordle_rl.data.row_files import read_rows
from wordle_rl.game import Game, Rules, score_guess
from wordle_rl.rollout import InitialState
from wordle_rl.runs import VALIDATION_SECRETS_FILE, RunError
from wordle_rl.words import WordList
from wordle_rl.words.split import Split

_BOARD_FRACTION = 0.5
"""Fraction of groups that start from boards of a file, unless set."""


@dataclass(frozen=True)
class StartBoards:
    """The usable rows of a file, in its order, and how many were left out, by reason.

    Attributes:
        path: The file.
        starts: Initial states; those of games that are over, and of secrets alone, have no prefix guesses.
        rejected: Rows left out, by reason.
        notes: Remarks on rows that are used otherwise than they stand in the file, by number of rows.
    """

    path: Path
    starts: tuple[InitialState, ...]
    rejected: Mapping[str, int]
    notes: Mapping[str, int]

    @property
    def names_secrets(self) -> bool:
        """True if no row has a prefix guess: the file is a list of secrets."""
        return not any(start.prefix_guesses for start in self.starts)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets, each once, in the order of the file."""
        return tuple(dict.fromkeys(start.secret for start in self.starts))

    def fraction(self) -> float:
        """Fraction of groups that start here: all of them for secrets alone, half for boards."""
        return 1.0 if self.names_secrets else _BOARD_FRACTION

    def limited(self, max_secrets: int) -> StartBoards:
        """The rows of this many secrets, the first of the file; 0: all."""
        kept = {*self.secrets[: max_secrets or None]}
        starts = tuple(start for start in self.starts if start.secret in kept)
        return StartBoards(self.path, starts, self.rejected, self.notes)

    def counted(self) -> str:
        """Number of rows there are and how many were left out, each with its reason, in one line."""
        left_out = f"; left out: {_listed(self.rejected)}" if self.rejected else ""
        notes = "".join(f"; {count:,} {note}" for note, count in self.notes.items())
        what = "secrets to play" if self.names_secrets else "boards to start from"
        return f"{what} in {self.path}: {len(self.starts):,}{left_out}{notes}"

    def rows(self) -> Iterator[dict[str, Any]]:
        """The boards as rows of the same kind, with the marks of our rules."""
        for start in self.starts:
            yield board_row(start.secret, ((guess, score_guess(start.secret, guess)) for guess in start.prefix_guesses))


def start_boards_of(config: RunConfig, context: GameContext, path: Path) -> StartBoards:
    """The rows of a file that groups of a run may start from.

    Raises:
        RunError: If a line is no such row.
        ConfigError: If there is no such file, or no row of it can be used.
    """
    outside, opening = config.training.learns_without_wins, context.prompter.opening()
    found = read_start_boards(path, context.words, context.split, config.game.rules, outside=outside, opening=opening)
    return found.limited(config.rl.max_secrets)


def read_start_boards(
    path: Path,
    words: WordList,
    split: Split,
    rules: Rules,
    *,
    outside: bool,
    opening: object = None,
    setting: str = "rl.starts.file",
) -> StartBoards:
    """Read the initial states that groups may start from.

    Args:
        path: Any source of rows (see `row_files`).
        words: The word lists.
        split: Their split; rows of validation and test secrets are left out.
        rules: Of the games that are to be played on.
        outside: Whether a secret may be a listed word outside the answers.
        opening: The first messages of the run's games; rows with another prompt are noted. None: no row is.
        setting: Name of the setting, for errors.

    Raises:
        RunError: If a line is no such row.
        ConfigError: If there is no such file, or no row of it can be used.
    """
    starts: list[InitialState] = []
    rejected: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    first_fault = ""
    for number, row in enumerate(read_rows(path), start=1):
        read = _start_of(row, f"{path}:{number}")
        start = InitialState(read.secret) if _is_over(read, rules) else read
        fault = _fault_of(start, words, split, rules, outside=outside)
        if fault is None:
            starts.append(start)
            if start != read:
                notes["are games that are over, played from the empty board"] += 1
            if opening is not None and (row or {}).get("prompt", opening) != opening:
                notes["have a prompt of their own, which is not used (game.system_prompt words that of the run)"] += 1
            continue
        if not rejected:
            first_fault = f"line {number} is left out as {fault}"
        rejected[fault] += 1
    if not starts:
        why = f"{first_fault}, in all {_listed(rejected)}" if rejected else "it is empty"
        raise ConfigError(f"{setting} {path} holds no board to start from: {why}")
    return StartBoards(path, tuple(starts), dict(rejected), dict(notes))


def validation_secrets_of(config: RunConfig, context: GameContext, path: Path) -> StartBoards:
    """The secrets of a validation file: answers that are no test secrets, whatever part they were in.

    Raises:
        RunError: If a line is no such row.
        ConfigError: If there is no such file, or no secret of it can be used.
    """
    split = context.split
    open_split = Split((*split.train, *split.val), (), split.test, split.seed, split.fingerprint, split.strict)
    found = read_start_boards(
        path, context.words, open_split, config.game.rules, outside=False, setting="grpo.validation_file"
    )
    starts = tuple(InitialState(secret) for secret in found.secrets)
    return StartBoards(path, starts, found.rejected, found.notes)


@dataclass(frozen=True)
class ValidationFile:
    """The context of a run with or without secrets of its own to select checkpoints by.

    Attributes:
        context: Words, split, prompts and solver; the secrets of the file are validation secrets there.
        found: What the file holds; None: there is none.
    """

    context: GameContext
    found: StartBoards | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that checkpoints are selected by."""
        return self.context.split.val if self.found is None else self.found.secrets

    @classmethod
    def of(cls, config: RunConfig, directory: Path | None = None) -> ValidationFile:
        """Read the file of a config, or what a run has kept of it.

        Args:
            config: Every setting.
            directory: The run to be resumed; None: a run that is begun.

        Raises:
            RunError: If a line is no secret.
            ConfigError: If there is no such file, or no secret of it can be used.
        """
        context, path = GameContext.of(config), config.grpo.validation_file
        if path is None or config.algorithm != "grpo":
            return cls(context)
        kept = directory / VALIDATION_SECRETS_FILE if directory is not None else None
        found = validation_secrets_of(config, context, kept if kept is not None and kept.is_file() else path)
        return cls(context.validating(found.secrets), found)


def _listed(rejected: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(rejected.items()))


def _start_of(row: Mapping[str, Any] | None, where: str) -> InitialState:
    named = in_our_names(row or {})
    secret = next((named[name] for name in ("secret", "answer") if isinstance(named.get(name), str)), None)
    guesses: tuple[str, ...] | None = None
    turns = named.get("turns", [])
    if secret is not None and "past_guess_history" in named:
        try:
            guesses = guesses_of_history(named["past_guess_history"])
        except OddRowError:
            guesses = None
    elif isinstance(turns, list):
        said = [turn.get("guess") if isinstance(turn, dict) else None for turn in turns]
        guesses = tuple(guess.lower() for guess in said if isinstance(guess, str))
        guesses = guesses if len(guesses) == len(turns) else None
    if secret is None or guesses is None:
        raise RunError(
            f'{where} is no board, which is {{"secret": …, "turns": [{{"guess": …}}, …]}}, and no secret, which is '
            '{"answer": …} or a word a line of a .txt; make the file with `wordle-rl dataset --rows grpo`, or take '
            "the _rl_train.jsonl or _rl_start_states.jsonl of `wordle-rl dataset`"
        )
    return InitialState(secret.strip().lower(), guesses)


def _is_over(start: InitialState, rules: Rules) -> bool:
    """True for a whole game: won by its last guess, or lost by using up all turns."""
    guesses = start.prefix_guesses
    if not guesses or len(guesses) > rules.max_turns or start.secret in guesses[:-1]:
        return False
    return guesses[-1] == start.secret or len(guesses) == rules.max_turns


def _fault_of(start: InitialState, words: WordList, split: Split, rules: Rules, *, outside: bool) -> str | None:
    """Reason why no game may continue from a board; None: one may."""
    if start.secret not in words:
        return "unlisted_secret"
    if reason := split.held_out_reason(start.secret):
        return reason
    if not outside and split.part_of(start.secret) == "outside":
        return "outside_secret"
    if start.secret in start.prefix_guesses:
        return "already_won"
    if len(start.prefix_guesses) >= rules.max_turns:
        return "too_many_turns"
    if split.strict_words_in(*start.prefix_guesses):
        return "strict_word"
    return _fault_of_guesses(start.secret, start.prefix_guesses, words, rules)


def _fault_of_guesses(secret: str, guesses: Sequence[str], words: WordList, rules: Rules) -> str | None:
    game = Game(secret, words, rules)
    for guess in guesses:
        if not (guess.isascii() and guess.isalpha()):
            return "malformed_guess"
        turn = game.play(guess)
        if turn.outcome.broke_rules:
            return f"{turn.outcome.value}_guess"
    return None
