"""`eval`: let any player play secrets; keep, measure and show its games."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import Field

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json, Seed
from wordle_rl.cli.play import PlayerOptions
from wordle_rl.config.base import ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.config.evaluation import EngineName, PatienceSettings
from wordle_rl.evaluate.asked import Asked
from wordle_rl.evaluate.entropy import at_equal_entropy
from wordle_rl.evaluate.eval_secrets import named_secrets, split_secrets, starts_of
from wordle_rl.evaluate.forgetting import English, english_of
from wordle_rl.evaluate.journal import evaluate_to_file, open_journal
from wordle_rl.evaluate.leaderboard import add_row, read_board, row_of
from wordle_rl.evaluate.players import (
    find_player,
    notes_on,
    open_player,
    prompter_of,
    shown_name,
    words_of,
)
from wordle_rl.evaluate.records import GAME_COLUMNS, Evaluation, check_table, save_csv
from wordle_rl.evaluate.results_table import results_table
from wordle_rl.policy.base import Sampler
from wordle_rl.policy.scripted import RANDOM_PLAYERS
from wordle_rl.preflight.template import check_wording
from wordle_rl.report import terminal
from wordle_rl.report.terminal import Results
from wordle_rl.reward import named_schedule
from wordle_rl.solver import Solver
from wordle_rl.train.checkpoints import models_of_stage
from wordle_rl.words import load_words
from wordle_rl.words.split import SplitName


class EvalOptions(PlayerOptions):
    """Options of `eval`."""

    out: Path | None = None
    """Write every game to this file (JSON), for `compare` and `report`. Finished games are stored beside it
    (.games.jsonl), so the same command resumes with the missing ones. An existing file is replaced only by an
    evaluation of the same player and conditions that covers its secrets. Games of an endpoint stay stored; only those
    that failed are played again."""
    csv: Path | None = None
    """Write one row per game to this file. Another kind of file is not overwritten."""
    overwrite: bool = False
    """Discard stored games, and replace the file of --out whatever it holds."""
    board: Path | None = None
    """Also add a row to this board (JSON): player, conditions, command, machine, date, wins. `benchmarks/board.json` is
    that of the project."""
    name: str | None = None
    """Name of the player in tables."""
    split: SplitName = "held_out"
    """Part of the split whose secrets to play. With `all` and --max-games, figures are shown for each part."""
    split_seed: int | None = None
    """Seed of the split. Default: that of the model's run, else 0."""
    secrets: str | None = None
    """Play other secrets instead of a part of the split: `outside` (listed words that are not answers), or a file of
    one word per line, such as a public list. Secrets that the player was trained on get their own column."""
    max_games: int = Field(0, ge=0)
    """Play at most this many secrets of each part. 0: all."""
    games_per_secret: int = Field(1, ge=1)
    """Games per secret. Tables then show pass@k, the chance that one of k games is won, for k = 1, 2, 4 … More games
    also give more power to compare players that sample."""
    prefix_turns: int = Field(0, ge=0)
    """Begin each game on a board with 0 to this many earlier turns: answers that fit all marks before them. Figures are
    shown by their number."""
    match_entropy_of: Path | None = None
    """Sample at the temperature at which the player's games are as random as this model's at temperature 1 (or
    --temperature): a control for a gain in sampled play. Found over games of validation secrets."""
    checkpoints: bool = False
    """Evaluate every checkpoint that a stage has kept (save_total_limit), and its model: `eval RUN/STAGE
    --checkpoints`. --out is then a directory, with a file for each."""
    no_regret: bool = False
    """Do not measure regret against the solver."""
    sampled_regret: bool = False
    """Measure regret in sampled games, too. Each opener takes half a second."""
    reward: str | None = None
    """Also score the games with this reward preset, and show mean, range, fraction below zero and histogram."""
    engine: EngineName = "transformers"
    """Engine that samples a model's tokens: `transformers`, `vllm` (16 bits, on a GPU) or `mlx`."""
    dtype: Literal["auto", "float32", "bfloat16"] | None = None
    """Type of the model's weights; `auto`: as stored. Default: as its run loads it, else as stored."""
    max_batch_size: int = Field(1024, ge=1)
    """Play at most this many games at once; fewer if memory is short."""
    patience: Annotated[PatienceSettings, tyro.conf.arg(name="")] = PatienceSettings()
    """Concurrency and timeouts."""
    seed: Seed = 0
    as_json: Json = False

    def asked(self) -> Asked:
        """Return what is asked. Options that do not go together are refused, before any game may cost money."""
        # Held-out words mean something only under the split of the player's own training.
        known = words_of(self.player, self.words)
        if self.split_seed is not None:
            known = known.model_copy(update={"split_seed": self.split_seed})
        spec = self.spec(self.seed, self.max_batch_size)
        spec = dataclasses.replace(spec, engine=self.engine, patience=self.patience)
        player = find_player(spec, self.dtype)
        if self.games_per_secret > 1 and not player.draws:
            raise ConfigError(
                f"{self.player} plays the same game again because nothing is sampled; drop --games-per-secret, or "
                "sample with --temperature above 0"
            )
        # What comes after hours of play is checked before them.
        if self.csv is not None:
            check_table(self.csv, GAME_COLUMNS)
        if self.board is not None:
            read_board(self.board)
        if self.reward is not None:
            named_schedule(self.reward)
        words = load_words(known.source)
        prompter = prompter_of(player, words.word_length, self.game())
        context = GameContext(words, known.split_of(words), prompter, Solver(words))
        if self.secrets is None:
            chosen = split_secrets(self.split, context.split, self.max_games)
        else:
            chosen = named_secrets(self.secrets, words, self.max_games, context.split.seed)
        if chosen.left_out:
            _say(f"{self.secrets}: left out {chosen.left_out}")
        return Asked(
            context,
            starts_of(chosen.words * self.games_per_secret, context, self.prefix_turns, self.seed),
            player,
            # What a random player draws depends on which games are in play.
            batch_size=None if player.name in RANDOM_PLAYERS else self.max_batch_size,
            boards=f"0 to {self.prefix_turns} consistent turns, seed {self.seed}" if self.prefix_turns else None,
            reward=self.reward,
            regret=not self.no_regret and (self.sampled_regret or not player.is_sampled),
            name=self.name or shown_name(self.player),
            parts=chosen.parts,
        )


