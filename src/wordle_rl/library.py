"""What a program does with a run and its players: train, evaluate, play. `wordle_rl` exports these functions.

They ask for what `wordle-rl run` and `wordle-rl eval` ask for, and keep the same laws: the split of the player's own
training, its wording, its word list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import describe, load_config
from wordle_rl.evaluate.journal import evaluate_to_file, open_journal
from wordle_rl.evaluate.options import EvalOptions
from wordle_rl.evaluate.play import evaluate
from wordle_rl.evaluate.players import OpenModel, open_player
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.rollout import Trajectory, play
from wordle_rl.runs import Run
from wordle_rl.words.split import SplitName


def train_model(
    config: str | Path,
    out: str | Path,
    settings: Mapping[str, Any] | None = None,
    *,
    until: str = "report",
    overwrite: bool = False,
    quiet: bool = False,
) -> Run:
    """Run a whole chain: teacher games, stages of training, evaluation, report. The same call resumes.

    Args:
        config: Name of a preset such as `quickstart`, or a config file.
        out: The run directory.
        settings: Values by setting, such as `{"stages": ["sft", "grpo"], "grpo.steps": 100}`. They win over the file.
        until: Last part to run: `traces`, a stage such as `sft`, or `report`.
        overwrite: Remove an earlier run in that directory first.
        quiet: Show no progress on standard error.

    Returns:
        The run. `open_model` and `evaluate_player` take its `directory`.

    Raises:
        ConfigError: If a setting is wrong, or the run cannot work; it names the settings.
    """
    from wordle_rl.pipeline import Pipeline  # needs torch

    overrides = {tuple(name.split(".")): value for name, value in (settings or {}).items()}
    Pipeline(load_config(config, overrides), Path(out), Console(stderr=True, quiet=quiet), overwrite=overwrite)(until)
    return Run(Path(out))


def evaluate_player(
    player: str | Path,
    *,
    split: SplitName = "held_out",
    max_games: int = 0,
    temperature: float = 0.0,
    seed: int = 0,
    out: str | Path | None = None,
) -> Evaluation:
    """Play the secrets of a part of the split, one game each, and keep every game.

    Args:
        player: `bundled`, `solver`, `random`, `openai:MODEL`, a model or run directory, or your own as
            `module:attribute`.
        split: Part of the split of the player's own training: `held_out`, `val`, `train`, `strict` or `all`.
        max_games: Most secrets of each part. 0: all.
        temperature: Sampling temperature of a model; 0 is greedy.
        out: Write every game to this file. Finished games are stored beside it, so the same call resumes.

    Returns:
        The evaluation. Its `figures()` are rates with intervals.

    Raises:
        ConfigError: If nobody has this name, or the player cannot play as asked.
    """
    kept = None if out is None else Path(out)
    given = {"split": split, "max_games": max_games, "temperature": temperature, "seed": seed, "out": kept}
    try:
        asked = EvalOptions.model_validate({"player": str(player), **given}).asked()
    except ValidationError as error:
        raise ConfigError(describe(error)) from None
    with open_journal(kept, asked, lambda _: None) as journal:
        return evaluate_to_file(asked, partial(open_player, asked), kept, journal)


def play_games(player: OpenModel | str | Path, secrets: Sequence[str]) -> list[Trajectory]:
    """Play one game per secret, in lockstep. A repeated secret is played again.

    Args:
        player: A model that `open_model` opened, at its temperature; or a name as in `evaluate_player`, greedily.

    Returns:
        A trajectory per secret, in that order: the transcript and, of a model, its tokens as sampled.
    """
    starts = [*map(InitialState, secrets)]
    if isinstance(player, OpenModel):
        return play(starts, player.context.words, player.context.prompter, player.sampler)
    asked = replace(EvalOptions(player=str(player)).asked(), starts=starts)
    return evaluate(asked, partial(open_player, asked), lambda trajectory: trajectory)
