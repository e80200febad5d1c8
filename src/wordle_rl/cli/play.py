"""Arguments of `play`."""

from __future__ import annotations

from typing import Annotated

import tyro

from wordle_rl.cli.options import Address, PlayersWords
from wordle_rl.commands import play as command
from wordle_rl.config import Constrain, SamplingSettings
from wordle_rl.evaluate.players import reply_bound
from wordle_rl.game import Dictionary


def play(
    player: Annotated[str, tyro.conf.arg(aliases=["--model"])] = "human",
    secret: str | None = None,
    words: PlayersWords = None,
    temperature: float | None = 0.0,
    max_completion_tokens: int | None = None,
    constrain: Constrain = "none",
    base_url: Address = None,
    dictionary: Dictionary | None = None,
    hard_mode: bool = False,
    seed: int | None = None,
) -> None:
    """Play in the terminal yourself, or watch a player.

    Args:
        player: human, solver, random, openai:MODEL, or a model or run directory.
        secret: The word to find; left out: a random answer.
        temperature: 0 is greedy; None leaves it to an endpoint.
        max_completion_tokens: Bound on one turn's reply; left out: that of the run a model lies in, else 512.
        constrain: `words` limits a model's guesses to listed words.
        dictionary: What an unlisted guess costs; `app` refuses any bad reply at no cost. Left out: for a human `app`,
            for a model its own, else strict.
        hard_mode: Every revealed hint must be used. Not for the solver.
        seed: Seed of the secret and the player; left out: a new game every time.
    """
    sampling = SamplingSettings(
        temperature=temperature or 0.0,
        max_completion_tokens=reply_bound(player, max_completion_tokens),
    )
    endpoint_default_sampling, constrained = temperature is None, constrain == "words"
    command.play(
        player, secret, words, sampling, base_url, endpoint_default_sampling, dictionary, hard_mode, seed, constrained
    )
