"""Word lists and the solver."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from wordle_rl.commands.console import out, print_json
from wordle_rl.config import ConfigError
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, WordListError, import_words, load_words
from wordle_rl.words.split import split_secrets


def words(action: Literal["show", "import"], source: str, overwrite: bool, as_json: bool) -> None:
    """Show or import a word list."""
    found = import_words(Path(source), overwrite=overwrite) if action == "import" else load_words(source)
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
        print_json(facts)
        return
    for name, value in facts.items():
        if name != "notes" and value is not None:
            out.print(f"{name:<15} {value}", highlight=False)
    for note in notes:
        out.print(f"note: {note}", highlight=False, markup=False)


def _parts_of(found: WordList) -> dict[str, int] | None:
    """How many secrets each part of the split has; None: there are too few answers for one."""
    try:
        split = split_secrets(found)
    except WordListError:
        return None
    return {"train": len(split.train), "val": len(split.val), "test": len(split.test)}


def solve(source: str, opener: str | None, tree: bool, secret: str | None, top: int, as_json: bool) -> None:
    """Openers, a tree's totals, or one secret's path."""
    if top < 1:
        raise ConfigError(f"--top {top} lists no opener; give at least 1")
    solver = Solver(load_words(source))
    secret = secret.lower() if secret is not None else None
    if secret is not None and secret not in solver.words.answer_index:
        raise ConfigError(f"secret {secret!r} is not among the answers of word list {solver.words.name!r}")
    if tree or secret is not None or opener:
        best = solver.tree(opener)
        summary: dict[str, Any] = {"words": solver.words.name, **best.summary()}
        if secret is not None:
            summary["path"] = list(best.path(secret))
        if as_json:
            print_json(summary)
            return
        for name, value in summary.items():
            out.print(f"{name:<15} {value}", highlight=False)
        return
    openers = solver.best_openers(top)
    if as_json:
        print_json([asdict(scored) for scored in openers])
        return
    table = Table("opener", "bits", "words left on average", title=f"{solver.words.name}: most informative openers")
    for scored in openers:
        table.add_row(scored.guess, f"{scored.bits:.3f}", f"{scored.expected_remaining:.1f}")
    out.print(table)
