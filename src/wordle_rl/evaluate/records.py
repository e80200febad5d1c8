"""Records of evaluated games: an evaluation, how it was played, its file, and a table for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from wordle_rl.config.evaluation import Constrain, EngineName, Variant, evaluation_name
from wordle_rl.config.stages import is_stage
from wordle_rl.data.game_record import GameRecord, StoredGame
from wordle_rl.errors import UserError, special_file
from wordle_rl.evaluate.figures import Figures, is_invalid, measure
from wordle_rl.game import Outcome, Rules
from wordle_rl.prompt import Prompter, Shape, Style, Thinking, name_of
from wordle_rl.runs import RunError, write_text_atomically
from wordle_rl.runs.foreign_text import spreadsheet_cell, visible
from wordle_rl.words.split import Split, SplitName


def model_and_variant(stem: str) -> tuple[str, Variant]:
    """Split a file stem of a run's `eval/` into model and variant. Other stems are returned whole.

    Examples:
        >>> model_and_variant("sft-sampled"), model_and_variant("mine-sampled")
        (('sft', 'sampled'), ('mine-sampled', 'greedy'))
    """
    for variant in get_args(Variant):
        model = stem.removesuffix(f"-{variant}")
        if (model == "base" or is_stage(model)) and stem == evaluation_name(model, variant):
            return model, variant
    return stem, "greedy"


class EvaluationError(UserError):
    """An evaluation that cannot be made, read or compared. The message names it and the fix."""


@dataclass(frozen=True)
class EvalConditions:
    """Prompting and sampling of a player, without rules and constraint.

    Attributes:
        temperature: 0 is greedy; None if left to the endpoint, or no tokens are sampled.
        max_completion_tokens: Token limit of a reply; None if no tokens are sampled, as by the solver.
        engine: Engine on this machine; None for an endpoint, or if no tokens are sampled.
        seed: Random seed; None if nothing is random, or the seed is unknown.
        system_prompt: Text in place of the style's own rules, with placeholders; empty: no system message; None: the
            style's rules.
        boards: Initial boards, such as `0 to 4 consistent turns, seed 0`; None: empty boards.
        word_beam: With guesses limited to listed words: beam width of the search for the likeliest; None: no limit on
            guesses, or limited token by token.
        lenient: Replies outside the grammar were read, too; see `wordle_rl.prompt.reply.lenient_guess`.
    """

    style: Style | str
    shape: Shape
    thinking: Thinking
    temperature: float | None = None
    max_completion_tokens: int | None = None
    engine: EngineName | None = None
    seed: int | None = None
    system_prompt: str | None = None
    boards: str | None = None
    word_beam: int | None = None
    lenient: bool = False

    @classmethod
    def of(cls, prompter: Prompter) -> EvalConditions:
        """Return the conditions of a player that samples no tokens."""
        asked = cls(prompter.style, prompter.shape, prompter.thinking, system_prompt=prompter.system_prompt)
        return replace(asked, lenient=prompter.lenient)


_UNSET = {"boards": "the empty board", "word_beam": "token by token"}
"""Meaning of None, by condition."""


def differences(a: EvalConditions, b: EvalConditions) -> dict[str, tuple[str, str]]:
    """Return the conditions in which two players differ, with both values. Seeds count only if both are known."""
    values = {field.name: (getattr(a, field.name), getattr(b, field.name)) for field in fields(EvalConditions)}
    # An unknown seed is no difference, and greedy play has none.
    if None in values["seed"]:
        del values["seed"]
    return {name: (_shown(name, was), _shown(name, other)) for name, (was, other) in values.items() if was != other}


def unlike(a: EvalConditions, b: EvalConditions) -> str:
    """List the conditions in which two players differ; '' if they agree.

    Seeds are ignored, and so are engines if one player is an endpoint. A player that samples no tokens is not compared.
    """
    if None in (a.max_completion_tokens, b.max_completion_tokens):
        return ""
    # Engines round differently, which is told. What an endpoint runs on nobody knows.
    ignored = {"seed", "engine"} if None in (a.engine, b.engine) else {"seed"}
    told = differences(a, b)
    return ", ".join(f"{what} {was} and {other}" for what, (was, other) in told.items() if what not in ignored)


def _shown(name: str, value: object) -> str:
    if name == "system_prompt":
        return name_of(None if value is None else str(value))
    if value is None:
        return _UNSET.get(name, "the endpoint's own")
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class ControlFacts:
    """What a control evaluation controls for.

    Attributes:
        kind: `sft_alone`: a model of supervised fine-tuning alone, whose teacher kept nothing back. `equal_entropy`:
            sampled at the temperature at which it is as random as `of` at `temperature_of`.
        of: Run or model that it is a control for, or the control run.
        seconds: Training time of a control run.
        nats: For equal entropy: mean entropy of a game of this player; `nats_of`: of the model it is a control for.
    """

    kind: Literal["sft_alone", "equal_entropy"]
    of: str
    seconds: float | None = None
    nats: float | None = None
    nats_of: float | None = None
    temperature_of: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """Every game of one player.

    Attributes:
        name: Name in tables: `sft`, `grpo`, `solver`.
        player: Identity: a model directory, an endpoint's model, a built-in player.
        parts: Parts of the split that were played, e.g. `("held_out",)`; empty for other secrets.
        constrain: Limit on the player's tokens. Figures of limited and free play never mix.
        control: What it controls for; None if it is no control.
    """

    name: str
    player: str
    parts: tuple[SplitName, ...]
    rules: Rules
    fingerprint: str
    records: tuple[StoredGame, ...] = field(repr=False)
    conditions: EvalConditions
    constrain: Constrain = "none"
    control: ControlFacts | None = None
    reward_preset: str | None = None

    @property
    def label(self) -> str:
        """Name for tables, which tells whether guesses were limited to listed words."""
        return self.name if self.constrain == "none" else f"{self.name} (constrained)"

    @property
    def secrets(self) -> frozenset[str]:
        """Secrets that were played."""
        return frozenset(record.secret for record in self.records)

    def only(self, secrets: Collection[str] | None) -> Evaluation:
        """Return a copy with only the games of these secrets; None: all games."""
        if secrets is None:
            return self
        wanted = frozenset(secrets)
        return replace(self, records=tuple(record for record in self.records if record.secret in wanted))

    def figures(self, secrets: Collection[str] | None = None) -> Figures:
        """Measure the games of these secrets; None: all games."""
        return measure(self.only(secrets).records, self.rules.max_turns)

    def save(self, path: Path) -> None:
        """Write all games as JSON, atomically."""
        write_text_atomically(path, _EVALUATION.dump_json(self).decode() + "\n")

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        """Read what `save` wrote."""
        if special := special_file(path):
            raise EvaluationError(f"{path} is {special}; name another, or delete it")
        try:
            return _EVALUATION.validate_json(path.read_bytes())
        except FileNotFoundError:
            raise EvaluationError(f"no file {path}; `wordle-rl eval` writes one") from None
        except IsADirectoryError:
            found = sorted([*path.glob("*.json"), *path.glob("eval/*.json")], key=lambda file: len(file.name))
            fix = (
                f"name an evaluation in it, such as {found[0]}" if found else "name a file that `wordle-rl eval` wrote"
            )
            raise EvaluationError(f"{path} is a directory; {fix}") from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise EvaluationError(
                f"{path} is no evaluation: {place}: {first['msg']}; name another, or delete it"
            ) from None


_EVALUATION = TypeAdapter(Evaluation)


def evaluations_in(directory: Path) -> dict[str, Evaluation]:
    """Load the evaluations of a directory by file stem; empty if the directory is missing."""
    return {path.stem: Evaluation.load(path) for path in sorted(directory.glob("*.json"))}


def occurrences(secrets: Iterable[str]) -> list[tuple[str, int]]:
    """Number the games of each secret: pairs of the secret and how often it came before.

    Examples:
        >>> occurrences(["crane", "speed", "crane"])
        [('crane', 0), ('speed', 0), ('crane', 1)]
    """
    seen: Counter[str] = Counter()
    keys = []
    for secret in secrets:
        keys.append((secret, seen[secret]))
        seen[secret] += 1
    return keys


# --- tables for spreadsheets --------------------------------------------------------------------------------

GAME_COLUMNS = ("secret", "split", "won")
"""First columns of the table of an evaluation."""


def save_csv(evaluation: Evaluation, split: Split, path: Path) -> None:
    """Write one row per game, atomically: the game, its counts of turns, and what all games share.

    `won` is empty for an error. In columns with a value per turn, `-` stands for none.
    """
    about = {
        "name": evaluation.name,
        "player": evaluation.player,
        "fingerprint": evaluation.fingerprint,
        "constrain": evaluation.constrain,
        "reward_preset": evaluation.reward_preset,
        **asdict(evaluation.rules),
        **asdict(evaluation.conditions),
    }
    write_rows(path, [_row(record, split) | about for record in evaluation.records])


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], option: str = "--csv") -> None:
    """Write rows with the columns of the first, atomically, without formulas. `option` names the file."""
    # Checked again: hours of play may lie between the first check and this.
    check_table(path, list(rows[0]), option)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    write_text_atomically(path, text.getvalue())


def _cell(value: object) -> object:
    # The writer would leave a carriage return without quotes, and it would begin a row.
    return spreadsheet_cell(visible(value) if isinstance(value, str) else value)


def check_table(path: Path, columns: Sequence[str], option: str = "--csv") -> None:
    """Refuse a file that may not be overwritten: one that is not empty and has other first three columns."""
    if not path.is_file():
        return
    # Three columns are enough to know a table of ours; what stands behind them may change.
    begins = f"{','.join(columns[:3])},".encode()
    with path.open("rb") as file:
        if file.read(len(begins)) not in (begins, b""):
            raise RunError(f"{path} holds something else than a table of this kind; name another {option}")


def _row(record: GameRecord, split: Split) -> dict[str, Any]:
    turns, own = record.turns, record.own_turns  # the board that a game began on is shown, and not counted
    regrets = [turn.notes.regret for turn in own if turn.notes.regret is not None]
    return {
        "secret": record.secret,
        "split": split.part_of(record.secret),
        "won": None if record.failed else str(record.won).lower(),
        "turns_used": record.turns_used,
        "given_turns": len(turns) - len(own),
        "guesses": " ".join(turn.guess or "-" for turn in turns),
        "marks": " ".join(turn.marks or "-" for turn in turns),
        "outcomes": " ".join(turn.outcome.value for turn in turns),
        "regrets": " ".join("-" if turn.notes.regret is None else repr(turn.notes.regret) for turn in turns),
        "invalid_turns": sum(is_invalid(turn) for turn in own),
        "malformed_turns": sum(turn.outcome is Outcome.MALFORMED for turn in own),
        "repeated_turns": sum(turn.notes.repeated for turn in own),
        "clue_violating_turns": sum(turn.notes.violates_clues for turn in own),
        "mean_regret": sum(regrets) / len(regrets) if regrets else None,
        "stop_reason": record.stop_reason,
        "error": record.error,
    }
