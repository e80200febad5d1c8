"""Finished games of an evaluation on disk, so that the same command resumes after a stop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.records import EvaluationError, occurrences
from wordle_rl.runs.jsonl_store import OtherSettingsError, Row, Store


class Journal(Store):
    """Finished games on disk, by secret and its occurrence (`games`), so that the same command resumes after a stop.

    Errors are not stored, so they are played again.

    `settings` are everything a game depends on, as JSON values. `overwrite` discards what the file holds.
    """

    def __init__(self, path: Path, settings: Row, *, overwrite: bool = False) -> None:
        super().__init__(path, settings, overwrite=overwrite)
        self.games: dict[tuple[str, int], GameRecord] = {}
        with ExitStack() as unusable:
            unusable.callback(self.close)
            for number, row in enumerate(self, start=2):
                try:
                    game = GameRecord.from_row(row)
                    self.games.setdefault((game.secret, int(row["occurrence"])), game)
                except (KeyError, TypeError, ValueError):
                    raise EvaluationError(f"{path}:{number} is no game; delete the line to play it again") from None
            unusable.pop_all()

    def store(self, secret: str, occurrence: int, game: GameRecord) -> None:
        """Store one finished game."""
        self.add({**game.to_row(), "occurrence": occurrence})
        self.games[secret, occurrence] = game

    def kept(self, secrets: Sequence[str]) -> list[GameRecord]:
        """Return the stored games of these secrets."""
        return [self.games[key] for key in occurrences(secrets) if key in self.games]


def journal_of(path: Path, settings: Row) -> Journal:
    """Open the journal of an interrupted evaluation. Games played with other settings are discarded."""
    try:
        return Journal(path, settings)
    except (EvaluationError, OtherSettingsError):
        return Journal(path, settings, overwrite=True)


def num_kept(path: Path) -> int:
    """Return the number of games in a journal file; 0 if it is missing."""
    return max(0, path.read_bytes().count(b"\n") - 1) if path.is_file() else 0


def journal_path(out: Path) -> Path:
    """Return the journal path of an evaluation file.

    Examples:
        >>> journal_path(Path("runs/eval.json")).as_posix()
        'runs/eval.games.jsonl'
        >>> journal_path(Path("runs/rep.1")).as_posix()
        'runs/rep.1.games.jsonl'
    """
    return out.with_name(f"{out.stem if out.suffix == '.json' else out.name}.games.jsonl")
