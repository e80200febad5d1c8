"""Options of `play` and `eval`, on the command line and in Python, and what is asked by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import Field

from wordle_rl.config.base import ConfigError, Section
from wordle_rl.config.context import GameContext
from wordle_rl.config.evaluation import Constrain, EngineName, PatienceSettings
from wordle_rl.config.model import GameSettings
from wordle_rl.config.options import Address, Json, PlayersWords, Seed
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.evaluate.eval_secrets import named_secrets, split_secrets, starts_of
from wordle_rl.evaluate.leaderboard import read_board
from wordle_rl.evaluate.players import find_player, game_for, prompter_of, reply_bound, shown_name, words_of
from wordle_rl.evaluate.records import GAME_COLUMNS, check_table
from wordle_rl.game import Dictionary
from wordle_rl.policy.scripted import RANDOM_PLAYERS
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.reward import named_schedule
from wordle_rl.solver import Solver
from wordle_rl.words import load_words
from wordle_rl.words.split import SplitName


class PlayerOptions(Section):
    """Who plays, and how: what `play` and `eval` have in common."""

    player: Annotated[str, tyro.conf.arg(aliases=["--model"])]
    """bundled, solver, consistent, random, openai:MODEL (openai:ALIAS=MODEL shows it as ALIAS), a model or run
    directory, a hub model (USER/NAME or USER/NAME@REVISION), or your own player as module:attribute."""
    words: PlayersWords = None
    temperature: float | None = 0.0
    """Sampling temperature; 0 is greedy. None sends an endpoint neither temperature nor top_p, as OpenAI's reasoning
    models require."""
    max_completion_tokens: int | None = None
    """Token limit of a completion. Default: that of the model's run, else 512."""
    constrain: Constrain = "none"
    """`words` limits a model's guesses to listed words; greedy play then takes the likeliest one. `eval` keeps such
    results apart from all others."""
    dictionary: Dictionary | None = None
    """Cost of an unlisted guess. Default: as in the model's training, else strict."""
    hard_mode: bool = False
    """Later guesses must use every revealed hint. Default: as in the model's training. Not for the solver."""
    style: Style | str | None = None
    """Wording of the prompts: a built-in style or `module:attribute`. Default: the model's own, else english."""
    shape: Shape | None = None
    """Conversation shape. Default: the model's own, else transcript."""
    thinking: Thinking | None = None
    """Thinking in replies. Default: the model's own, else optional."""
    system_prompt: str | None = None
    """Text that replaces the style's own rules; {word_length}, {max_turns} and {example} (a well-formed reply) are
    filled in. Empty: no system message. Default: the model's own, else the style's."""
    base_url: Address = None

    def spec(self, seed: int, max_batch_size: int = 1024) -> PlayerSpec:
        """Return the player; it plays at most `max_batch_size` games at once."""
        sampling = SamplingSettings(
            temperature=self.temperature or 0.0,
            max_completion_tokens=reply_bound(self.player, self.max_completion_tokens),
            max_batch_size=max_batch_size,
        )
        return PlayerSpec(
            self.player,
            sampling,
            seed,
            constrain=self.constrain,
            base_url=self.base_url,
            endpoint_default_sampling=self.temperature is None,
        )

    @property
    def wording(self) -> dict[str, object]:
        """The wording that was asked for; None leaves a model its own."""
        return {name: getattr(self, name) for name in ("style", "shape", "thinking", "system_prompt")}

    def game(self) -> GameSettings | None:
        """Return the game that the player plays."""
        # None leaves a model the dictionary and the mode of its training.
        rules = {"dictionary": self.dictionary, "hard_mode": self.hard_mode or None}
        return game_for(self.player, self.wording | rules)


class EvalOptions(PlayerOptions):
    """Options of `eval`."""

    out: Path | None = None
    """Write every game to this file (JSON), for `compare` and `report`. Finished games are stored beside it
    (.games.jsonl), so the same command resumes with the missing ones. An existing file is replaced only by an
    evaluation of the same player and conditions that covers its secrets. Games of an endpoint stay stored; only those
    that failed are played again. {model} in the name stands for the player, {time} for the time of the call."""
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
    lenient: bool = False
    """Play every secret twice and show two rows: `strict`, and `lenient`, where a reply outside the grammar counts as
    the last word of the right length that stands out in it. For base models, which know words before they know the
    form. With --out, the games of the second are in OUT-lenient.json."""
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

    def asked(self, say: Callable[[str], None] = lambda _: None) -> Asked:
        """Return what is asked, and say what was left out.

        Options that do not go together are refused, before any game may cost money.
        """
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
        prompter = dataclasses.replace(prompter_of(player, words.word_length, self.game()), lenient=self.lenient)
        context = GameContext(words, known.split_of(words), prompter, Solver(words))
        if self.secrets is None:
            chosen = split_secrets(self.split, context.split, self.max_games)
        else:
            chosen = named_secrets(self.secrets, words, self.max_games, context.split.seed)
        if chosen.left_out:
            say(f"{self.secrets}: left out {chosen.left_out}")
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
