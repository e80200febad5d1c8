"""Arguments of `eval` and `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from wordle_rl.cli.options import Address, Json, PlayersWords, Seed
from wordle_rl.commands import evaluating as command
from wordle_rl.commands.eval_request import Asked, Outputs, Source, Wording
from wordle_rl.config import Constrain, PatienceSettings, PlayerEvalSettings, SamplingSettings
from wordle_rl.evaluate.players import reply_bound
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.words.split import SplitName


def evaluate(
    player: Annotated[str, tyro.conf.arg(aliases=["--model"])],
    words: PlayersWords = None,
    split: SplitName = "held_out",
    split_seed: int | None = None,
    out: Path | None = None,
    name: str | None = None,
    temperature: float | None = 0.0,
    constrain: Constrain = "none",
    base_url: Address = None,
    settings: Annotated[PlayerEvalSettings, tyro.conf.arg(name="")] = PlayerEvalSettings(),
    patience: Annotated[PatienceSettings, tyro.conf.arg(name="")] = PatienceSettings(),
    csv: Path | None = None,
    overwrite: bool = False,
    style: Style | None = None,
    shape: Shape | None = None,
    thinking: Thinking | None = None,
    system_prompt: str | None = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Play secrets and measure: six turns, strict dictionary, no retries.

    Args:
        player: solver, random, openai:MODEL, or a model or run directory.
        split: Which secrets to play. Of `all` with --max-games the figures are those of each part by itself.
        split_seed: Seed of the split; left out: that of the run that a model lies in, else 0.
        out: Write every game to this file (JSON), for `compare` and `report`. An existing file is replaced only if it
            holds an evaluation of the same player under the same conditions, on the same secrets or fewer. Finished
            games are stored beside it as they end (.games.jsonl), sampled ones a batch at a time, and the same command
            continues with what is missing. Once the file is written the stored games are removed; those of an endpoint
            stay, so that only games that were errors are played again.
        name: What to call the player in tables.
        temperature: 0 is greedy. None sends an endpoint neither temperature nor top_p, since OpenAI's reasoning models
            accept none but their defaults.
        constrain: `words` limits a model's guesses to listed words; such results are kept apart from all others.
        csv: Write a row per game to this file, unless it holds something else; `compare` reads it too.
        overwrite: Discard games played before, and replace whatever --out names.
        style: Wording; left out: the model's own, else english.
        shape: Conversation shape; left out: the model's own, else transcript.
        thinking: Left out: the model's own, else optional.
        system_prompt: Text told instead of the style's own rules; {word_length}, {max_turns} and {example}, a
            well-formed reply, are filled in. Empty: no system message. Left out: the model's own, else the style's.
    """
    sampling = SamplingSettings(
        temperature=0.0 if temperature is None else temperature,
        max_completion_tokens=reply_bound(player, settings.max_completion_tokens),
        max_batch_size=settings.max_batch_size,
    )
    wording = Wording(style, shape, thinking, system_prompt)
    endpoint_default_sampling = temperature is None
    asked = Asked(
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
    )
    source = Source(player, words, split_seed, split, settings.max_games, settings.games_per_secret)
    command.evaluate_player(asked, source, Outputs(out, csv, overwrite), settings.regret, as_json)


def compare(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    names: tuple[str, ...] = (),
    csv: Path | None = None,
    top: int = 20,
    as_json: Json = False,
) -> None:
    """Compare evaluations on the words all of them played: figures, and McNemar's exact test, Tango's interval and a
    paired bootstrap of each against the first.

    Args:
        runs: Evaluation files (JSON or CSV), two or more; the first is the base.
        names: What to call them; left out: their own names.
        csv: Also write a row per evaluation to this file, unless it holds something else.
        top: Words shown, those that differ most; 0: none.
    """
    command.compare_files(runs, names, csv, top, as_json)
