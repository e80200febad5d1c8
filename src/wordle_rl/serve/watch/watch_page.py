"""The page as one HTML file with style and script, with or without the games of a run.

It loads nothing from elsewhere, and its policy lets only its own script run. A page without games asks its server.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from wordle_rl.config.base import ConfigError
from wordle_rl.game import Outcome, Turn
from wordle_rl.report import write_report
from wordle_rl.report.page import WATCH_PAGE, from_template
from wordle_rl.runs import check_writable, write_text_atomically
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.serve.watch.review import Reviewer
from wordle_rl.serve.watch.run_files import every_game, find_runs, sources_of, summary_of, words_source
from wordle_rl.solver import Solver
from wordle_rl.words import load_words

SCRIPTS = ("dom", "board", "rules", "store", "play", "watch", "filters", "replay", "groups", "compare", "main")
"""The files of the script, in order of dependency."""


@dataclass(frozen=True)
class Page:
    """A page, and its content security policy."""

    html: str
    policy: str


def render_page(exported: dict[str, Any] | None = None, title: str = "Watch and play") -> Page:
    """Render the page with the games of `exported_run`; None: the page asks its server."""
    script = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    style = (files("wordle_rl.report") / "static" / "page.css").read_text(encoding="utf-8") + _asset("watch.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    server = "'self'" if exported is None else "'none'"
    # Only this script can run, and only the page's own server can be contacted.
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        f"connect-src {server}; base-uri 'none'; form-action 'none'"
    )
    html = from_template(
        _asset("page.html"),
        policy=policy,
        title=title,
        style=style,
        script=script,
        data="" if exported is None else _packed(exported),
    )
    return Page(html, policy)


def _packed(value: dict[str, Any]) -> str:
    # Base64 has no characters that are special in HTML; mtime=0 makes the result deterministic.
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _asset(name: str) -> str:
    return (files("wordle_rl.serve.watch") / "static" / name).read_text(encoding="utf-8")


Json = dict[str, Any]


def export_run(run: Path, path: Path, tell: ProgressCallback = lambda *_: None) -> Path:
    """Write the page with all sample games and evaluations of a run; `tell` hears of each game reviewed.

    If it is WATCH_PAGE beside the run's report, the report is written again with links to the games.
    """
    check_writable(path)
    exported = exported_run(run, tell)
    write_text_atomically(path, render_page(exported, exported["run"]["name"]).html)
    if path.resolve() == (run / WATCH_PAGE).resolve() and (run / "report.html").is_file():
        write_report(run)
    return path


def exported_run(run: Path, tell: ProgressCallback = lambda *_: None) -> Json:
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
            Reviewer(solver), [game for found in games.values() for game in found], summary["max_turns"], tell
        ),
        "words": {"answers": words.answers, "guesses": words.guesses},
    }


class _TurnRow(TypedDict):
    # What a review needs of a stored turn. The whole game was validated when it was read.
    guess: str | None
    marks: str | None
    outcome: NotRequired[Outcome]
    costs_turn: NotRequired[bool]


_BOARD = TypeAdapter(list[_TurnRow])


def _turn_of(row: _TurnRow) -> Turn:
    return Turn(row["guess"], row["marks"], row.get("outcome", Outcome.SCORED), row.get("costs_turn", True))


def _reviews(reviewer: Reviewer, games: Sequence[Json], max_turns: int, tell: ProgressCallback) -> dict[str, list[Any]]:
    # For each board the review of its last turn: candidates, left, bits, the solver's guess and its bits.
    boards = [[*map(_turn_of, _BOARD.validate_python(game["turns"]))] for game in games]
    keys = [
        [*accumulate((f"{turn.guess or ''}.{turn.marks or ''}" for turn in turns), "{},{}".format)] for turns in boards
    ]
    num_games = Counter(chain.from_iterable(keys))
    found: dict[str, list[Any]] = {}
    for number, (turns, names) in enumerate(zip(boards, keys, strict=True), start=1):
        tell(number, len(games), "")
        # Most games begin like others, and only what is new is reviewed.
        num_known = sum(name in found for name in names)
        if num_known == len(names):
            continue
        # A model that knows no words yet reaches thousands of boards that no other game reaches; to search all of the
        # large ones takes minutes.
        shared = sum(num_games[name] > 1 for name in names)
        for name, turn in zip(names[num_known:], reviewer(turns, max_turns, num_known, shared + 1), strict=True):
            bits = None if turn.bits is None else round(turn.bits, 3)
            best_bits = None if turn.best_bits is None else round(turn.best_bits, 3)
            found[name] = [turn.candidates, turn.left, bits, turn.best, best_bits]
    return found
