"""`solve`: a word list, and what the solver says of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json, Words
from wordle_rl.config import ConfigError
from wordle_rl.evaluate import write_rows
from wordle_rl.solver import ScoredGuess, Solver
from wordle_rl.words import WordList, WordListError, import_words, load_words
from wordle_rl.words.split import split_secrets


def solve(
    words: Words = "default",
    opener: str | None = None,
    tree: bool = False,
    secret: str | None = None,
    top: int = 10,
    entropies: Path | None = None,
    save: bool = False,
    overwrite: bool = False,
    as_json: Json = False,
) -> None:
    """Show a word list with its best openers, the solver's whole strategy tree, or its guesses at one secret.

    `--words DIR` reads answers.txt and guesses.txt from a directory: one word a line, every answer in both; `FILE` is
    one file for both, `ANSWERS,GUESSES` are two; a .csv may name its columns word, or answer and guess.

    Args:
        opener: First guess of the tree; the best one found if left out.
        tree: Build the whole tree and print its totals.
        secret: Show the tree's guesses for this secret.
        top: How many openers to list; 0: none, the list alone.
        entropies: Also write every listed guess as an opener to this CSV file, most informative first: expected
            information in bits, expected and largest number of candidate answers left.
        save: Import the list into your cache, to be known by the name of its directory or file, or as `original` or
            `nyt` if it has exactly the words of that list.
        overwrite: With --save: replace another list of that name.
    """
    if top < 0:
        raise ConfigError(f"--top {top} lists no opener; give at least 1, or 0: none", "top")
    found = import_words(words, overwrite=overwrite) if save else load_words(words)
    solver = Solver(found)
    secret = secret.lower() if secret is not None else None
    if secret is not None and secret not in solver.words.answer_index:
        raise ConfigError(f"secret {secret!r} is not among the answers of word list {solver.words.name!r}", "secret")
    if tree or secret is not None or opener:
        if entropies is not None:
            raise ConfigError(
                "--entropies belongs to the list of openers; leave out --tree, --secret and --opener", "entropies"
            )
        _show_tree(solver, opener, secret, as_json)
        return
    if entropies is not None:
        write_rows(
            entropies,
            [_entropy_row(scored) for scored in solver.best_openers(len(solver.words.guesses))],
            "--entropies",
        )
    facts, openers = _facts(found), solver.best_openers(top) if top else []
    if as_json:
        console.print_json({**facts, "openers": [asdict(scored) for scored in openers]})
        return
    for name, value in facts.items():
        if name != "notes" and value is not None:
            shown = ", ".join(f"{n:,} {part}" for part, n in value.items()) if isinstance(value, dict) else value
            console.out.print(f"{name:<15} {shown}", highlight=False)
    for note in facts["notes"]:
        console.out.print(f"note: {note}", highlight=False, markup=False)
    if openers:
        titles = ("opener", "bits", "words left on average", "at most")
        table = Table(*titles, title=f"{solver.words.name}: most informative openers")
        for scored in openers:
            left = (f"{scored.expected_remaining:.1f}", str(scored.largest_class))
            table.add_row(scored.guess, f"{scored.bits:.3f}", *left)
        console.out.print(table)


def _facts(found: WordList) -> dict[str, Any]:
    """Name, sizes, marks and split of a list."""
    notes = list(found.notes)
    parts: dict[str, int] | None = None
    try:
        split = split_secrets(found)
        parts = {"train": len(split.train), "val": len(split.val), "test": len(split.test)}
    except WordListError:
        notes.append("too few answers for a split, train, val and test take one each; solve and play need none")
    return {
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
