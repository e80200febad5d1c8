"""`EvalOptions`: what a program or the command asks of a player, and the evaluation that this is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import tyro
from pydantic import Field

from wordle_rl.config.base import ConfigError, Section
from wordle_rl.config.context import GameContext
from wordle_rl.config.evaluation import Constrain, EngineName, PatienceSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.evaluate.eval_secrets import named_secrets, split_secrets, starts_of
from wordle_rl.evaluate.players import find_player, game_for, prompter_of, reply_bound, shown_name, words_of
from wordle_rl.game import Dictionary
from wordle_rl.policy.scripted import RANDOM_PLAYERS
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.reward import named_schedule
from wordle_rl.solver import Solver
from wordle_rl.words import load_words
from wordle_rl.words.split import SplitName


class EvalOptions(Section):
    """Who plays what, and how, as a program or a command asks for it."""

    player: Annotated[str, tyro.conf.arg(aliases=["--model"])]
    """bundled, solver, consistent, random, openai:MODEL (openai:ALIAS=MODEL shows it as ALIAS), a model or run
    directory, a hub model (USER/NAME or USER/NAME@REVISION), or your own player as module:attribute."""
    name: str | None = None
    """Name of the player in tables."""
    words: str | None = None
    """Word list. Default: that of the model's run, else `default`."""
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
    """Games per secret. More games give more power to compare players that sample."""
    prefix_turns: int = Field(0, ge=0)
    """Begin each game on a board with 0 to this many earlier turns: answers that fit all marks before them. Figures are
    shown by their number."""
    temperature: float | None = 0.0
    """Sampling temperature; 0 is greedy. None sends an endpoint neither temperature nor top_p, as OpenAI's reasoning
    models require."""
    max_completion_tokens: int | None = None
    """Token limit of a completion. Default: that of the model's run, else 512."""
    constrain: Constrain = "none"
    """`words` limits a model's guesses to listed words; greedy play then takes the likeliest one. Such results are kept
    apart from all others."""
    no_regret: bool = False
    """Do not measure regret against the solver."""
    sampled_regret: bool = False
    """Measure regret in sampled games, too. Each opener takes half a second."""
    reward: str | None = None
    """Also score the games with this reward preset, and show mean, range, fraction below zero and histogram."""
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
    engine: EngineName = "transformers"
    """Engine that samples a model's tokens: `transformers`, `vllm` (16 bits, on a GPU) or `mlx`."""
    dtype: Literal["auto", "float32", "bfloat16"] | None = None
    """Type of the model's weights; `auto`: as stored. Default: as its run loads it, else as stored."""
    max_batch_size: int = Field(1024, ge=1)
    """Play at most this many games at once; fewer if memory is short."""
    base_url: str | None = None
    """Address or provider of openai:MODEL."""
    patience: Annotated[PatienceSettings, tyro.conf.arg(name="")] = PatienceSettings()
    """Concurrency and timeouts."""
    seed: int = 0
    """Random seed."""

    def asked(self, say: Callable[[str], None] = lambda _: None) -> Asked:
        """Return what is asked. Options that do not go together are refused, before any game may cost money.

        `say` is told which words of a file are left out.
        """
        # Held-out words mean something only under the split of the player's own training.
        known = words_of(self.player, self.words)
        if self.split_seed is not None:
            known = known.model_copy(update={"split_seed": self.split_seed})
        sampling = SamplingSettings(
            temperature=self.temperature or 0.0,
            max_completion_tokens=reply_bound(self.player, self.max_completion_tokens),
            max_batch_size=self.max_batch_size,
        )
        spec = PlayerSpec(
            self.player,
            sampling,
            self.seed,
            engine=self.engine,
            constrain=self.constrain,
            base_url=self.base_url,
            endpoint_default_sampling=self.temperature is None,
            patience=self.patience,
        )
        player = find_player(spec, self.dtype)
        if self.games_per_secret > 1 and not player.draws:
            raise ConfigError(
                f"{self.player} plays the same game again because nothing is sampled; drop --games-per-secret, or "
                "sample with --temperature above 0"
            )
        # What comes after hours of play is checked before them.
        if self.reward is not None:
            named_schedule(self.reward)
        wording = {name: getattr(self, name) for name in ("style", "shape", "thinking", "system_prompt", "dictionary")}
        game = game_for(self.player, {**wording, "hard_mode": self.hard_mode or None})
        words = load_words(known.source)
        prompter = prompter_of(player, words.word_length, game)
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
