"""Learning by play: one loop for GRPO, expert iteration, DPO and distillation.

    for number in rounds:
        games   = method.next_games(number)        # draw starts, play, choose what to learn, record it
        for batch in method.batches(games):        # rows of tokens, each with a weight or an advantage
            update = learner.update(batch, method.loss)
        loop.after(number)                         # a row of metrics, and a checkpoint if one is due
        listeners: after(number)                   # validation and selection

A `Method` is what differs between algorithms. Read them in this order: grpo.py, expert_iteration.py, dpo.py,
distill.py; to add one, write such a class and its settings (config/stages.py), and list both in algorithms.py. Two
kinds of rounds exist. A round of GRPO is one step: seconds of play, usually one update, and an
optimizer that lasts. The others (`own_optimizer`) play for minutes and then pass over what they chose as SFT does, with
an optimizer of its own; the learning rate's schedule spans all rounds. They keep what a round's games left to learn on
disk, so a stopped training resumes inside the round.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.stages import GRPOSettings, LearningByPlay
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.base import Sampler
from wordle_rl.runs import LABELS_FILE, BufferedRun, Run, read_jsonl, write_jsonl
from wordle_rl.runs.checksums import check_marks, marks_of, read_record, write_record
from wordle_rl.runs.distributed import gather, is_first, wait_for_all
from wordle_rl.runs.jsonl_store import rewind
from wordle_rl.runs.trackers import GameLog, opened_trackers
from wordle_rl.train.checkpoints import Place, checkpoint_path, last_place
from wordle_rl.train.example import Example
from wordle_rl.train.loss import Loss
from wordle_rl.train.scored_games import merged_metrics
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.training_loop import StopRequest, Training, TrainingLoop, held_interrupt

if TYPE_CHECKING:
    from wordle_rl.train.weight_sync import Engine

MicroBatches = Sequence[Sequence[Example]]
"""A batch, as the parts that go through the model one after the other."""
Item = list[Example]
"""Rows that share a batch: a game, the boards of a game, or the two replies of a pair."""

OpenPolicy = Callable[[SamplingSettings, int], AbstractContextManager[tuple[Sampler, int | None]]]
"""Opens a sampler over the policy's current weights, given settings and a seed: `Learner.policy`, or an engine's.

The context yields the sampler and its longest prompt in tokens (None: no limit).
"""


@dataclass(frozen=True, slots=True)
class PlayedGames:
    """What the games of a round left to learn, in one process.

    Attributes:
        items: Empty if the round teaches nothing.
        metrics: Numbers of the round, by name.
        denominators: What a mean is over, for each mean that is not over all games; to merge processes by.
    """

    items: Sequence[Item]
    metrics: Mapping[str, float]
    denominators: Mapping[str, int] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Store as JSON lines: the numbers, then a line for each item; with size and hash in a file beside it."""
        head = {"metrics": dict(self.metrics), "denominators": dict(self.denominators)}
        write_jsonl(path, [head, *({"examples": [*map(_row_of, item)]} for item in self.items)])
        write_record(path.with_suffix(".json"), marks_of(path.parent, [path]))  # last: only now do the games count

    @classmethod
    def load(cls, path: Path) -> PlayedGames | None:
        """Read what `save` wrote; None if it was not written to the end.

        Raises:
            RunError: If the file has changed since.
        """
        seal = path.with_suffix(".json")
        if not seal.is_file():
            return None
        remedy = f"delete {seal}, and the round is played again"
        check_marks(path.parent, read_record(seal, remedy), remedy)
        head, *rows = read_jsonl(path)
        return cls([[Example(**example) for example in row["examples"]] for row in rows], **head)

    @staticmethod
    def forget(path: Path) -> None:
        """Remove what `save` wrote."""
        for file in (path.with_suffix(".json"), path):
            file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Stage:
    """What a method plays and learns with.

    Attributes:
        log: Takes sample games; its `run` takes the rows of this process.
        open_policy: Opens the sampler that plays.
        engine: An engine that plays in place of the learner's own sampler.
        traces: How the teacher plays, for distillation.
        stop: What Ctrl-C asks for.
        tell: Shows progress within a round: games played since the training began, and a note.
    """

    training: Training
    setup: GameSetup
    log: GameLog
    open_policy: OpenPolicy
    engine: Engine | None = None
    traces: TraceSettings = field(default_factory=TraceSettings)
    stop: StopRequest = field(default_factory=StopRequest)
    tell: Callable[[int, str], None] = lambda _games, _note: None

    @property
    def run(self) -> Run:
        """The run, as this process may write to it."""
        return self.log.run

    @property
    def name(self) -> str:
        """Name of the stage."""
        return self.training.stage

    @property
    def seed(self) -> int:
        """Seed of secrets, initial states and sampling."""
        return self.training.seed

    @property
    def codec(self) -> ChatCodec:
        """Messages to tokens and back."""
        return self.training.learner.codec


