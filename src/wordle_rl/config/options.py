"""Options that several commands share: their types and help."""

from __future__ import annotations

from typing import Annotated

import tyro

_LISTS = (
    "Word list: default, original, nyt, an imported name, a file of words, ANSWERS,GUESSES as two files, or a "
    "directory with answers.txt and guesses.txt."
)
Json = Annotated[bool, tyro.conf.arg(name="json", help="Print the result as one JSON object.")]
Quiet = Annotated[bool, tyro.conf.arg(help="Print results and errors alone: no progress, notes or advice.")]
Words = Annotated[str, tyro.conf.arg(help=_LISTS)]
PlayersWords = Annotated[
    str | None, tyro.conf.arg(help=f"{_LISTS} Default: the list of the model's run, else default.")
]
FilesWords = Annotated[str | None, tyro.conf.arg(help=f"{_LISTS} Default: that of a config file, else default.")]
StrictFraction = Annotated[
    float,
    tyro.conf.arg(
        help="Fraction of the answers, some of the test secrets, that these games must never name. Use the "
        "words.strict_fraction of the run that will learn from them."
    ),
]
Seed = Annotated[int, tyro.conf.arg(help="Random seed.")]
Address = Annotated[
    str | None,
    tyro.conf.arg(
        aliases=["--provider"],
        help="Endpoint of openai:MODEL: together, fireworks, openai (the default), local (port 8000 of this machine), "
        "or a URL. Keys come from the environment or .env: TOGETHER_API_KEY, FIREWORKS_API_KEY, else OPENAI_API_KEY.",
    ),
]
