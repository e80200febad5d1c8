"""Options shared by several commands, and parsing of arguments."""

from __future__ import annotations

from typing import Annotated

import tyro

Json = Annotated[bool, tyro.conf.arg(name="json", help="Print the result as JSON.")]
Words = Annotated[
    str,
    tyro.conf.arg(
        help="default, original, nyt, an imported name, a file of words, two as ANSWERS,GUESSES, or a directory with "
        "answers.txt and guesses.txt."
    ),
]
PlayersWords = Annotated[
    str | None,
    tyro.conf.arg(
        help="default, original, nyt, an imported name, a file of words, two as ANSWERS,GUESSES, or a directory with "
        "answers.txt and guesses.txt; left out: those of the model's run, else default."
    ),
]
StrictFraction = Annotated[
    float,
    tyro.conf.arg(
        help="Fraction of the answers, some of the test secrets, that must be named nowhere: give that of the run that "
        "learns from this (words.strict_fraction)."
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
