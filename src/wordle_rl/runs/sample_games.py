"""Sample games of a training: rows of games.jsonl, and text for the tables of trackers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wordle_rl.prompt.english import SYMBOLS

if TYPE_CHECKING:
    from wordle_rl.runs.run import Run
    from wordle_rl.runs.trackers import Tracker

COLUMNS = ("step", "stage", "secret", "won", "guesses", "reward", "components", "board")
"""The columns of a table of games."""


class GameLog:
    """Write sample games to games.jsonl of a run and to trackers."""

    def __init__(self, run: Run, trackers: Sequence[Tracker] = ()) -> None:
        self.run, self._trackers = run, tuple(trackers)

    def add(self, stage: str, step: int, games: Iterable[Mapping[str, Any]]) -> None:
        """Write games of one stage and step."""
        rows = []
        for game in games:
            self.run.append("games.jsonl", {"stage": stage, "step": step, **game})
            paid = {"reward": game.get("reward"), "components": components_text(game), "board": board_text(game)}
            shown = {**game, **paid, "step": step, "stage": stage, "guesses": game["turns_used"]}
            rows.append([shown[column] for column in COLUMNS])
        for tracker in self._trackers if rows else ():
            tracker.add_games(step, stage, rows)

    def detach_trackers(self) -> None:
        """Write only to games.jsonl from now on, since the trackers' runs have ended."""
        self._trackers = ()


def board_text(game: Mapping[str, Any]) -> str:
    """Format a game as lines of text, with marks as letters and squares.

    Examples:
        >>> print(board_text({"turns": [{"guess": "crane", "marks": "XYGXX", "outcome": "scored"}]}))
        CRANE XYGXX ⬛🟨🟩⬛⬛
    """
    lines = []
    for turn in game["turns"]:
        guess, marks = (turn["guess"] or "–").upper(), turn["marks"]
        said = SYMBOLS.line(f"{guess} {marks}", marks) if marks else f"{guess} ({turn['outcome'].replace('_', ' ')})"
        lines.append(said + (" (given)" if turn.get("given") else ""))
    return "\n".join(lines)


def components_text(game: Mapping[str, Any]) -> str:
    """Format the reward components, unweighted and summed over turns; those that are 0 are left out.

    Examples:
        >>> components_text({"turns": [{"components": {"win": 0.0}}, {"components": {"win": 1.0, "speed": 0.5}}]})
        'win 1, speed 0.5'
    """
    totals: Counter[str] = Counter()
    for turn in game["turns"]:
        totals.update(turn.get("components", {}))
    return ", ".join(f"{name} {total:.4g}" for name, total in totals.items() if total)
