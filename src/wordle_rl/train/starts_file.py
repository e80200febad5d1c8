"""Initial states, or secrets, from the rows of a file.

A row is a board or a secret in one of the shapes of `data.readers`: from `wordle-rl dataset`, traces, sample games,
verl, predibase/wordle-grpo, or a plain list of words.

Only secret and guesses are read, and with `starts.own_prompt` the prompt. Marks are computed by our rules, and other
prompts are those of the run. A finished game counts as a secret, to be played from the empty board.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.config.run import RunConfig
from wordle_rl.data.game_record import board_row
from wordle_rl.data.readers import OddRowError, Row, fields_of, prompt_of, read_row, read_rows
from wordle_rl.game import Game, Rules, score_guess
from wordle_rl.runs import VALIDATION_SECRETS_FILE, RunError
from wordle_rl.words import WordList
from wordle_rl.words.split import Split

_BOARD_FRACTION = 0.5
"""Default fraction of groups that start from the boards of a file."""


@dataclass(frozen=True)
class StartBoards:
    """The usable rows of a file, in order, and how many were left out.

    Attributes:
        starts: Initial states; finished games and bare secrets have no prefix guesses.
        rejected: Number of rows left out, by reason.
        notes: Number of rows that are used differently than the file says, by remark.
    """

    path: Path
    starts: tuple[InitialState, ...]
    rejected: Mapping[str, int]
    notes: Mapping[str, int]

    @property
    def names_secrets(self) -> bool:
        """True if no row has a prefix guess, so that the file is a list of secrets."""
        return not any(start.prefix_guesses for start in self.starts)

    @property
    def has_prompts(self) -> bool:
        """True if the rows' own prompts are shown."""
        return any(start.prompt for start in self.starts)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets, each once, in the order of the file."""
        return tuple(dict.fromkeys(start.secret for start in self.starts))

    def fraction(self) -> float:
        """Return the default fraction of groups that start here: 1 for secrets and own prompts, half for boards."""
        return 1.0 if self.names_secrets or self.has_prompts else _BOARD_FRACTION

    def limited(self, max_secrets: int) -> StartBoards:
        """Keep the rows of the first `max_secrets` secrets; 0: all."""
        kept = {*self.secrets[: max_secrets or None]}
        starts = tuple(start for start in self.starts if start.secret in kept)
        return StartBoards(self.path, starts, self.rejected, self.notes)

    def counted(self) -> str:
        """Describe the file in one line: how many rows there are, and how many were left out for which reason."""
        left_out = f"; left out: {_listed(self.rejected)}" if self.rejected else ""
        notes = "".join(f"; {count:,} {note}" for note, count in self.notes.items())
        what = "secrets to play" if self.names_secrets else "boards to start from"
        return f"{what} in {self.path}: {len(self.starts):,}{left_out}{notes}"

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the boards as rows, with marks by our rules."""
        for start in self.starts:
            row = board_row(start.secret, ((guess, score_guess(start.secret, guess)) for guess in start.prefix_guesses))
            yield {**row, "prompt": start.prompt} if start.prompt else row


def start_boards_of(config: RunConfig, stage: str, context: GameContext, path: Path) -> StartBoards:
    """Read the rows of a file that groups of a stage can start from."""
    own, opening = config.settings_of(stage), context.prompter.opening()
    found = read_start_boards(
        path,
        context.words,
        context.split,
        config.game.rules,
        outside=own.learns_without_wins,
        opening=opening,
        own_prompt=own.starts.own_prompt,
        setting=f"{stage}.starts.file",
    )
    return found.limited(own.max_secrets)


def read_start_boards(
    path: Path,
    words: WordList,
    split: Split,
    rules: Rules,
    *,
    outside: bool,
    opening: object = None,
    own_prompt: bool = False,
    setting: str = "starts.file",
) -> StartBoards:
    """Read the initial states that groups can start from; refuse a file without any.

    Args:
        split: Rows with validation and test secrets are left out.
        outside: Allow secrets that are listed words outside the answers.
        opening: First messages of the run's games, to note rows with another prompt. None: note nothing.
        own_prompt: Keep each row's prompt, and leave out rows without one.
        setting: Name of the setting, for error messages.
    """
    starts: list[InitialState] = []
    rejected: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    first_fault = ""
    for number, row in enumerate(read_rows(path), start=1):
        read = _start_of(row, f"{path}:{number}", own_prompt=own_prompt)
        if isinstance(read, str):
            fault: str | None = read
        else:
            start = InitialState(read.secret) if _is_over(read, rules) else read  # nothing is left to play there
            fault = _fault_of(start, words, split, rules, outside=outside)
            if own_prompt and not start.prompt:
                fault = fault or "no_prompt"
        if fault is None:
            starts.append(start)
            if start != read:
                notes["are finished games, played from the empty board"] += 1
            if opening is not None and not own_prompt and (row or {}).get("prompt", opening) != opening:
                notes["have their own prompt, which is ignored (see starts.own_prompt)"] += 1
            continue
        if not rejected:  # the first line shows what kind of file this is
            first_fault = f"line {number} is left out because of {fault}"
        rejected[fault] += 1
    if not starts:
        why = f"{first_fault}; in all {_listed(rejected)}" if rejected else "the file is empty"
        raise ConfigError(f"{setting} {path} has no board to start from: {why}")
    return StartBoards(path, tuple(starts), dict(rejected), dict(notes))


