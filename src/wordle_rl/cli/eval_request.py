"""Request of `eval`: player, secrets, and files for the games."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wordle_rl.config import (
    ConfigError,
    EngineName,
    GameSettings,
    PatienceSettings,
    SamplingSettings,
    seed_after,
)
from wordle_rl.evaluate import (
    GAME_COLUMNS,
    EvalConditions,
    Evaluation,
    EvaluationError,
    check_table,
    differences,
    journal_path,
    num_kept,
    occurrences,
)
from wordle_rl.evaluate.players import Player, make_player
from wordle_rl.game import Dictionary
from wordle_rl.models.directory import find_model, game_of, is_model
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.samplers.simple import PLAYER_NAMES, RANDOM_PLAYERS, is_own_player
from wordle_rl.solver import Solver
from wordle_rl.words import WordList


@dataclass(frozen=True)
class Wording:
    """The wording of prompts, and the rules, that were asked for; None: not asked for."""

    style: Style | str | None
    shape: Shape | None
    thinking: Thinking | None
    system_prompt: str | None = None
    dictionary: Dictionary | None = None
    hard_mode: bool | None = None


@dataclass(frozen=True)
class EvalRequest:
    """Player and its settings: a player as `make_player` knows it, `name` as tables call it."""

    player: str
    name: str | None
    wording: Wording
    sampling: SamplingSettings
    patience: PatienceSettings
    base_url: str | None = None
    endpoint_default_sampling: bool = False
    engine: EngineName = "transformers"
    seed: int = 0
    constrained: bool = False
    device_map: str | None = None
    lenient: bool = False

    @property
    def draws(self) -> bool:
        """True if the player may draw its words at random, and so play a secret differently the next time."""
        return (
            self.player in RANDOM_PLAYERS
            or is_own_player(self.player)
            or (self.player != "solver" and (self.endpoint_default_sampling or self.sampling.temperature > 0))
        )

    def conditions(self, prompter: Prompter) -> EvalConditions:
        """Prompting and sampling of the player, as its evaluation records it."""
        seed = self.seed if self.draws else None
        worded = EvalConditions.of(prompter)
        if self.player in PLAYER_NAMES or is_own_player(self.player):
            return dataclasses.replace(worded, seed=seed)
        engine = self.engine if is_model(self.player) else None
        return worded.drawing(
            self.sampling,
            endpoint_default_sampling=self.endpoint_default_sampling,
            engine=engine,
            seed=seed,
            constrained=self.constrained,
        )

    def going_on(self, outputs: Outputs) -> EvalRequest:
        """A copy whose seed is shifted by the number of kept games, so that the remaining games are fresh samples."""
        if outputs.json is None or outputs.overwrite or not (self.sampling.temperature or is_own_player(self.player)):
            return self
        return dataclasses.replace(self, seed=seed_after(self.seed, num_kept(journal_path(outputs.json))))

    def make(self, words: WordList, solver: Solver) -> Player:
        """The player itself; raises what `make_player` raises."""
        who = make_player(
            self.player,
            words,
            game_for(self.player, asdict(self.wording)),
            self.sampling,
            solver=solver,
            base_url=self.base_url,
            endpoint_default_sampling=self.endpoint_default_sampling,
            patience=self.patience,
            seed=self.seed,
            engine=self.engine,
            constrained=self.constrained,
            device_map=self.device_map,
        )
        return dataclasses.replace(who, prompter=dataclasses.replace(who.prompter, lenient=self.lenient))


def game_for(player: str, asked: Mapping[str, Any]) -> GameSettings | None:
    """The game settings asked for, on top of those of a player that is a model; None if nothing was asked for.

    Args:
        player: As `make_player` knows it.
        asked: Settings by name; None: not asked for.
    """
    update = {name: value for name, value in asked.items() if value is not None}
    if not update:
        return None
    own = game_of(find_model(Path(player))) if is_model(player) else None
    return (own or GameSettings()).model_copy(update=update)


@dataclass(frozen=True)
class Outputs:
    """Files an evaluation is written to."""

    json: Path | None
    csv: Path | None
    overwrite: bool

    def check(self) -> None:
        """Refuse places that cannot be written before any game is played.

        Raises:
            ConfigError: If a file is a directory, lies below a file, or its directory may not be written.
            RunError: If `csv` holds anything but an earlier evaluation.
        """
        for path in (self.json, self.csv):
            if path is None:
                continue
            nearest = next(parent for parent in path.absolute().parents if parent.exists())
            if path.is_dir() or not nearest.is_dir() or not os.access(nearest, os.W_OK):
                raise ConfigError(f"{path} cannot be written; name another file")
        if self.json is not None and self.json == self.csv:
            raise ConfigError(f"--out and --csv both name {self.csv}; give each a file of its own")
        if self.csv is not None:
            check_table(self.csv, GAME_COLUMNS)

    def check_replaced(self, planned: Evaluation, secrets: Sequence[str]) -> None:
        """Refuse to write over anything but an earlier evaluation of the same player under the same conditions.

        The new evaluation may have more secrets than the old one, but must have all of its secrets.

        Args:
            planned: The evaluation that is to come, without its games.
            secrets: What it will play.

        Raises:
            ConfigError: If `json` holds something else and that is not to be overwritten.
        """
        if self.json is None or self.overwrite or not self.json.exists():
            return
        fix = "name another --out, or pass --overwrite"
        try:
            before = Evaluation.load(self.json)
        except EvaluationError:
            raise ConfigError(f"{self.json} holds no evaluation that can be read; {fix}") from None
        missing = set(occurrences(record.secret for record in before.records)) - set(occurrences(secrets))
        differs = {
            "": before.player != planned.player,
            ", with other words": before.fingerprint != planned.fingerprint,
            ", with another part of them": before.parts != planned.parts,
            ", with other rules": before.rules.in_effect != planned.rules.in_effect,
            ", with another constraint": before.constrain != planned.constrain,
            f", without {len(missing):,} of its games": bool(missing),
        }
        changed = differences(before.conditions, planned.conditions)
        differs |= {f", with {name} {now} instead of {was}": True for name, (was, now) in changed.items()}
        if any(differs.values()):
            how = "".join(text for text, there in differs.items() if there)
            raise ConfigError(
                f"{self.json} holds an evaluation of {before.player}, this would be one of {planned.player}{how}; {fix}"
            )
