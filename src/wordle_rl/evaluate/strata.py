"""Group held-out secrets in strata by what training games showed of them.

A held-out secret is the secret of no training game, but a training game may still name it as a guess. If the game's own
secret lies outside the answers, the teacher names whatever answer is left, and the learner is trained to say it there.
If that board is also the one that decides the held-out secret's own game, the learner has seen the very position and
the word to say. So held-out figures are quoted by stratum:

- *board shown*: the secret's decisive board appears in training, with the secret as the label;
- *board not shown*: the secret is named somewhere, but not there;
- *never named* (`never_said`): no turn names it, taught or not, nor any thought or initial state.

The decisive board is the one before the last guess of the solver teacher's own game of the secret, played without
noise. It depends only on word list and teacher, never on the evaluated player. Boards are compared as the learner sees
them, refused guesses included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wordle_rl.config.context import GameContext
from wordle_rl.config.files import stored_config
from wordle_rl.config.model import GameSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.teachers import TeacherSettings
from wordle_rl.evaluate.figures import STRATA
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import Game
from wordle_rl.policy.directory import described_at, run_directory_around
from wordle_rl.runs import LABELS_FILE, PLAIN_TEXT_FILE, boards_file, read_jsonl, stages_at, write_json
from wordle_rl.runs.lineage import lineage_of
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words.split import words_of_text

Board = tuple[tuple[str, str], ...]
"""Guesses with their marks, in order. Marks are empty for unscored guesses."""

STRATA_FILE = "strata.json"
"""File of a run's strata, beside its results."""


def trained_on(run: Path) -> list[Path]:
    """List the files of a run that record what its models were trained on, except a policy's own replies in GRPO."""
    boards = [boards_file(run, stage) for stage in stages_at(run)]
    return [run / "traces.jsonl", run / LABELS_FILE, run / PLAIN_TEXT_FILE, *boards]


@dataclass(frozen=True)
class Shown:
    """Boards with the word trained there, and words named by any turn, thought, message or initial state.

    `complete` is False if conversations were trained on, whose boards are unknown.
    """

    labels: frozenset[tuple[Board, str]] = field(repr=False)
    named: frozenset[str] = field(repr=False)
    complete: bool = True


@dataclass(frozen=True)
class Strata:
    """Strata of held-out secrets, each a set of words; see the module.

    `complete` is False if a model was trained elsewhere before, without a record here. Any secret may then have been
    shown.
    """

    board_shown: frozenset[str]
    board_not_shown: frozenset[str]
    never_said: frozenset[str]
    complete: bool = True

    def named(self) -> dict[str, frozenset[str]]:
        """Return the strata by name."""
        return {name: getattr(self, name) for name in STRATA}

    def to_row(self) -> dict[str, Any]:
        """Return the strata as a JSON object of sorted lists."""
        return {name: sorted(words) for name, words in self.named().items()} | {"complete": self.complete}


def store_strata(directory: Path) -> Strata:
    """Write a run's strata beside its results."""
    strata = strata_of_run(directory)
    write_json(directory / STRATA_FILE, strata.to_row())
    return strata


def strata_of(secrets: Iterable[str], shown: Shown, boards: Mapping[str, Board], *, complete: bool = True) -> Strata:
    """Divide secrets into strata by their decisive boards. A secret without one counts as not shown."""
    all_secrets = frozenset(secrets)
    on_board = frozenset(s for s in all_secrets if s in boards and (boards[s], s) in shown.labels)
    never = all_secrets - shown.named
    return Strata(on_board, all_secrets - on_board - never, never, complete)


def strata_of_run(directory: Path, shown: Shown | None = None) -> Strata:
    """Compute the strata of a run's test secrets, from its records and those of the runs its model comes from.

    `shown` is the result of `shown_in_run`, if you have it already.

    Raises:
        WordListError: If its word list is missing.
    """
    config = stored_config(directory / "config.json")
    context = GameContext.of(config)
    learnt = context.for_training
    shown = shown or shown_in_run(directory, context.split.test)
    named = [secret for secret in context.split.test if secret in shown.named]
    teacher = SolverTeacher(learnt.solver)
    boards = decisive_boards(named, teacher, config.traces.teacher, config.game, context)
    return strata_of(context.split.test, shown, boards, complete=shown.complete and _sources(directory, config)[1])


