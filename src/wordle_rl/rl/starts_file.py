"""The boards of a file as initial states of groups, each checked again.

Rows are those of `wordle-rl import --format grpo` and of the `_rl_start_states.jsonl` of `wordle-rl dataset`:
`{"secret": word, "turns": [{"guess": word, …}, …]}`. Secret and guesses are all that is read. Marks are those of our
rules, whatever a file holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordle_rl.config import ConfigError, RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.game import Game, Rules, score_guess
from wordle_rl.rollout import InitialState
from wordle_rl.runs import RunError, read_jsonl
from wordle_rl.runs.game_rows import board_row, in_our_names
from wordle_rl.words import WordList
from wordle_rl.words.split import Split


@dataclass(frozen=True)
class StartBoards:
    """The usable boards of a file, in its order, and how many rows were left out, by reason."""

    path: Path
    starts: tuple[InitialState, ...]
    rejected: Mapping[str, int]

    def counted(self) -> str:
        """Number of boards there are and how many were left out, each with its reason, in one line."""
        left_out = f"; left out: {_listed(self.rejected)}" if self.rejected else ""
        return f"boards to start from in {self.path}: {len(self.starts):,}{left_out}"

    def rows(self) -> Iterator[dict[str, Any]]:
        """The boards as rows of the same kind, with the marks of our rules."""
        for start in self.starts:
            yield board_row(start.secret, ((guess, score_guess(start.secret, guess)) for guess in start.prefix_guesses))


def start_boards_of(config: RunConfig, context: GameContext, path: Path) -> StartBoards:
    """The boards of a file that groups of a run may start from.

    Raises:
        RunError: If there is no such file, or a line is no board.
        ConfigError: If no board can be used.
    """
    outside = config.training.learns_without_wins
    return read_start_boards(path, context.words, context.split, config.game.rules, outside=outside)


def read_start_boards(path: Path, words: WordList, split: Split, rules: Rules, *, outside: bool) -> StartBoards:
    """Read the boards that groups may start from.

    Args:
        path: JSON lines.
        words: The word lists.
        split: Their split; boards of validation and test secrets are left out.
        rules: Of the games that are to be played on.
        outside: Whether a secret may be a listed word outside the answers.

    Raises:
        RunError: If there is no such file, or a line is no board.
        ConfigError: If no board can be used.
    """
    starts: list[InitialState] = []
    rejected: Counter[str] = Counter()
    first_fault = ""
    for number, row in enumerate(read_jsonl(path), start=1):
        start = _start_of(row, f"{path}:{number}")
        fault = _fault_of(start, words, split, rules, outside=outside)
        if fault is None:
            starts.append(start)
            continue
        if not rejected:
            first_fault = f"line {number} is left out as {fault}"
        rejected[fault] += 1
    if not starts:
        why = f"{first_fault}, in all {_listed(rejected)}" if rejected else "it is empty"
        raise ConfigError(f"rl.starts.file {path} holds no board to start from: {why}")
    return StartBoards(path, tuple(starts), dict(rejected))


def _listed(rejected: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(rejected.items()))


def _start_of(row: Mapping[str, Any], where: str) -> InitialState:
    secret, turns = in_our_names(row).get("secret"), row.get("turns")
    if isinstance(secret, str) and isinstance(turns, list):
        said = [turn.get("guess") if isinstance(turn, dict) else None for turn in turns]
        guesses = tuple(guess.lower() for guess in said if isinstance(guess, str))
        if len(guesses) == len(turns):
            return InitialState(secret.lower(), guesses)
    raise RunError(
        f'{where} is no board, which is {{"secret": …, "turns": [{{"guess": …}}, …]}}; make the file with `wordle-rl '
        "import --format grpo`, or take the _rl_start_states.jsonl of `wordle-rl dataset`"
    )


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
