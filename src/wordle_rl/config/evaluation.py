"""Evaluation, in a run and of endpoints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wordle_rl.config.base import Count, Section
from wordle_rl.config.engine import EngineName

Constrain = Literal["none", "words"]
"""Limit on the tokens of a completion: nothing, or that a guess, once opened, must be a listed word."""


class PlaySettings(Section):
    """Extent and figures of an evaluation."""

    max_games: int = Field(0, ge=0)
    """Play only so many secrets of each part; 0: all."""
    max_batch_size: int = Field(1024, ge=1)
    """Games played at once."""
    regret: bool = True
    """Regret is measured against the solver; `--no-` leaves it out (of a run: `--eval.no-regret`)."""
    engine: EngineName = "transformers"
    """Engine that draws a model's tokens: `transformers`, or `vllm`, which computes in 16 bits on a GPU."""


class EvalSettings(PlaySettings):
    """Evaluation in a run."""

    max_completion_tokens: int = Field(512, ge=1)
    """Bound on one turn's reply."""
    base: bool = False
    """Evaluate the model of model.path too, as it was before the run; without SFT that is always done."""
    constrained: bool = False
    """Play held-out secrets once more with guesses limited to listed words; shown apart, never in place of the rest."""


class PlayerEvalSettings(PlaySettings):
    """Evaluation of one player by itself."""

    max_completion_tokens: int | None = Field(None, ge=1)
    """Bound on one turn's reply; None: that of the run a model lies in, else 512."""
    games_per_secret: Count = Field(1, ge=1)
    """Play every secret so often: more power to tell players apart that draw by chance."""


class PatienceSettings(Section):
    """Concurrency and time-outs of an endpoint."""

    concurrency: int = Field(16, ge=1)
    """Games an endpoint plays at once, each at its own pace."""
    timeout_s: float = Field(120.0, gt=0)
    """Time an endpoint has for one request, in seconds; it is tried again three times."""
    game_timeout_s: float = Field(600.0, gt=0)
    """Time an endpoint has for one game, in seconds; a longer one is an error, never a loss."""
    max_minutes: float = Field(0.0, ge=0)
    """Time an endpoint has for all games, in minutes; those not finished by then are errors. 0: no bound."""
    max_failures: int = Field(32, ge=0)
    """Ask an endpoint no more once so many games in a row were errors. 0: go on."""
