"""Export a run: the page with all its games in one file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wordle_rl.config import ConfigError
from wordle_rl.game import Outcome, Turn
from wordle_rl.report import write_report
from wordle_rl.report.page import WATCH_PAGE
from wordle_rl.runs import write_text_atomically
from wordle_rl.serve.watch.page import render_page
from wordle_rl.serve.watch.review import Reviewer
from wordle_rl.serve.watch.run_files import every_game, find_runs, sources_of, summary_of, words_source
from wordle_rl.solver import Solver
from wordle_rl.words import load_words

Json = dict[str, Any]


def export_run(run: Path, path: Path) -> Path:
    """Write the page with all sample games and evaluations of a run.

    If it is WATCH_PAGE beside the run's report, the report is written again with links to the games.

    Raises:
        ConfigError: If the directory is not a run.
        WordListError: If the word list of the run is missing.
        RunError: If the run is damaged, or the file cannot be written.
    """
    exported = exported_run(run)
    write_text_atomically(path, render_page(exported, exported["run"]["name"]).html)
    if path.resolve() == (run / WATCH_PAGE).resolve() and (run / "report.html").is_file():
        write_report(run)
    return path


def exported_run(run: Path) -> Json:
    """Collect what the page needs: the games, the review of every board in them, and the words."""
    if find_runs(run) != {run.resolve().name: run}:
        raise ConfigError(f"{run} is not a run; give a directory that `wordle-rl run` wrote")
    summary = summary_of(run)
    kept = {name: source for name, source in sources_of(run).items() if name != "traces"}
    games = {name: list(every_game(source)) for name, source in kept.items()}
    words = load_words(words_source(run))
    solver = Solver(words)
    return {
        "run": summary | {"sources": [source for source in summary["sources"] if source["id"] in kept]},
        "games": {name: {"games": found, "faults": []} for name, found in games.items()},
        "reviews": _reviews(
            Reviewer(solver), (game for found in games.values() for game in found), summary["max_turns"]
        ),
        "words": {"answers": words.answers, "guesses": words.guesses},
    }


def board_of(game: Json) -> list[Turn]:
    """Return the turns of a stored game."""
    turns = []
    for turn in game["turns"]:
        marks = turn.get("marks") if turn.get("outcome", Outcome.SCORED) == Outcome.SCORED else None
        outcome = Outcome.SCORED if marks else Outcome.MALFORMED
        turns.append(Turn(turn.get("guess"), marks, outcome, turn.get("costs_turn") is not False))
    return turns


def _reviews(reviewer: Reviewer, games: Iterable[Json], max_turns: int) -> dict[str, list[Any]]:
    # For each board the review of its last turn: candidates, left, bits, the solver's guess and its bits.
    found: dict[str, list[Any]] = {}
    for game in games:
        turns = board_of(game)
        keys = [
            ",".join(f"{turn.guess or ''}.{turn.marks or ''}" for turn in turns[: end + 1]) for end in range(len(turns))
        ]
        if keys and keys[-1] in found:
            continue
        for key, turn in zip(keys, reviewer(turns, max_turns), strict=True):
            bits = None if turn.bits is None else round(turn.bits, 3)
            best_bits = None if turn.best_bits is None else round(turn.best_bits, 3)
            found[key] = [turn.candidates, turn.left, bits, turn.best, best_bits]
    return found
