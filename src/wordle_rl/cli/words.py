"""`words` and `solve`: word lists and the solver."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.table import Table

from wordle_rl.cli import console
from wordle_rl.cli.options import Json, Words
from wordle_rl.config import ConfigError
from wordle_rl.evaluate import write_rows
from wordle_rl.solver import ScoredGuess, Solver
from wordle_rl.words import WordList, WordListError, import_words, load_words
from wordle_rl.words.split import split_secrets


def words(
    action: Annotated[Literal["show", "import"], tyro.conf.Positional],
    source: Annotated[str, tyro.conf.Positional] = "default",
    overwrite: bool = False,
    as_json: Json = False,
) -> None:
    """Show a word list and its split, or import a list of your own.

    `words show LIST` shows one. `words import DIR` reads answers.txt and guesses.txt from a directory: one word a line,
    every answer in both. `words import FILE` takes one file for both, `words import ANSWERS,GUESSES` takes two; a .csv
    may name its columns word, or answer and guess. An imported list lies in your cache under the name of the directory
    or file, or as `original` or `nyt` if it has exactly the words of that list.

    Args:
        action: `show` a list, or `import` one.
        source: Of `show`: a list's name, a directory, a file, or two; of `import`: the same without the name.
        overwrite: Of `import`: replace another list of that name.
        as_json: Print the result as JSON.
    """
    found = import_words(source, overwrite=overwrite) if action == "import" else load_words(source)
    notes = list(found.notes)
    parts = _parts_of(found)
    if parts is None:
        notes.append("too few answers for a split, train, val and test take one each; solve and play need none")
    facts = {
        "name": found.name,
        "word_length": found.word_length,
        "num_answers": len(found.answers),
        "num_guesses": len(found.guesses),
        "fingerprint": found.fingerprint,
        "answers_sha256": found.answers_sha256,
        "guesses_sha256": found.guesses_sha256,
        "split": parts,
        "notes": notes,
    }
    if as_json:
        console.print_json(facts)
        return
    for name, value in facts.items():
        if name != "notes" and value is not None:
            console.out.print(f"{name:<15} {value}", highlight=False)
    for note in notes:
        console.out.print(f"note: {note}", highlight=False, markup=False)


def _parts_of(found: WordList) -> dict[str, int] | None:
    """Number of secrets per part of the split; None: too few answers for one."""
    try:
        split = split_secrets(found)
    except WordListError:
        return None
    return {"train": len(split.train), "val": len(split.val), "test": len(split.test)}


def solve(
    words: Words = "default",
    opener: str | None = None,
    tree: bool = False,
    secret: str | None = None,
    top: int = 10,
    entropies: Path | None = None,
    as_json: Json = False,
) -> None:
    """Ask the solver for the best openers, for its whole strategy tree, or for its guesses at one secret.

    Args:
        opener: First guess of the tree; the best one found if left out.
        tree: Build the whole tree and print its totals.
        secret: Show the tree's guesses for this secret.
        top: How many openers to list.
        entropies: Also write every listed guess as an opener to this CSV file, most informative first: expected
            information in bits, expected and largest number of candidate answers left.
    """
    if top < 1:
        raise ConfigError(f"--top {top} lists no opener; give at least 1")
    solver = Solver(load_words(words))
    secret = secret.lower() if secret is not None else None
    if secret is not None and secret not in solver.words.answer_index:
        raise ConfigError(f"secret {secret!r} is not among the answers of word list {solver.words.name!r}")
    if tree or secret is not None or opener:
        if entropies is not None:
            raise ConfigError("--entropies belongs to the list of openers; leave out --tree, --secret and --opener")
        _show_tree(solver, opener, secret, as_json)
        return
    if entropies is not None:
        write_rows(
            entropies,
            [_entropy_row(scored) for scored in solver.best_openers(len(solver.words.guesses))],
            "--entropies",
        )
    openers = solver.best_openers(top)
    if as_json:
        console.print_json([asdict(scored) for scored in openers])
        return
    titles = ("opener", "bits", "words left on average", "at most")
    table = Table(*titles, title=f"{solver.words.name}: most informative openers")
    for scored in openers:
        left = (f"{scored.expected_remaining:.1f}", str(scored.largest_class))
        table.add_row(scored.guess, f"{scored.bits:.3f}", *left)
    console.out.print(table)


def _entropy_row(scored: ScoredGuess) -> dict[str, str | float | int]:
    """A guess with its figures as columns, the floats to 12 digits."""
    return {
        "guess": scored.guess,
        "expected_information_bits": round(scored.bits, 12),
        "expected_remaining": round(scored.expected_remaining, 12),
        "largest_class": scored.largest_class,
    }


def _show_tree(solver: Solver, opener: str | None, secret: str | None, as_json: bool) -> None:
    tree = solver.tree(opener)
    summary: dict[str, Any] = {"words": solver.words.name, **tree.summary()}
    if secret is not None:
        summary["path"] = list(tree.path(secret))
    if as_json:
        console.print_json(summary)
        return
    for name, value in summary.items():
        console.out.print(f"{name:<15} {value}", highlight=False)