def decisive_boards(
    secrets: Sequence[str],
    teacher: SolverTeacher,
    settings: TeacherSettings,
    game: GameSettings,
    context: GameContext,
) -> dict[str, Board]:
    """Return each secret's board before the winning guess of the teacher's noise-free game, if the teacher wins."""
    games = {secret: Game(secret, context.words, game.rules) for secret in secrets}
    running = list(games)
    while running:
        advices = [teacher.advise(games[secret].turns, settings, game.max_turns) for secret in running]
        for secret, advice in zip(running, advices, strict=True):
            if advice is not None:
                games[secret].play(advice.guess)
        running = [s for s, advice in zip(running, advices, strict=True) if advice is not None and not games[s].over]
    return {secret: _board(found.turns[:-1]) for secret, found in games.items() if found.won}


def shown_in_run(directory: Path, words: Collection[str]) -> Shown:
    """Collect labels and mentions of words from the records of a run and of those its model comes from."""
    runs = _sources(directory, stored_config(directory / "config.json"))[0]
    return shown_in((row for run in runs for path in trained_on(run) for row in _rows(path)), words)


def shown_in(games: Iterable[Mapping[str, Any]], words: Collection[str]) -> Shown:
    """Collect labels and mentions of words from rows of games or of plain texts.

    A turn is a label unless it is a prefix guess or `taught` is false. So are its `others`: words trained there with
    part of the probability. The secret is a label on boards of as many turns as `boards_taught` lists.
    """
    wanted = frozenset(words)
    labels: set[tuple[Board, str]] = set()
    named: set[str] = set()
    complete = True
    for game in games:
        board: list[tuple[str, str]] = []
        for message in game.get("messages", ()):
            complete = False  # a conversation in words of its own: its boards cannot be compared
            named.update(wanted.intersection(words_of_text(message.get("content", ""))))
        for message in game.get("prompt", ()):  # of an initial state
            named.update(wanted.intersection(words_of_text(message.get("content", ""))))
        named.update(wanted.intersection(words_of_text(game.get("text", ""))))  # plain text
        if game.get("secret") in wanted:
            named.add(str(game["secret"]))
        for turn in game.get("turns", ()):
            guess = turn.get("guess") or ""
            if guess in wanted:
                named.add(guess)
                # The label stands on the board before the turn, so it is added before the board grows.
                if turn.get("taught", not turn.get("given", False)):
                    labels.add((tuple(board), guess))
            for other in wanted.intersection(turn.get("others", ())):
                named.add(other)
                labels.add((tuple(board), other))
            for text in (turn.get("thinking"), turn.get("reply")):
                if text:
                    named.update(wanted.intersection(words_of_text(text)))
            board.append((guess, turn.get("marks") or ""))
            if len(board) in game.get("boards_taught", ()) and game.get("secret") in wanted:
                labels.add((tuple(board), str(game["secret"])))
    return Shown(frozenset(labels), frozenset(named), complete)


@dataclass(frozen=True)
class ShownAudit:
    """Counts of what a run's training games show of its held-out secrets.

    Attributes:
        num_secrets: Held-out secrets per stratum.
        own_games: Per evaluated model: won held-out games that appear in training, and all won held-out games.
        complete: True if all training is on record, see `Strata`.
    """

    num_secrets: dict[str, int]
    own_games: dict[str, tuple[int, int]]
    complete: bool


def audit_shown(directory: Path) -> ShownAudit:
    """Count what a run's training games show of its held-out secrets."""
    config = stored_config(directory / "config.json")
    test = GameContext.of(config).split.test
    shown = shown_in_run(directory, test)
    strata = strata_of_run(directory, shown)
    own = {}
    for path in sorted((directory / "eval").glob("*.json")):
        won = [record for record in Evaluation.load(path).only(test).records if record.won and not record.failed]
        same = sum((_board(record.turns[:-1]), record.secret) in shown.labels for record in won)
        own[path.stem] = (same, len(won))
    return ShownAudit({name: len(words) for name, words in strata.named().items()}, own, strata.complete)


def _board(turns: Iterable[Any]) -> Board:
    return tuple((turn.guess or "", turn.marks or "") for turn in turns)


def _sources(directory: Path, config: RunConfig) -> tuple[list[Path], bool]:
    """Return a run and those its model comes from, and whether all their records are here."""
    found, complete = [directory], True
    while (base := described_at(config.model.path, cached=True)).is_dir():  # its training has asked the hub
        before = run_directory_around(base)
        if before is None or before in found:
            return found, complete and lineage_of(base) is None
        found.append(before)
        config = stored_config(before / "config.json")
    return found, complete


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        yield from read_jsonl(path)