class Method(Protocol):
    """The part of learning by play that differs between algorithms."""

    loss: Loss
    own_optimizer: bool
    """True for long rounds: each begins with a new optimizer, its games are stored, Ctrl-C stops inside it, and the
    checkpoint after it holds weights alone."""

    def next_games(self, number: int) -> PlayedGames:
        """Play round `number`, from 1, as often as needed (refills, probes, candidates), and choose what to learn."""

    def batches(self, games: PlayedGames, number: int, /) -> Sequence[MicroBatches]:
        """Return the batches of a round; the same games give the same batches."""

    def note_metrics(self, metrics: Mapping[str, float]) -> None:
        """Take note of the metrics of a round, over all processes."""

    def state(self) -> Mapping[str, Any]:
        """Return what a resume needs; every process must call this."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""

    def listeners(self, loop: TrainingLoop, /) -> Sequence[Listener]:
        """Return what follows the training."""

    def close(self) -> None:
        """End what is under way."""


class Listener(Protocol):
    """Follows a training between its rounds, such as checkpoint selection."""

    def begin(self) -> None:
        """Called before the first round of a new training."""

    def after(self, number: int) -> None:
        """Called after a round and its checkpoint; after a resume once more for the last one."""

    def end(self, number: int) -> None:
        """Called after the last round, before the model is saved; may change the weights."""

    def close(self) -> None:
        """Called once the model is saved."""


def learn_by_play(
    method_class: Callable[[Stage, Any], Method],
    training: Training,
    setup: GameSetup,
    settings: LearningByPlay,
    *,
    open_policy: OpenPolicy | None = None,
    engine: Engine | None = None,
    traces: TraceSettings | None = None,
) -> Path:
    """Train a stage that learns by play, save its model to its directory, and return that.

    An interrupted training resumes where it stopped. At Ctrl-C, GRPO ends the step under way and saves a checkpoint.
    The others stop play at once, to play that round again, and learning after an update, with a checkpoint.

    Args:
        open_policy: Opens the sampler that plays. None: that of the engine, if there is one, or the learner's own.
        engine: See `Stage`; as `traces`.
    """
    own_run = training.run if is_first() else BufferedRun(training.run.directory)  # one process writes, see `_merged`
    with (
        held_interrupt() as stop,
        opened_trackers(training.run, training.report_to, training.stage, training.directory) as trackers,
    ):
        by_step = isinstance(settings, GRPOSettings)
        headline = ("reward", "win_rate", "loss") if by_step else ("win_rate", "loss")
        name = "steps" if by_step else "rounds"
        loop = TrainingLoop(training, stop, settings.num_rounds, unit=name, headline=headline, trackers=trackers)
        log = GameLog(own_run, trackers if is_first() else ())
        # Progress counts steps of GRPO, and games where a round takes minutes.
        unit = 1 if by_step else settings.groups_to_play * settings.group_size
        stage = Stage(
            training,
            setup,
            log,
            open_policy or (training.learner.policy if engine is None else engine.policy),
            engine,
            traces or TraceSettings(),
            stop,
            tell=lambda games, note: loop.report(games, settings.num_rounds * unit, note),
        )
        method = method_class(stage, settings)
        with closing(method):
            listeners = method.listeners(loop)
            rounds = _Rounds(stage, settings, method, loop, unit)
            place = rounds.resume()
            for listener in listeners:
                if place.done:  # a kill can have come between the last checkpoint and what listeners do after it
                    listener.after(place.done)
                else:
                    listener.begin()
            for number in range(place.done + 1, settings.num_rounds + 1):
                # The validation after the last round can be interrupted; without a checkpoint the round would be lost.
                if rounds.take(number, save=bool(listeners) and number == settings.num_rounds):
                    break
                for listener in listeners:
                    listener.after(number)
    log.detach_trackers()
    for listener in listeners:
        listener.end(settings.num_rounds)
    directory = loop.finish()
    for listener in listeners:
        listener.close()
    return directory


class _Rounds:
    """The rounds of a training: play, learn, log, save."""

    def __init__(self, stage: Stage, settings: LearningByPlay, method: Method, loop: TrainingLoop, unit: int) -> None:
        self._stage, self._settings, self._method, self._loop, self._unit = stage, settings, method, loop, unit
        self._training, self._learner = stage.training, stage.training.learner
        self._resumed: tuple[Path | None, Place] = (None, Place())

    def resume(self) -> Place:
        """Load the newest checkpoint and return its place; remove what was logged after it."""
        if is_first():
            self._drop_updates_without_games()
        wait_for_all()
        checkpoint, place, state = self._loop.restore()
        self._resumed = checkpoint, place
        if is_first():
            self._rewind(place)
        if self._method.loss.needs_reference:
            self._learner.remember_start()  # before a checkpoint is loaded: the reference is the stage's first model
        if not self._method.own_optimizer:
            self._learner.start(self._settings.optimizer, self._loop.total * self._settings.updates_per_batch)
        if checkpoint is not None:
            if not self._method.own_optimizer:
                self._learner.load_checkpoint(checkpoint)
            elif not place.updates:  # else weights and optimizer are loaded where the round goes on, see `take`
                self._learner.load_model(checkpoint)
            self._method.load_state(state["method"])
        return place

    def _drop_updates_without_games(self) -> None:
        # What a round has learnt is of no use without its games. Played again, they must come from the weights that the
        # round began with, which the checkpoint before it has.
        checkpoints = self._training.checkpoints
        place = last_place(checkpoints)
        if place.updates and not self._file(place.done + 1).with_suffix(".json").is_file():
            shutil.rmtree(checkpoint_path(checkpoints, place))

    def take(self, number: int, *, save: bool) -> bool:
        """Play and learn one round; return True if it or the training is to stop here. `save`: keep a checkpoint."""
        loop, method, repeats = self._loop, self._method, self._settings.updates_per_batch
        started = time.perf_counter()
        games = self._games(number)
        if method.own_optimizer and self._stage.stop.wanted:
            return True  # what they left to learn is on disk
        batches = method.batches(games, number)
        total, done = len(batches) * repeats, 0
        if method.own_optimizer and total:
            # The optimizer's state is new in each round; the schedule of its rate spans them all.
            self._learner.start(self._settings.optimizer, total, (number - 1, loop.total))
            checkpoint, place = self._resumed
            if checkpoint is not None and place.updates and number == place.done + 1:
                self._learner.load_checkpoint(checkpoint)
                done = place.updates
        before = 0 if method.own_optimizer else (number - 1) * total  # updates of earlier rounds, in the schedule
        for update in range(done + 1, total + 1):
            taken = self._learner.update(batches[(update - 1) // repeats], method.loss, before + update)
            loop.add(taken)
            if method.own_optimizer:
                note = f"round {number}: step {update} of {total}, loss {taken.loss:.3f}"
                loop.report(number * self._unit, loop.total * self._unit, note)
                if loop.gives_up:
                    loop.give_up(f"step {update} of round {number}")
                if self._stage.stop.wanted and update < total:
                    loop.save(Place(number - 1, update), {"method": method.state()})
                    return True
        metrics = self._merged(games)
        method.note_metrics(metrics)
        metrics["step_time"] = time.perf_counter() - started
        loop.report(number * self._unit, loop.total * self._unit, metrics)
        every = self._settings.save_steps if isinstance(self._settings, GRPOSettings) else 1
        stopping = loop.after(
            number,
            metrics,
            save=save or (every > 0 and number % every == 0),
            state=lambda: {"method": method.state()},
            with_optimizer=not method.own_optimizer,
        )
        PlayedGames.forget(self._file(number))
        return stopping

    def _games(self, number: int) -> PlayedGames:
        if not self._method.own_optimizer:
            return self._method.next_games(number)
        stored = PlayedGames.load(self._file(number))
        if stored is None:
            self._method.next_games(number).save(self._file(number))
            # Read them even though they were just written, so that a resumed training learns from the same values.
            stored = PlayedGames.load(self._file(number))
        assert stored is not None
        return stored

    def _file(self, number: int) -> Path:
        return self._training.checkpoints / f"round-{number}.jsonl"

    def _merged(self, games: PlayedGames) -> dict[str, float]:
        # One collective for both: the metrics, and the rows that the first process writes for the others.
        own_run, run = self._stage.run, self._training.run
        mine = own_run.take() if isinstance(own_run, BufferedRun) else []
        everyone = gather((dict(games.metrics), dict(games.denominators), mine))
        if is_first():
            for *_, rows in everyone:
                for name, row in rows:
                    run.append(name, row)
        return merged_metrics([(metrics, denominators) for metrics, denominators, _ in everyone])

    def _rewind(self, place: Place) -> None:
        # Rows carry the name of the stage, and those of play count rounds from 0. A round is validated after its
        # checkpoint, so the validation of the last round goes as well, and is made again.
        name, done = self._training.stage, place.done
        kept = self._file(done + 1)
        played = done + kept.with_suffix(".json").is_file()
        parts = {part: {f"{name}/{part}": kept} for part, kept in (("probe", done), ("validation", done))}
        games = {name: played} | parts["probe"] | parts["validation"]
        metrics = {name: done + 1} | parts["validation"] | {f"{name}/blend": 0}
        files = ("games.jsonl", "secrets.jsonl", LABELS_FILE)
        rewind(self._training.run.directory, {"metrics.jsonl": metrics, **dict.fromkeys(files, games)})
        for left in self._training.checkpoints.glob("round-*.json*"):
            if left.stem != kept.stem:  # by a kill after the checkpoint of its round
                left.unlink()


def _row_of(example: Example) -> dict[str, Any]:
    # By hand, since `asdict` copies every token one by one. Empty columns are left out.
    row: dict[str, Any] = {"token_ids": list(example.token_ids), "loss_mask": list(example.loss_mask)}
    row |= {name: list(column) for name in ("advantages", "sampler_logprobs") if (column := getattr(example, name))}
    if example.soft_targets:
        row["soft_targets"] = [[list(pair) for pair in target] for target in example.soft_targets]
    return row