def eval_player(asked: Annotated[EvalOptions, tyro.conf.arg(name="")]) -> None:
    """Let any player play secrets, and measure its games: six turns, strict dictionary, no retries."""
    if asked.checkpoints:
        _evaluate_checkpoints(asked)
        return
    if asked.match_entropy_of is None:
        what = asked.asked()
    else:
        # Greedy play has no entropy to match, so the default is the temperature of training.
        own = asked.model_copy(update={"temperature": asked.temperature or 1.0})
        other = own.model_copy(update={"player": str(asked.match_entropy_of)})
        with console.messages.status("finding the temperature of equal entropy…"):
            what = at_equal_entropy(own.asked(), other.asked(), _say)
    evaluation, english = _evaluated(asked, what)
    shown = Results.of(evaluation, what.context.split, asked.secrets or asked.split, english)
    if asked.board is not None:
        add_row(asked.board, row_of(evaluation, what.context.words.name, shown.part))
    console.show(shown.to_json(), shown.lines(), asked.as_json)


def _evaluate_checkpoints(asked: EvalOptions) -> None:
    if asked.csv is not None or asked.match_entropy_of is not None or asked.board is not None:
        raise ConfigError("--csv, --board and --match-entropy-of are for one player; drop them, or --checkpoints")
    found = {}
    for name, model in models_of_stage(Path(asked.player)).items():
        out = None if asked.out is None else asked.out / f"{name}.json"
        one = asked.model_copy(update={"player": str(model), "name": name, "out": out})
        what = one.asked()
        found[name] = Results.of(_evaluated(one, what)[0], what.context.split, one.secrets or one.split).figures
    told = {name: {part: asdict(each) for part, each in parts.items()} for name, parts in found.items()}
    table = terminal.figures_table(results_table(found), f"Checkpoints of {asked.player}")
    console.show({"stage": asked.player, "checkpoints": told}, [table], asked.as_json)


def _evaluated(options: EvalOptions, asked: Asked) -> tuple[Evaluation, English | None]:
    notes = [*notes_on(options.player, asked.context.prompter, asked=options.style is not None)]
    if options.system_prompt is not None:  # a model's own prompt was checked before its training
        notes += [f"{finding.level}: {finding.message}" for finding in check_wording(asked.context.prompter)]
    for note in notes:
        _say(note)
    english: list[English | None] = []  # measured before the model is gone

    @contextmanager
    def opened(seed: int) -> Iterator[tuple[Sampler, int | None]]:
        with open_player(asked, seed) as (sampler, max_prompt_tokens):
            if note := getattr(sampler, "whose_sampling", ""):
                _say(note)
            yield sampler, max_prompt_tokens
            english.append(None if options.checkpoints else english_of(sampler))

    with open_journal(options.out, asked, _say, overwrite=options.overwrite) as journal:
        kept = [] if journal is None else journal.kept(asked)
        with terminal.game_progress(console.messages, f"{asked.player.name} plays", len(asked.starts), kept) as count:
            evaluation = evaluate_to_file(asked, opened, options.out, journal, count, _say)
    if options.csv is not None:
        save_csv(evaluation, asked.context.split, options.csv)
    return evaluation, english[0] if english else None


def _say(text: str) -> None:
    console.messages.print(text, soft_wrap=True)