def validation_secrets_of(config: RunConfig, context: GameContext, path: Path, setting: str) -> StartBoards:
    """Read the secrets of the validation file of a setting: answers from any part of the split but the test secrets."""
    split = context.split
    # Validation secrets count as training secrets here: a validation file may name both.
    open_split = Split((*split.train, *split.val), (), split.test, split.seed, split.fingerprint, split.strict)
    found = read_start_boards(path, context.words, open_split, config.game.rules, outside=False, setting=setting)
    starts = tuple(InitialState(secret) for secret in found.secrets)
    return StartBoards(path, starts, found.rejected, found.notes)


@dataclass(frozen=True)
class ValidationFile:
    """The context of a run, with the secrets of its validation file as validation secrets, if it has one."""

    context: GameContext
    found: StartBoards | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that checkpoint selection plays."""
        return self.context.split.val if self.found is None else self.found.secrets

    @classmethod
    def of(cls, config: RunConfig, directory: Path | None = None) -> ValidationFile:
        """Read the validation file of a config, or the copy that the run in `directory` has stored."""
        context = GameContext.of(config)
        named = ((f"{stage}.validation_file", own.validation_file) for stage, own in config.stages_of("grpo"))
        setting, path = next(named, ("", None))  # all stages name the same
        if path is None:
            return cls(context)
        # A resumed run selects by the secrets that it began with, whatever became of the file.
        kept = directory / VALIDATION_SECRETS_FILE if directory is not None else None
        found = validation_secrets_of(config, context, kept if kept is not None and kept.is_file() else path, setting)
        return cls(context.validating(found.secrets), found)


def _listed(rejected: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(rejected.items()))


def _start_of(row: Row | None, where: str, *, own_prompt: bool) -> InitialState | str:
    # The start of a row, or the reason to leave it out; rows of no known form show that the file is another.
    why = ""
    try:
        said = read_row(row)
    except OddRowError as odd:
        if str(odd) not in ("no_row", "missing_field"):
            return str(odd)
    else:
        if said.secret is not None and not said.messages:
            try:
                return InitialState(said.secret, said.guesses, prompt_of(row or {}) if own_prompt else ())
            except OddRowError as odd:
                return str(odd)
        why = ", a conversation" if said.messages else ""
    fields = f" (it has the fields {fields_of(row)}{why})" if row else ""
    raise RunError(
        f'{where}{fields} is neither a board ({{"secret": …, "turns": [{{"guess": …}}, …]}}) nor a secret '
        '({"answer": …} or one word per line in a .txt); make the file with `wordle-rl dataset --rows grpo`, or use '
        "the _rl_train.jsonl or _rl_start_states.jsonl of `wordle-rl dataset`"
    )


def _is_over(start: InitialState, rules: Rules) -> bool:
    # Won by the last guess, or lost by using up all turns.
    guesses = start.prefix_guesses
    if not guesses or len(guesses) > rules.max_turns or start.secret in guesses[:-1]:
        return False
    return guesses[-1] == start.secret or len(guesses) == rules.max_turns


def _fault_of(start: InitialState, words: WordList, split: Split, rules: Rules, *, outside: bool) -> str | None:
    # None if a game can continue from the board.
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
    if split.strict_words_in(*start.prefix_guesses, *(message["content"] for message in start.prompt)):
        return "strict_word"
    # Play the prefix by the rules of the run: they say which guesses could stand on the board.
    game = Game(start.secret, words, rules)
    for guess in start.prefix_guesses:
        if not (guess.isascii() and guess.isalpha()):
            return "malformed_guess"
        turn = game.play(guess)
        if turn.outcome.broke_rules:
            return f"{turn.outcome.value}_guess"
    return None
