"""How a player was asked: how its prompts were worded, and how its tokens were drawn."""

from __future__ import annotations

from dataclasses import dataclass, fields

from wordle_rl.config import Engine, SamplingSettings
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.samplers.base import TokenSampler


@dataclass(frozen=True)
class Conditions:
    """How a player was asked, beside rules and constraint.

    Attributes:
        style: Wording of its prompts.
        shape: Conversation shape.
        thinking: Whether replies may think aloud.
        temperature: 0 is greedy; None: left to the endpoint, or no tokens are drawn.
        top_p: Share of the likeliest tokens that was drawn from; None as for `temperature`.
        max_completion_tokens: Bound on a reply; None: a player that draws no tokens, as the solver.
        engine: What drew the tokens here; None: an endpoint drew them, or nobody.
        seed: Seed of what was drawn by chance; None: nothing was, or it is not known.
    """

    style: Style
    shape: Shape
    thinking: Thinking
    temperature: float | None = None
    top_p: float | None = None
    max_completion_tokens: int | None = None
    engine: Engine | None = None
    seed: int | None = None

    @classmethod
    def of(cls, prompter: Prompter, sampler: object = None) -> Conditions:
        """What prompts and sampler tell of themselves; the seed is not among it."""
        worded = cls(prompter.style, prompter.shape, prompter.thinking)
        if not isinstance(sampler, TokenSampler):
            return worded
        return worded.drawing(sampler.settings, engine=sampler.drawn_by)

    def drawing(
        self,
        sampling: SamplingSettings,
        *,
        endpoint_default_sampling: bool = False,
        engine: Engine | None = None,
        seed: int | None = None,
    ) -> Conditions:
        """The same wording, and how tokens are drawn; `endpoint_default_sampling`: as the endpoint does by default."""
        temperature, top_p = (None, None) if endpoint_default_sampling else (sampling.temperature, sampling.top_p)
        limit = sampling.max_completion_tokens
        return Conditions(self.style, self.shape, self.thinking, temperature, top_p, limit, engine, seed)


def differences(a: Conditions, b: Conditions) -> dict[str, tuple[str, str]]:
    """What two players were asked differently: name -> what it was for each; seeds where both drew by chance."""
    values = {field.name: (getattr(a, field.name), getattr(b, field.name)) for field in fields(Conditions)}
    if None in values["seed"]:
        del values["seed"]
    return {name: (_shown(was), _shown(other)) for name, (was, other) in values.items() if was != other}


def unlike(name_a: str, a: Conditions, name_b: str, b: Conditions) -> str:
    """What a reader of a comparison must know of how two players were asked; empty: nothing.

    Nothing is said of players that draw no tokens, nor of seeds, nor of an engine where an endpoint chose its own.
    """
    if None in (a.max_completion_tokens, b.max_completion_tokens):
        return ""
    told = differences(a, b)
    told.pop("seed", None)
    if None in (a.engine, b.engine):
        told.pop("engine", None)
    listed = ", ".join(f"{what} {was} and {other}" for what, (was, other) in told.items())
    return f"{name_a} and {name_b} were not asked alike: {listed}" if listed else ""


def _shown(value: object) -> str:
    if value is None:
        return "its own"
    return f"{value:g}" if isinstance(value, float) else str(value)
