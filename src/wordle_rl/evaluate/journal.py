"""An evaluation and its file: finished games lie beside it in a journal, so that the same command resumes.

games.json            the evaluation, once every game has been played
games.games.jsonl     its journal: what was asked, then a game a line
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.asked import Asked
from wordle_rl.evaluate.play import OpenPlayer, evaluate, record_of, with_regret
from wordle_rl.evaluate.records import Evaluation, EvaluationError, differences, occurrences
from wordle_rl.policy.scripted import RANDOM_PLAYERS
from wordle_rl.reward import named_schedule
from wordle_rl.runs.jsonl_store import OtherSettingsError, Row, Store, repaired


class Journal(Store):
    """Finished games on disk, by secret and its occurrence (`games`).

    `settings` are everything a game depends on, as JSON values. `overwrite` discards what the file holds.
    """

    def __init__(self, path: Path, settings: Row, *, overwrite: bool = False) -> None:
        super().__init__(path, settings, overwrite=overwrite)
        self.games: dict[tuple[str, int], GameRecord] = {}
        # A line that is no game must not leave the file locked.
        with ExitStack() as unusable:
            unusable.callback(self.close)
            for number, row in enumerate(self, start=2):
                try:
                    game = GameRecord.from_row(row)
                    # The first of two lines counts; a second would be the game of another try.
                    self.games.setdefault((game.secret, int(row["occurrence"])), game)
                except (KeyError, TypeError, ValueError):
                    raise EvaluationError(f"{path}:{number} is no game; delete the line to play it again") from None
            unusable.pop_all()

    def store(self, secret: str, occurrence: int, game: GameRecord) -> None:
        """Store one finished game. An error is not stored, so the next call plays it again."""
        if not game.failed:
            self.add({**game.to_row(), "occurrence": occurrence})
            self.games[secret, occurrence] = game

    def kept(self, asked: Asked) -> list[GameRecord]:
        """Return the stored games among those that are asked for."""
        return [self.games[key] for key in occurrences(asked.secrets) if key in self.games]


def journal_path(out: Path) -> Path:
    """Return the journal path of an evaluation file.

    Examples:
        >>> journal_path(Path("runs/eval.json")).as_posix()
        'runs/eval.games.jsonl'
        >>> journal_path(Path("runs/rep.1")).as_posix()
        'runs/rep.1.games.jsonl'
    """
    return out.with_name(f"{out.stem if out.suffix == '.json' else out.name}.games.jsonl")


@contextmanager
def open_journal(
    out: Path | None,
    asked: Asked,
    tell: Callable[[str], None],
    *,
    overwrite: bool = False,
    in_run: bool = False,
) -> Iterator[Journal | None]:
    """Open the journal beside `out`; None if games are not kept.

    Games of another evaluation, in the journal or in `out`, are refused, since they may have cost money. In a run they
    are discarded: only weights that are gone can have played them, and nobody could name another file.
    """
    if out is not None and not overwrite:
        _check_replaced(out, asked)
    if out is None or asked.player.name in RANDOM_PLAYERS:  # whose draws depend on all earlier draws
        yield None
        return
    path, key = journal_path(out), asked.key()
    try:
        journal = Journal(path, key, overwrite=overwrite)
    except (EvaluationError, OtherSettingsError):
        if not in_run:
            raise
        journal = Journal(path, key, overwrite=True)
    try:
        if journal.num_bytes_cut:
            tell(f"{repaired(path, journal.num_bytes_cut)}; that game is played again")
        if kept := journal.kept(asked):
            tell(f"{len(kept):,} of {len(asked.starts):,} games are stored already")
        yield journal
    finally:
        journal.close()


def evaluate_to_file(
    asked: Asked,
    open_player: OpenPlayer,
    out: Path | None,
    journal: Journal | None,
    progress: Callable[[GameRecord], None] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Play what is missing, score and measure the games, and write them to `out`.

    `progress` is called with each game that is played, `tell` with lines for the user.
    """
    if not asked.starts:
        raise EvaluationError("no secrets to play; give at least one")
    rubric = None if asked.reward is None else named_schedule(asked.reward).rubric()
    measure = partial(record_of, rubric=rubric, solver=asked.context.solver)
    records = evaluate(asked, open_player, measure, journal, progress)
    errors = Counter(record.error for record in records if record.failed)
    for reason, count in errors.most_common(1):
        if errors.total() == len(records):
            raise EvaluationError(f"no game could be played: {reason}")
        again = "" if journal is None else "; the same command plays them again"
        tell(f"{errors.total():,} games could not be played and are not counted ({count:,}: {reason}){again}")
    # Afterwards, for whoever plays: the solver would keep an endpoint waiting, and a stored game needs no second key.
    if asked.regret:
        records = with_regret(records, asked.context)
    evaluation = asked.evaluation(records)
    if out is None:
        return evaluation
    evaluation.save(out)
    # What could be played again for nothing need not be kept, if every game of the journal is in the file. Games of an
    # endpoint stay for a later call that asks for more of them.
    replayable = not asked.player.is_served and not errors
    if journal is not None and replayable and journal.games.keys() <= set(occurrences(asked.secrets)):
        journal.discard()
    return evaluation


def _check_replaced(out: Path, asked: Asked) -> None:
    # A file may be replaced by an evaluation of the same kind that has all of its games.
    if not out.exists():
        return
    fix = "name another --out, or pass --overwrite"
    try:
        before = Evaluation.load(out)
    except EvaluationError:
        raise EvaluationError(f"{out} holds no readable evaluation; {fix}") from None
    planned, names = asked.evaluation(), ("player", "fingerprint", "parts", "constrain")
    facts: dict[str, tuple[object, object]] = {name: (getattr(before, name), getattr(planned, name)) for name in names}
    facts["rules"] = (before.rules.in_effect, planned.rules.in_effect)
    facts.update(differences(before.conditions, planned.conditions))
    told = [f"{name} {now} instead of {was}" for name, (was, now) in facts.items() if was != now]
    if missing := set(occurrences(record.secret for record in before.records)) - set(occurrences(asked.secrets)):
        told.append(f"{len(missing):,} of its games missing")
    if told:
        raise EvaluationError(f"{out} holds another evaluation, this one has {', '.join(told)}; {fix}")
