"""`eval`: play secrets and measure."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.eval_checkpoints import evaluate_checkpoints
from wordle_rl.cli.eval_games import evaluate_player
from wordle_rl.cli.eval_request import EvalRequest, Outputs, Wording, game_for
from wordle_rl.cli.eval_secrets import Source
from wordle_rl.cli.options import Address, Json, PlayersWords, Seed
from wordle_rl.config import (
    ConfigError,
    Constrain,
    EngineName,
    PatienceSettings,
    PlayerEvalSettings,
    SamplingSettings,
)
from wordle_rl.evaluate import ControlFacts
from wordle_rl.evaluate.entropy import match_models
from wordle_rl.evaluate.players import reply_bound
from wordle_rl.models.directory import is_model
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.samplers.simple import RANDOM_PLAYERS
from wordle_rl.words.split import SplitName


def eval_player(
    player: Annotated[str, tyro.conf.arg(aliases=["--model"])],
    words: PlayersWords = None,
    split: SplitName = "held_out",
    split_seed: int | None = None,
    out: Path | None = None,
    name: str | None = None,
    temperature: float | None = 0.0,
    constrain: Constrain = "none",
    match_entropy_of: Path | None = None,
    checkpoints: bool = False,
    base_url: Address = None,
    settings: Annotated[PlayerEvalSettings, tyro.conf.arg(name="")] = PlayerEvalSettings(),
    patience: Annotated[PatienceSettings, tyro.conf.arg(name="")] = PatienceSettings(),
    csv: Path | None = None,
    overwrite: bool = False,
    style: Style | str | None = None,
    shape: Shape | None = None,
    thinking: Thinking | None = None,
    system_prompt: str | None = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Let any player play secrets, and measure its games: six turns, strict dictionary, no retries.

    Args:
        player: solver, consistent, random, openai:MODEL (openai:ALIAS=MODEL to call it ALIAS in tables), a model or run
            directory, a model of the hub (USER/NAME, or USER/NAME@REVISION), or module:attribute, a player of yours.
        split: Which secrets to play. Of `all` with --max-games the figures are those of each part by itself.
        split_seed: Seed of the split; left out: that of the model's run, else 0.
        out: Write every game to this file (JSON), for `compare` and `report`. An existing file is replaced only if it
            holds an evaluation of the same player under the same conditions, on the same secrets or fewer. Finished
            games are stored beside it as they end (.games.jsonl), sampled ones a batch at a time, and the same command
            continues with what is missing. Once the file is written the stored games are removed; those of an endpoint
            stay, so that only games that were errors are played again.
        name: What to call the player in tables.
        temperature: 0 is greedy. None sends an endpoint neither temperature nor top_p, since OpenAI's reasoning models
            accept none but their defaults.
        constrain: `words` limits a model's guesses to listed words, greedy play to the likeliest of them; such results
            are kept apart from all others.
        match_entropy_of: Draw the player at the temperature at which its games are as random as this model's at
            temperature 1, or at --temperature: a control for a gain in sampled play. It is found by bisection over
            games of validation secrets.
        checkpoints: Of a run: evaluate its start, every checkpoint that grpo.save_total_limit kept, and its end, each
            in a file of the directory --out (left out: eval/steps of the run), for `compare` to plot.
        csv: Write a row per game to this file, unless it holds something else.
        overwrite: Discard games played before, and replace whatever --out names.
        style: Wording, a built-in style or `module:attribute`; left out: the model's own, else english.
        shape: Conversation shape; left out: the model's own, else transcript.
        thinking: Left out: the model's own, else optional.
        system_prompt: Text in place of the style's own rules; {word_length}, {max_turns} and {example}, a
            well-formed reply, are filled in. Empty: no system message. Left out: the model's own, else the style's.
    """
    sampling = SamplingSettings(
        temperature=0.0 if temperature is None else temperature,
        max_completion_tokens=reply_bound(player, settings.max_completion_tokens),
        max_batch_size=settings.max_batch_size,
    )
    if player == "solver" and settings.hard_mode:
        raise ConfigError("the solver does not keep to hard mode: its best guess may leave out a hint; give a model")
    wording = Wording(style, shape, thinking, system_prompt, settings.dictionary, settings.hard_mode or None)
    source = Source(player, words, split_seed, split, settings.max_games, settings.games_per_secret, settings.secrets)
    control = None
    if match_entropy_of is not None:
        limited = constrain != "none"
        sampling, control = _matched(
            player, match_entropy_of, sampling, source, wording, settings.engine, seed, constrained=limited
        )
    endpoint_default_sampling = temperature is None
    asked = EvalRequest(
        player,
        name,
        wording,
        sampling,
        patience,
        base_url,
        endpoint_default_sampling,
        settings.engine,
        seed,
        constrain == "words",
        settings.device_map,
        settings.reading == "lenient",
    )
    outputs = Outputs(out, csv, overwrite)
    if checkpoints:
        evaluate_checkpoints(asked, source, outputs, settings, as_json)
    else:
        evaluate_player(asked, source, outputs, settings, as_json, control)


def resumes(player: str, out: Path | None = None, **_: object) -> bool:
    """Finished games are kept beside the file; the random players' are not."""
    return out is not None and player not in RANDOM_PLAYERS


def _matched(
    player: str,
    other: Path,
    sampling: SamplingSettings,
    source: Source,
    wording: Wording,
    engine: EngineName,
    seed: int,
    *,
    constrained: bool,
) -> tuple[SamplingSettings, ControlFacts]:
    """The sampling at which a player's games are as random as another model's, and what that controls for."""
    if engine != "transformers" or constrained or not is_model(player):
        raise ConfigError(
            "--match-entropy-of draws a model of this machine by transformers, its guesses not limited; give its "
            "directory, and leave out --engine and --constrain"
        )
    asked = sampling if sampling.temperature else sampling.model_copy(update={"temperature": 1.0})
    with console.messages.status("finding the temperature of equal entropy…"):
        games = game_for(player, asdict(wording)), game_for(str(other), asdict(wording))
        match = match_models((player, str(other)), games, asked, source.settings(), seed)
    console.messages.print(
        f"temperature {match.temperature:.3g}: {match.nats:.2f} nats a game, {other} {match.target:.2f} at "
        f"{asked.temperature:g}",
        highlight=False,
        markup=False,
    )
    control = ControlFacts("equal_entropy", str(other), None, match.nats, match.target, asked.temperature)
    return sampling.model_copy(update={"temperature": match.temperature}), control
