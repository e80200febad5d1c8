"""Arguments of `words` and `solve`."""

from __future__ import annotations

from typing import Annotated, Literal

import tyro

from wordle_rl.cli.options import Json, Words
from wordle_rl.commands import words as command


def words(
    action: Annotated[Literal["show", "import"], tyro.conf.Positional],
    source: Annotated[str, tyro.conf.Positional] = "default",
    overwrite: bool = False,
    as_json: Json = False,
) -> None:
    """Show a word list and its split (`show LIST`), or import one into the user's cache (`import DIR`).

    `import DIR` takes the directory's answers.txt and guesses.txt, one word a line, every answer in both. From then on
    the list is known by the directory's name, or as original or nyt if it has the very words of that list.

    Args:
        action: `show` a list, or `import` one from a directory.
        source: Of `show`: a list's name, or a directory; of `import`: the directory.
        overwrite: Of `import`: replace another list of that name.
        as_json: Print the result as JSON.
    """
    command.words(action, source, overwrite, as_json)


def solve(
    words: Words = "default",
    opener: str | None = None,
    tree: bool = False,
    secret: str | None = None,
    top: int = 10,
    as_json: Json = False,
) -> None:
    """Best openers, the best strategy tree, or how the solver finds one secret.

    Args:
        opener: First guess of the tree; the best one found if left out.
        tree: Build the whole tree and print its totals.
        secret: Show the tree's guesses for this secret.
        top: How many openers to list.
    """
    command.solve(words, opener, tree, secret, top, as_json)
