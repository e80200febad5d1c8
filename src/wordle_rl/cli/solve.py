"""`solve`: show a word list and what the solver makes of it."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wordle_rl.cli import console
from wordle_rl.config.base import ConfigError
from wordle_rl.config.options import Json, Words
from wordle_rl.evaluate import results_table
from wordle_rl.evaluate.records import write_rows
from wordle_rl.game import score_guess
from wordle_rl.report.terminal import figures_table
from wordle_rl.solver import Solver, Tree
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
    """Show a word list and its best openers, the solver's whole strategy tree, or its guesses for one secret.

    Files of words hold one a line, or are a .csv with the column word, or the columns answer and guess.

    Args:
        opener: First guess of the tree. Default: the best one found.
        tree: Print the whole tree, a line per guess under the marks that lead to it, then its totals.
        secret: Show the tree's guesses for this secret.
        top: Number of openers to list. 0: only describe the list.
        entropies: Also write every listed guess as an opener to this CSV file, most informative first: its expected
            information in bits, and the expected and the largest number of answers left.
        save: Copy the list into your cache under the name of its directory or file (`original` or `nyt` if it is that
            list), so that --words NAME finds it.
        overwrite: With --save: replace another list of that name.
    """
    found = import_words(words, overwrite=overwrite) if save else load_words(words)
    solver = Solver(found)
    # The tree has paths to answers alone, so any other word is refused before it is grown.
    secret = secret.lower() if secret is not None else None
    if secret is not None and secret not in solver.words.answer_index:
        raise ConfigError(f"secret {secret!r} is not an answer of word list {solver.words.name!r}")
    if tree or secret is not None or opener:
        if entropies is not None:
            raise ConfigError("--entropies is for the openers; drop --tree, --secret and --opener")
        with console.messages.status("solving…"):
            grown = solver.tree(opener)
        _show_tree(grown, found.name, secret, as_json, whole=tree)
        return
    if entropies is not None:
        # The same ranking as the table's, to its end.
        scored_all = solver.best_openers(len(solver.words.guesses))
        rows = [
            {
                "guess": scored.guess,
                "expected_information_bits": round(scored.bits, 12),
                "expected_remaining": round(scored.expected_remaining, 12),
                "largest_class": scored.largest_class,
            }
            for scored in scored_all
        ]
        write_rows(entropies, rows, "--entropies")
    facts, openers = _facts(found), solver.best_openers(top) if top > 0 else []
    lines: list[object] = []
    if openers:
        shown_rows = tuple(
            (scored.guess, f"{scored.bits:.3f}", f"{scored.expected_remaining:.1f}", f"{scored.largest_class:,}")
            for scored in openers
        )
        titles = ("bits", "words left on average", "at most")
        title = f"Best first guesses of the list {found.name}: what the marks tell"
        lines += [figures_table(results_table.Table(titles, shown_rows), title, "opener"), ""]
    for name, value in facts.items():
        if name != "notes" and value is not None:
            text = f"{value:,}" if isinstance(value, int) else value
            shown = ", ".join(f"{n:,} {part}" for part, n in value.items()) if isinstance(value, dict) else text
            lines.append(f"{name.replace('_', ' '):<15} {shown}")
    lines += (f"note: {note}" for note in facts["notes"])
    console.show({**facts, "openers": [scored._asdict() for scored in openers]}, lines, as_json)


def _facts(found: WordList) -> dict[str, Any]:
    notes: list[str] = []
    parts: dict[str, int] | None = None
    try:
        # A list may be too short to train on, and still be one to solve or to play.
        split = split_secrets(found)
        parts = {"train": len(split.train), "val": len(split.val), "test": len(split.test)}
    except WordListError:
        notes.append("too few answers for a split into train, val and test; solve and play need none")
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


def _show_tree(tree: Tree, words: str, secret: str | None, as_json: bool, *, whole: bool) -> None:
    summary: dict[str, Any] = {"words": words, **tree.summary()}
    if secret is not None:
        summary["path"] = list(tree.paths[secret])
    if as_json:
        console.print_json(summary)
        return
    if whole:
        console.out.print("\n".join(_branches(tree)) + "\n")
    told = summary | {"mean_guesses": f"{tree.total_guesses / len(tree.paths):.3f}"}
    told["distribution"] = ", ".join(f"{count:,} in {turn}" for turn, count in enumerate(summary["distribution"], 1))
    if secret is not None:
        told["path"] = ", ".join(tree.paths[secret])
    for name, value in told.items():
        console.out.print(f"{name.replace('_', ' '):<15} {value}")


def _branches(tree: Tree) -> Iterator[str]:
    nodes = []
    for secret, guesses in tree.paths.items():
        marks = ["", *(f"{score_guess(secret, guess)} " for guess in guesses)]
        nodes.append([f"{marks[turn]}{guess}" for turn, guess in enumerate(guesses)])
    # In sorted order, paths that share guesses are neighbours, so each guess is printed once, under its marks.
    before: list[str] = []
    for path in sorted(nodes):
        shared = len(os.path.commonprefix([before, path]))  # noqa: RUF071  # of lists of guesses
        yield from (f"{'  ' * turn}{path[turn]}" for turn in range(shared, len(path)))
        before = path
