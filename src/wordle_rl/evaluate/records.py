"""Records of evaluated games: an evaluation and its file, and a table for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from wordle_rl.config.evaluation import Constrain, Variant, evaluation_name
from wordle_rl.config.stages import is_stage
from wordle_rl.data.game_record import GameRecord, StoredGame
from wordle_rl.errors import UserError, special_file
from wordle_rl.evaluate.conditions import EvalConditions
from wordle_rl.evaluate.figures import Figures, is_invalid, measure
from wordle_rl.game import Outcome, Rules
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
    turns = record.turns
    regrets = [turn.notes.regret for turn in turns if turn.notes.regret is not None]
    return {
        "secret": record.secret,
        "split": split.part_of(record.secret),
        "won": None if record.failed else str(record.won).lower(),
        "turns_used": record.turns_used,
        "guesses": " ".join(turn.guess or "-" for turn in turns),
        "marks": " ".join(turn.marks or "-" for turn in turns),
        "outcomes": " ".join(turn.outcome.value for turn in turns),
        "regrets": " ".join("-" if turn.notes.regret is None else repr(turn.notes.regret) for turn in turns),
        "invalid_turns": sum(is_invalid(turn) for turn in turns),
        "malformed_turns": sum(turn.outcome is Outcome.MALFORMED for turn in turns),
        "repeated_turns": sum(turn.notes.repeated for turn in turns),
        "clue_violating_turns": sum(turn.notes.violates_clues for turn in turns),
        "mean_regret": sum(regrets) / len(regrets) if regrets else None,
        "stop_reason": record.stop_reason,
        "error": record.error,
    }
