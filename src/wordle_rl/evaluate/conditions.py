"""Prompting and sampling of an evaluated player."""

from __future__ import annotations

from dataclasses import dataclass, fields

from wordle_rl.config.evaluation import EngineName
from wordle_rl.prompt import Prompter, Shape, Style, Thinking, name_of


@dataclass(frozen=True)
class EvalConditions:
    """Prompting and sampling of a player, without rules and constraint.

    Attributes:
        temperature: 0 is greedy; None if left to the endpoint, or no tokens are sampled.
        max_completion_tokens: Token limit of a reply; None if no tokens are sampled, as by the solver.
        engine: Engine on this machine; None for an endpoint, or if no tokens are sampled.
        seed: Random seed; None if nothing is random, or the seed is unknown.
        system_prompt: Text in place of the style's own rules, with placeholders; empty: no system message; None: the
            style's rules.
        boards: Initial boards, such as `0 to 4 consistent turns, seed 0`; None: empty boards.
        word_beam: With guesses limited to listed words: beam width of the search for the likeliest; None: no limit on
            guesses, or limited token by token.
    """

    style: Style | str
    shape: Shape
    thinking: Thinking
    temperature: float | None = None
    max_completion_tokens: int | None = None
    engine: EngineName | None = None
    seed: int | None = None
    system_prompt: str | None = None
    boards: str | None = None
    word_beam: int | None = None

    @classmethod
    def of(cls, prompter: Prompter) -> EvalConditions:
        """Return the conditions of a player that samples no tokens."""
        return cls(prompter.style, prompter.shape, prompter.thinking, system_prompt=prompter.system_prompt)


_UNSET = {"boards": "the empty board", "word_beam": "token by token"}
"""Meaning of None, by condition."""


def differences(a: EvalConditions, b: EvalConditions) -> dict[str, tuple[str, str]]:
    """Return the conditions in which two players differ, with both values. Seeds count only if both are known."""
    values = {field.name: (getattr(a, field.name), getattr(b, field.name)) for field in fields(EvalConditions)}
    # An unknown seed is no difference, and greedy play has none.
    if None in values["seed"]:
        del values["seed"]
    return {name: (_shown(name, was), _shown(name, other)) for name, (was, other) in values.items() if was != other}


def unlike(a: EvalConditions, b: EvalConditions) -> str:
    """List the conditions in which two players differ; '' if they agree.

    Seeds are ignored, and so are engines if one player is an endpoint. A player that samples no tokens is not compared.
    """
    if None in (a.max_completion_tokens, b.max_completion_tokens):
        return ""
    # Engines round differently, which is told. What an endpoint runs on nobody knows.
    ignored = {"seed", "engine"} if None in (a.engine, b.engine) else {"seed"}
    told = differences(a, b)
    return ", ".join(f"{what} {was} and {other}" for what, (was, other) in told.items() if what not in ignored)


def _shown(name: str, value: object) -> str:
    if name == "system_prompt":
        return name_of(None if value is None else str(value))
    if value is None:
        return _UNSET.get(name, "the endpoint's own")
    return f"{value:g}" if isinstance(value, float) else str(value)
