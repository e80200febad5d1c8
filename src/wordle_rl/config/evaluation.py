"""Evaluation, in a run and of endpoints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wordle_rl.config.base import Count, Section
from wordle_rl.config.engine import EngineName
from wordle_rl.game import Dictionary

Constrain = Literal["none", "words"]
"""Limit on the tokens of a completion: nothing, or that a guess, once opened, must be a listed word."""

Variant = Literal["greedy", "constrained", "sampled"]
"""Evaluation of a model in a run: greedy, with guesses limited to listed words, or sampled at temperature 1."""

PrefixChoice = Literal["consistent", "random"]
"""Earlier guesses on a board: answers that fit all marks before them, or any answers."""


class PlaySettings(Section):
    """Extent and figures of an evaluation."""

    max_games: int = Field(0, ge=0)
    """Play at most this many secrets of each part; 0: all."""
    max_batch_size: int = Field(1024, ge=1)
    """Most games played at once; fewer where memory has no room for them."""
    regret: bool = True
    """Regret is measured against the solver; `--no-` leaves it out (of a run: `--eval.no-regret`)."""
    engine: EngineName = "transformers"
    """Engine that draws a model's tokens: `transformers`, `vllm`, which computes in 16 bits on a GPU, or `mlx`."""


class EvalSettings(PlaySettings):
    """Evaluation in a run."""

    base: bool = False
    """Evaluate the model of model.path too, as it was before the run; without SFT that is always done."""
    constrained: bool = False
    """Play held-out secrets once more, each guess the likeliest listed word; shown apart from the rest."""
    sampled: bool = False
    """Play every secret once more at temperature 1, guesses not limited to listed words. Tables show the win rate as
    T = 1 beside greedy play. Regret is not measured in these games."""

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The ways in which each model of the run is evaluated."""
        constrained: tuple[Variant, ...] = ("constrained",) if self.constrained else ()
        sampled: tuple[Variant, ...] = ("sampled",) if self.sampled else ()
        return ("greedy", *constrained, *sampled)


def evaluation_name(model: str, variant: Variant) -> str:
    """Return the stem of the file in `eval/`.

    Examples:
        >>> evaluation_name("sft", "greedy"), evaluation_name("sft", "sampled")
        ('sft', 'sft-sampled')
    """
    return model if variant == "greedy" else f"{model}-{variant}"


class PlayerEvalSettings(PlaySettings):
    """Evaluation of one player by itself."""

    max_completion_tokens: int | None = Field(None, ge=1)
    """Token limit of a completion; None: that of the model's run, else 512."""
    games_per_secret: Count = Field(1, ge=1)
    """Games per secret: more of them give more power to compare players that sample."""
    secrets: str | None = None
    """Play other secrets than a part of the split: `outside` (listed words that are no answers) or a file with a word
    per line, such as a public list. Those that the player was trained on have a column of their own."""
    prefix_turns: int = Field(0, ge=0, le=19)
    """Begin each game at a board with 0 to this many earlier turns; figures stand apart by their number."""
    prefix_choice: PrefixChoice = "consistent"
    """Earlier guesses of prefix_turns: answers that fit all marks before them, or `random` ones, as in training."""
    dictionary: Dictionary | None = None
    """Cost of an unlisted guess; None: as the model was trained, else strict."""
    hard_mode: bool = False
    """Every revealed hint must be used in later guesses; left out: as the model was trained. Not for the solver."""
    reading: Literal["strict", "lenient"] = "strict"
    """Reading of replies: `lenient` finds a guess in its tags whatever stands around it, such as prose before it or a
    full stop after it, and the table shows the share of malformed turns by both readings. For models that were not
    trained here; results are quoted for `strict`."""
    reward: str | None = None
    """Score the games by this reward preset too, and show the distribution: mean, range, share below zero, histogram.
    """
    top_guesses: int = Field(5, ge=0)
    """Show this many of the words guessed most."""
    device_map: str | None = None
    """Devices of a model on this machine, as transformers places them: `auto` over all GPUs and main memory, `cpu`,
    `cuda:1`. None: the first GPU, else the processor."""


class PatienceSettings(Section):
    """Concurrency and time-outs of an endpoint, and the time of an evaluation."""

    concurrency: int = Field(16, ge=1)
    """Games an endpoint plays at once, each at its own pace."""
    timeout_s: float = Field(120.0, gt=0)
    """Time an endpoint has for one request, in seconds; it is tried again three times."""
    game_timeout_s: float = Field(600.0, gt=0)
    """Time an endpoint has for one game, in seconds; a longer one is an error, never a loss."""
    max_minutes: float = Field(0.0, ge=0)
    """Time for all games, in minutes; those not finished by then are errors. 0: no bound. A model on this machine
    plays its games in batches of --max-batch-size, and of a batch that is cut short no game counts."""
    max_failures: int = Field(32, ge=0)
    """Stop asking an endpoint after this many errors in a row. 0: never stop."""
