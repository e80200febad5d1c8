"""Options that several commands share, and how all of them read their arguments."""

from __future__ import annotations

from typing import Annotated

import tyro

Json = Annotated[bool, tyro.conf.arg(name="json", help="Print the result as JSON.")]
Words = Annotated[
    str,
    tyro.conf.arg(help="default, original, nyt, an imported name, or a directory with answers.txt and guesses.txt."),
]
PlayersWords = Annotated[
    str | None,
    tyro.conf.arg(
        help="default, original, nyt, an imported name, or a directory with answers.txt and guesses.txt; left out: "
        "those of the run that a model lies in, else default."
    ),
]
Seed = Annotated[int, tyro.conf.arg(help="Seed of everything drawn at random.")]
Address = Annotated[
    str | None,
    tyro.conf.arg(
        aliases=["--provider"],
        help="Where openai:MODEL is asked: together, fireworks, openai, local (port 8000 of this machine), or an "
        "address; left out: openai. Keys: TOGETHER_API_KEY, FIREWORKS_API_KEY, else OPENAI_API_KEY, from the "
        "environment or .env.",
    ),
]

ANY_FLAG = (tyro.conf.ConsolidateSubcommandArgs, tyro.conf.EnumChoicesFromValues)
"""Parsing of arguments: `--flag` and `--no-flag` both."""
SHOWN_FLAG = (tyro.conf.FlagCreatePairsOff, *ANY_FLAG)
"""Help of arguments: of the two flags, the one that changes the default."""
