"""Evaluation, in a run and of endpoints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wordle_rl.config.base import Section

BackendName = Literal["torch", "mlx"]
"""Library that holds, plays and trains a run's models."""

EngineName = Literal["transformers", "vllm", "mlx"]
"""Engine that draws a model's tokens: transformers or MLX in this process, or a vLLM engine."""

Constrain = Literal["none", "words"]
"""Limit on the tokens of a completion: nothing, or that a guess, once opened, must be a listed word."""

Variant = Literal["greedy", "constrained", "sampled"]
"""Evaluation of a model in a run: greedy, with guesses limited to listed words, or sampled at temperature 1."""

PrefixChoice = Literal["consistent", "random"]
"""Earlier guesses on a board: answers that fit all marks before them, or any answers."""


class EvalSettings(Section):
    """Evaluation in a run."""

    max_games: int = Field(0, ge=0)
    """Play at most this many secrets of each part; 0: all."""
    engine: EngineName = "transformers"
    """Engine that draws a model's tokens: `transformers`, `vllm`, which computes in 16 bits on a GPU, or `mlx`."""
    also: tuple[Literal["base", "constrained", "sampled"], ...] = ()
    """Evaluate also: `base`, the model of model.path as it was before the run (without SFT that is always done);
    `constrained`, held-out secrets once more, each guess the likeliest listed word; `sampled`, every secret once more
    at temperature 1, which tables show as T = 1 beside greedy play, without regret."""

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The ways in which each model of the run is evaluated."""
        further: tuple[Variant, ...] = ("constrained", "sampled")
        return ("greedy", *(variant for variant in further if variant in self.also))


def evaluation_name(model: str, variant: Variant) -> str:
    """Return the stem of the file in `eval/`.

    Examples:
        >>> evaluation_name("sft", "greedy"), evaluation_name("sft", "sampled")
        ('sft', 'sft-sampled')
    """
    return model if variant == "greedy" else f"{model}-{variant}"


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
