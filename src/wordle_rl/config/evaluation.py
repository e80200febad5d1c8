"""Settings of evaluation, in a run and of endpoints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wordle_rl.config.base import Section

BackendName = Literal["torch", "mlx"]
"""Library that holds, plays and trains the models of a run."""

EngineName = Literal["transformers", "vllm", "mlx"]
"""Engine that samples a model's tokens: transformers or MLX in this process, or a vLLM engine."""

Constrain = Literal["none", "words"]
"""Limit on sampled tokens. `words`: once a guess is opened, it must become a listed word."""

Variant = Literal["greedy", "constrained", "sampled"]
"""How a run evaluates a model: greedy, with guesses limited to listed words, or sampled at temperature 1."""


class EvalSettings(Section):
    """Evaluation in a run."""

    max_games: int = Field(0, ge=0)
    """Play at most this many secrets of each part. 0: all."""
    engine: EngineName = "transformers"
    """Engine that samples a model's tokens: `transformers`, `vllm` (16 bits, on a GPU) or `mlx`."""
    also: tuple[Literal["base", "constrained", "sampled"], ...] = ()
    """Further evaluations. `base`: the model of model.path before the run (always included without SFT). `constrained`:
    held-out secrets, each guess the likeliest listed word. `sampled`: every secret at temperature 1, without regret;
    tables show it as T = 1."""

    @property
    def variants(self) -> tuple[Variant, ...]:
        """How each model of the run is evaluated."""
        further: tuple[Variant, ...] = ("constrained", "sampled")
        return ("greedy", *(variant for variant in further if variant in self.also))


def evaluation_name(model: str, variant: Variant) -> str:
    """Return the stem of an evaluation's file in `eval/`.

    Examples:
        >>> evaluation_name("sft", "greedy"), evaluation_name("sft", "sampled")
        ('sft', 'sft-sampled')
    """
    return model if variant == "greedy" else f"{model}-{variant}"


class PatienceSettings(Section):
    """Concurrency and timeouts of an endpoint."""

    concurrency: int = Field(16, ge=1)
    """Games an endpoint plays at once."""
    timeout_s: float = Field(120.0, gt=0)
    """Time limit of one request to an endpoint, in seconds. A failed request is retried three times."""
    game_timeout_s: float = Field(600.0, gt=0)
    """Time limit of one game of an endpoint, in seconds. A longer game is an error, never a loss."""
    max_minutes: float = Field(0.0, ge=0)
    """Time limit of all games of an endpoint, in minutes; unfinished games are errors. 0: no limit."""
    max_failures: int = Field(32, ge=0)
    """Stop asking an endpoint after this many errors in a row. 0: never."""
