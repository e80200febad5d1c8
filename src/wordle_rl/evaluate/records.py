"""Records of evaluated games, and the figures computed from them."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from pydantic import TypeAdapter, ValidationError

from wordle_rl.config.evaluation import Constrain, Variant, evaluation_name
from wordle_rl.config.stages import is_stage
from wordle_rl.data.game_record import GameRecord, StoredGame, TurnRecord
from wordle_rl.env import StopReason
from wordle_rl.errors import UserError, special_file
from wordle_rl.evaluate.conditions import EvalConditions
from wordle_rl.evaluate.stats import clustered_wilson_interval, wilson_interval
from wordle_rl.game import Outcome, Rules
from wordle_rl.rollout import pass_at, powers_of_two
from wordle_rl.runs import RunError, write_text_atomically
from wordle_rl.runs.foreign_text import spreadsheet_cell, visible
from wordle_rl.words.split import Split, SplitName

RESULT_SPLITS: tuple[SplitName, ...] = ("all", "train", "held_out", "strict")
STRATA = ("board_shown", "board_not_shown", "never_said")
CONSTRAINED_PART = "held_out_constrained"
STRICT_CONSTRAINED_PART = "strict_constrained"
PART_NAMES = {
    "strict": "strict secrets, named nowhere in training",
    STRICT_CONSTRAINED_PART: "strict secrets, guesses limited to listed words",
    "held_out": "held-out secrets",
    "board_shown": "held out, decisive board shown in training",
    "board_not_shown": "held out, that board not shown",
    "never_said": "held out, never named in training",
    "train": "training secrets",
    "all": "all secrets",
    CONSTRAINED_PART: "held-out secrets, guesses limited to listed words",
}
"""Labels of the parts on pages and cards."""
_SAMPLED = "_sampled"


def sampled_part(part: str) -> str:
    """Return the part name for the same secrets sampled at temperature 1.

    Examples:
        >>> sampled_part("held_out")
        'held_out_sampled'
    """
    return f"{part}{_SAMPLED}"


def is_sampled_part(part: str) -> bool:
    """Return True for a name made by `sampled_part`."""
    return part.endswith(_SAMPLED)


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
class Figures:
    """Figures of a set of games. Rates are 0 to 1. A figure without data is None.

    Attributes:
        num_games: Games won or lost, without errors.
        win_rate_low: Lower end of its 95 % Wilson interval, see `clustered_wilson_interval`.
        mean_guesses_with_losses: Mean turns used; a loss counts as one more than the game has turns (7 of 6).
        invalid_rate: Fraction of turns with a readable guess that was not scored: unlisted, of the wrong length, or
            against hard mode.
        repeated_rate: Fraction of turns that repeat an earlier guess of the game.
        clue_violating_rate: Fraction of turns whose guess contradicts earlier marks, so it could not win.
        malformed_rate: Fraction of turns without a readable guess.
        mean_regret: Expected guesses lost per turn, over turns where it was measured.
        guess_distribution: Won games by turns used, from "1", and "loss".
        pass_at: If each secret was played n > 1 times: k ("1", "2", "4" and so on up to n) -> chance that one of k
            games is won, with the ends of its 95 % interval for secrets like these.
    """

    num_games: int
    win_rate: float | None
    win_rate_low: float | None
    win_rate_high: float | None
    mean_guesses_on_wins: float | None
    mean_guesses_with_losses: float | None
    invalid_rate: float | None
    repeated_rate: float | None
    clue_violating_rate: float | None
    malformed_rate: float | None
    mean_regret: float | None
    num_turns: int
    num_errors: int
    guess_distribution: dict[str, int]
    pass_at: dict[str, tuple[float, float, float]] = field(default_factory=dict)


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


def not_played(secret: str, reason: str) -> GameRecord:
    """Return the record of a game that was not finished, an error."""
    return GameRecord(secret, (), error=reason, stop_reason=StopReason.REQUEST_FAILED)


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


def measure(records: Sequence[GameRecord], max_turns: int) -> Figures:
    """Compute the figures of some games, see `Figures`."""
    played = [record for record in records if not record.failed]
    turns = [turn for record in played for turn in record.own_turns]
    won_in = Counter(record.turns_used for record in played if record.won)
    wins, num_games = won_in.total(), len(played)
    losses = num_games - wins
    guesses_on_wins = sum(used * count for used, count in won_in.items())
    # By secret, since games of one secret are no independent observations.
    games_of = Counter(record.secret for record in played)
    wins_of = Counter(record.secret for record in played if record.won)
    low, high = (
        clustered_wilson_interval([wins_of[secret] for secret in games_of], list(games_of.values()))
        if played
        else (None, None)
    )
    regrets = [turn.regret for turn in turns if turn.regret is not None]
    return Figures(
        num_games=num_games,
        win_rate=_ratio(wins, num_games),
        win_rate_low=low,
        win_rate_high=high,
        mean_guesses_on_wins=_ratio(guesses_on_wins, wins),
        mean_guesses_with_losses=_ratio(guesses_on_wins + losses * (max_turns + 1), num_games),
        invalid_rate=_ratio(sum(is_invalid(turn) for turn in turns), len(turns)),
        repeated_rate=_ratio(sum(turn.repeated for turn in turns), len(turns)),
        clue_violating_rate=_ratio(sum(turn.violates_clues for turn in turns), len(turns)),
        malformed_rate=_ratio(sum(turn.outcome is Outcome.MALFORMED for turn in turns), len(turns)),
        mean_regret=_ratio(sum(regrets), len(regrets)),
        num_turns=len(turns),
        num_errors=len(records) - num_games,
        guess_distribution={str(used): won_in[used] for used in range(1, max_turns + 1)} | {"loss": losses},
        pass_at=_pass_at(games_of, wins_of),
    )


def _pass_at(games_of: Counter[str], wins_of: Counter[str]) -> dict[str, tuple[float, float, float]]:
    # Quoted up to the smallest number of games that a secret has.
    most = min(games_of.values(), default=1)
    if most < 2:
        return {}
    found = {}
    for k in powers_of_two(most):
        chances = [pass_at(count, wins_of[secret], k) for secret, count in games_of.items()]
        found[str(k)] = (statistics.fmean(chances), *wilson_interval(math.fsum(chances), len(chances)))
    return found


def quoted_parts(played: Collection[str], answers: Iterable[str], strict: Collection[str] = ()) -> list[SplitName]:
    """Return the parts for which figures of these secrets may be quoted.

    `all` is left out unless every answer was played, since parts out of proportion would skew it.
    """
    quotable = {"all": frozenset(played).issuperset(answers), "strict": bool(strict)}
    return [part for part in RESULT_SPLITS if quotable.get(part, True)]


def figures_by_split(
    evaluation: Evaluation, split: Split, strata: Mapping[str, Collection[str]] = MappingProxyType({})
) -> dict[str, Figures]:
    """Compute the figures that are quoted: of the parts in `quoted_parts`, and of the strata that are not empty.

    A constrained evaluation has its own parts, `held_out_constrained` and `strict_constrained`, so it cannot be
    mistaken for a free one.
    """
    if evaluation.constrain != "none":
        strict = {STRICT_CONSTRAINED_PART: evaluation.figures(split.strict)} if split.strict else {}
        return {CONSTRAINED_PART: evaluation.figures(split.test)} | strict
    parts = quoted_parts(evaluation.secrets, split.named("all"), split.strict)
    further = {name: evaluation.figures(words) for name, words in strata.items() if words}
    return {part: evaluation.figures(split.named(part)) for part in parts} | further


def is_invalid(turn: TurnRecord) -> bool:
    """True if a turn had a readable guess that was not scored."""
    return turn.outcome.broke_rules and turn.outcome is not Outcome.MALFORMED


def _ratio(total: float, count: int) -> float | None:
    return total / count if count else None


@dataclass(frozen=True)
class RewardFigures:
    """Rewards of some games. `bin_edges` are those of a histogram, one more than there are `bin_counts`."""

    preset: str
    num_games: int
    mean: float
    std: float
    lowest: float
    highest: float
    below_zero: float
    bin_edges: tuple[float, ...]
    bin_counts: tuple[int, ...]


def reward_figures(records: Sequence[GameRecord], preset: str) -> RewardFigures | None:
    """Summarise the games' rewards; None if no game has one."""
    rewards = [record.reward for record in records if record.reward is not None]
    if not rewards:
        return None
    counts, edges = np.histogram(rewards, bins=10 if min(rewards) < max(rewards) else 1)
    return RewardFigures(
        preset=preset,
        num_games=len(rewards),
        mean=statistics.fmean(rewards),
        std=statistics.pstdev(rewards),
        lowest=min(rewards),
        highest=max(rewards),
        below_zero=sum(reward < 0 for reward in rewards) / len(rewards),
        bin_edges=tuple(edges.tolist()),
        bin_counts=tuple(counts.tolist()),
    )


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
    begins = f"{','.join(columns[:3])},".encode()
    with path.open("rb") as file:
        if file.read(len(begins)) not in (begins, b""):
            raise RunError(f"{path} holds something else than a table of this kind; name another {option}")


def _row(record: GameRecord, split: Split) -> dict[str, Any]:
    turns = record.turns
    regrets = [turn.regret for turn in turns if turn.regret is not None]
    return {
        "secret": record.secret,
        "split": split.part_of(record.secret),
        "won": None if record.failed else str(record.won).lower(),
        "turns_used": record.turns_used,
        "guesses": " ".join(turn.guess or "-" for turn in turns),
        "marks": " ".join(turn.marks or "-" for turn in turns),
        "outcomes": " ".join(turn.outcome.value for turn in turns),
        "regrets": " ".join("-" if turn.regret is None else repr(turn.regret) for turn in turns),
        "invalid_turns": sum(is_invalid(turn) for turn in turns),
        "malformed_turns": sum(turn.outcome is Outcome.MALFORMED for turn in turns),
        "repeated_turns": sum(turn.repeated for turn in turns),
        "clue_violating_turns": sum(turn.violates_clues for turn in turns),
        "mean_regret": sum(regrets) / len(regrets) if regrets else None,
        "stop_reason": record.stop_reason,
        "error": record.error,
    }
