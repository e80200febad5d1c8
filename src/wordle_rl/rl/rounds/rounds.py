"""Training by rounds: in each the policy plays, a method chooses from its games what to train on, and trains it.

After playing, a round stores its training data with the checkpoints; after training, its model and record. An
interrupted training therefore resumes inside the round in which it stopped.
"""

from __future__ import annotations

import gc
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack

from transformers import PreTrainedModel, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import get_reporting_integration_callbacks

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ModelSettings, RoundTraining, SamplingSettings, SFTSettings, seed_after
from wordle_rl.data.dataset import Example
from wordle_rl.models.adapters import has_adapters
from wordle_rl.models.loading import load_model, save_model
from wordle_rl.rl.initial_states import GroupStarts, record_secrets
from wordle_rl.rl.rounds.replay import Replay
from wordle_rl.rl.setup import GameSetup, Scored, check_some_played, group_rows, measured, prompt_budget
from wordle_rl.rollout import Trajectory, groups_of, play
from wordle_rl.runs import LABELS_FILE, Run, read_jsonl, read_object, write_json, write_jsonl
from wordle_rl.runs.distributed import check_alone
from wordle_rl.runs.logs import rewind
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.samplers.base import Sampler
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.training.checkpoints import STATE_FILE, drop_checkpoints
from wordle_rl.training.guard import StepGuard
from wordle_rl.training.interrupt import StopRequest, held_interrupt
from wordle_rl.training.sft import fit_games
from wordle_rl.training.trainer import RunCallback, known_warnings_silenced

Row = dict[str, list[int]]
"""Something to train on: named lists of token ids or masks."""

Numbers = dict[str, float]

MakeSampler = Callable[[PreTrainedModel, ChatCodec, SamplingSettings, int], Sampler]
"""Sampler of a round, given the policy, its codec, the sampling settings and a seed."""


class RoundOptions(TypedDict, total=False):
    """Arguments that every training by rounds passes on.

    Attributes:
        seed: Seed of secrets, initial states and sampling; 0 if left out.
        report_to: Experiment trackers, by TRL's names.
        progress: Called with games played, games in all, and a note.
        on_saved: Called with the directory of the whole model, before checkpoints are removed.
        make_sampler: Opens the sampler that plays a round; a `TransformersSampler` if left out.
    """

    seed: int
    report_to: Sequence[str]
    progress: ProgressCallback | None
    on_saved: Callable[[Path], None] | None
    make_sampler: MakeSampler


@dataclass(frozen=True)
class Round:
    """The games of a round, by group, and the sampler that played them. Games that failed are not among them.

    `number` counts from 1; `seed` differs from round to round.
    """

    number: int
    groups: list[list[Scored]]
    sampler: Sampler
    seed: int


class Method(Protocol):
    """The part of a training by rounds that differs between algorithms."""

    def choose(self, played: Round) -> tuple[list[Row], Numbers]:
        """Training rows made of these games, and metrics; no rows: the round teaches nothing."""

    def fit(self, rows: list[Row], callback: RunCallback, checkpoints: Path, seed: int) -> None:
        """Train the policy on the rows, from the last of the checkpoints on."""


@dataclass(frozen=True)
class Record:
    """State of the finished rounds that later ones need."""

    rounds: int = 0
    best_compliance: float | None = None
    cumulative_wins: int = 0


class Rounds:
    """One training by rounds.

    Args:
        name: Name of the algorithm, of its stage, and of its model's directory.
        model: The policy, changed in place.
        codec: Its tokenizer and template.
        setup: Words, prompts, training secrets, solver.
        settings: Rounds, games, reward.
        run: Where metrics, games, checkpoints and the model go.
        outside_rate: Rate of secrets that are listed words outside the answers.
        options: The rest.

    Raises:
        ConfigError: If several processes were launched, or the model's context holds no reply.
    """

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        codec: ChatCodec,
        setup: GameSetup,
        settings: RoundTraining,
        run: Run,
        *,
        outside_rate: float = 0.0,
        **options: Unpack[RoundOptions],
    ) -> None:
        check_alone(name)
        self.name, self.model, self.codec, self.setup = name, model, codec, setup
        self.settings, self.run, self.seed = settings, run, options.get("seed", 0)
        self._report_to, self._progress = tuple(options.get("report_to", ())), options.get("progress")
        self._on_saved = options.get("on_saved")
        self._make_sampler = options.get("make_sampler", TransformersSampler)
        self._max_prompt_tokens = prompt_budget(model, settings.sampling)
        self._schedule = settings.reward.schedule()
        self._starts = GroupStarts(
            setup.words,
            setup.prompter,
            setup.secrets,
            self.seed,
            outside_rate=outside_rate,
            prefixes=setup.prefixes_of(settings.starts),
            given_starts=setup.given_starts,
            starts_fraction=setup.starts_fraction,
        )
        self._trackers = [make() for make in get_reporting_integration_callbacks(list(self._report_to))]
        self.checkpoints = run.directory / name / "checkpoints"
        self.record = Record()

    def replay(self, fraction: float, most: int) -> Replay:
        """Teacher games for all rounds.

        Args:
            fraction: Fraction of teacher games among all games of a round, 0 to below 1.
            most: The most own games of any round.

        Raises:
            RunError: If there are no traces to draw from.
        """
        rounds = self.settings.rounds
        return Replay(self.model, self.codec, self.setup, fraction, most, rounds, self.run, self.seed)

    def train(self, method: Method) -> Path:
        """Go through all rounds that are left and save the model to `<run>/<name>`.

        Returns:
            The model directory.

        Raises:
            KeyboardInterrupt: After Ctrl-C: at once while games are played, else once what there is has been saved.
        """
        directory = self.run.directory / self.name
        with held_interrupt() as stop, known_warnings_silenced():
            self._go_on()
            while self.record.rounds < self.settings.rounds and not stop.wanted:
                self._round(method, stop)
        save_model(self.model, self.codec, directory)
        if self._on_saved is not None:
            self._on_saved(directory)
        drop_checkpoints(self.checkpoints)
        return directory

    def _round(self, method: Method, stop: StopRequest) -> None:
        number = self.record.rounds + 1
        stored = self._stored(number)
        if not stored.is_file():
            head, rows = self._play(method, number, stop)
            write_jsonl(stored, [head, *rows])
        head, *rows = read_jsonl(stored)
        started = time.perf_counter()
        guard = StepGuard(self.name)
        callback = _RoundCallback(self.run, self.name, stop, self._told_of_training(number), guard)
        if self._trained(method, rows, callback, number, stop):
            seconds = {"seconds/training": time.perf_counter() - started}
            self._finish(Record(**head["record"]), {**head["numbers"], **callback.numbers(), **seconds})

    def _trained(
        self, method: Method, rows: list[Row], callback: _RoundCallback, number: int, stop: StopRequest
    ) -> bool:
        """Train on the rows; False if that was stopped before its end."""
        if rows and not stop.wanted:
            with forward_restored(self.model):
                directory = self.checkpoints / f"round-{number}-training"
                method.fit(rows, callback, directory, seed_after(self.seed, number))
            gc.collect()  # a trainer and its optimizer hold each other
        return callback.finished or not stop.wanted

    def _play(self, method: Method, number: int, stop: StopRequest) -> tuple[dict[str, Any], list[Row]]:
        """Play the games of a round and choose what to learn from them."""
        started = time.perf_counter()
        seed = random.Random(f"{self.seed}:{number}").getrandbits(31)
        sampler = self._make_sampler(self.model, self.codec, self.settings.sampling, seed)
        trajectories = self._trajectories(sampler, number, stop)
        rubric = self._schedule.rubric(self.record.best_compliance)
        size = self.settings.group_size
        groups = [
            [Scored(t, rubric.score(t.transcript, self.setup.solver), ()) for t in group if t.error is None]
            for group in groups_of(trajectories, size)
        ]
        games = [game for group in groups for game in group]
        failed = check_some_played(games, [t.error for t in trajectories if t.error is not None], f"round {number}")
        self._log_samples(groups, number)
        examples, chosen = method.choose(Round(number, groups, sampler, seed))
        record, numbers = self._measured(games, number)
        numbers |= chosen | failed | {"seconds/play": time.perf_counter() - started}
        return {"record": asdict(record), "numbers": numbers}, examples

    def _log_samples(self, groups: Sequence[list[Scored]], number: int) -> None:
        """Write some games of a round, evenly spaced."""
        rows = [(place, game) for place, group in enumerate(groups) for game in range(len(group))]
        every = max(1, len(rows) // max(1, self.settings.sample_games))
        for place, game in rows[::every][: self.settings.sample_games]:
            row = group_rows(place, groups[place])[game]
            self.run.append("games.jsonl", {"stage": self.name, "step": number - 1, **row})

    def _trajectories(self, sampler: Sampler, number: int, stop: StopRequest) -> list[Trajectory]:
        rng = random.Random(f"{self.seed}:{number}:given")
        drawn = self._starts.draw(self.settings.groups_per_round, number, rng=rng)
        record_secrets(self.run, self.name, number - 1, 0, [start.secret for start in drawn])
        starts = [start for start in drawn for _ in range(self.settings.group_size)]
        done = (number - 1) * len(starts)

        def count(*_: object) -> None:
            nonlocal done
            done += 1
            self._tell(done, f"round {number}: playing")
            if stop.wanted:
                raise KeyboardInterrupt

        return play(
            starts,
            self.setup.words,
            self.setup.prompter,
            sampler,
            max_prompt_tokens=self._max_prompt_tokens,
            on_finished=count,
        )

    def _measured(self, games: Sequence[Scored], number: int) -> tuple[Record, Numbers]:
        """The record after this round, and what to log of its games."""
        found = measured(games, self.setup.words)
        compliance = max(found.means["format_compliance"], self.record.best_compliance or 0.0)
        record = Record(number, compliance, self.record.cumulative_wins + found.num_wins)
        numbers = dict(found.means)
        numbers["reward"] = statistics.fmean(game.reward.total for game in games)
        numbers["cumulative_wins"] = float(record.cumulative_wins)
        return record, numbers

    def _finish(self, record: Record, numbers: Numbers) -> None:
        """Save the model and the record of a round, log it, and remove earlier files of the checkpoint directory."""
        directory = self.checkpoints / f"round-{record.rounds}"
        save_model(self.model, self.codec, directory)
        self.run.append("metrics.jsonl", {"stage": self.name, "step": record.rounds, **numbers})
        write_json(directory / STATE_FILE, asdict(record))  # only now is the round finished, see `_rewind`
        self.record = record
        for path in self.checkpoints.iterdir():
            if path != directory:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        state = TrainerState(global_step=record.rounds, max_steps=self.settings.rounds, is_world_process_zero=True)
        for tracker in self._trackers:
            names = self.run.tracker_arguments(self.name)
            arguments = TrainingArguments(str(self.run.directory / self.name), report_to=list(self._report_to), **names)
            tracker.on_log(arguments, state, TrainerControl(), model=self.model, logs=dict(numbers))
        won = f"win_rate {numbers['win_rate']:.3f}" if "win_rate" in numbers else "no secret was an answer"
        self._tell(self._games_until(record.rounds), won)

    def _go_on(self) -> None:
        """Take the weights and the record of the last finished round, if there is one."""
        if number := rounds_done(self.checkpoints):
            last = self.checkpoints / f"round-{number}"
            if has_adapters(self.model):
                self.model.load_adapter(str(last), "default", is_trainable=True)
            else:
                saved, _ = load_model(ModelSettings(path=str(last), dtype="auto"), self.seed)
                self.model.load_state_dict(saved.state_dict())
            self.record = Record(**read_object(last / STATE_FILE))
        self._rewind()

    def _rewind(self) -> None:
        """Remove what an unfinished round has logged and will log again: all of it, or its training's part."""
        done, name = self.record.rounds, self.name
        played = done + self._stored(done + 1).is_file()
        games = {name: {self.name: played} for name in ("games.jsonl", "secrets.jsonl", LABELS_FILE)}
        rewind(self.run.directory, {"metrics.jsonl": {name: done + 1}, **games})

    def _stored(self, number: int) -> Path:
        """File in which a round keeps its training rows, once its games are played."""
        return self.checkpoints / f"round-{number}.jsonl"

    def _told_of_training(self, number: int) -> ProgressCallback:
        def tell(step: int, steps: int, note: str) -> None:
            self._tell(self._games_until(number), f"round {number}: step {step} of {steps}, {note}")

        return tell

    def _tell(self, games: int, note: str) -> None:
        if self._progress is not None:
            self._progress(games, self._games_until(self.settings.rounds), note)

    def _games_until(self, number: int) -> int:
        return number * self.settings.groups_per_round * self.settings.group_size


def rounds_done(checkpoints: Path) -> int:
    """The number of finished rounds that a training resumes after; 0 if it begins."""
    finished = checkpoints.glob(f"round-*/{STATE_FILE}")
    return max((int(path.parent.name.removeprefix("round-")) for path in finished), default=0)


def fit_round(rounds: Rounds, rows: Sequence[Row], callback: RunCallback, checkpoints: Path, seed: int) -> None:
    """Fine-tune the policy on a round's examples as SFT does, from the last of the checkpoints on.

    The optimizer's state is new in each round, the schedule of its rate spans them all.
    """
    wanted = rounds.settings
    settings = SFTSettings(
        epochs=wanted.epochs,
        batch_size=wanted.batch_size,
        gradient_accumulation_steps=wanted.gradient_accumulation_steps,
        optimizer=wanted.optimizer,
        precision=wanted.precision,
        gradient_checkpointing=wanted.gradient_checkpointing,
        logging_steps=1,
    )
    examples = [Example(**row) for row in rows]
    part = (rounds.record.rounds, wanted.rounds)
    fit_games(rounds.model, rounds.codec, examples, settings, checkpoints, callback, seed=seed, part=part)


class _RoundCallback(RunCallback):
    """Collects the numbers of a round's steps, which become one line of metrics."""

    def __init__(self, run: Run, stage: str, stop: StopRequest, progress: ProgressCallback, guard: StepGuard) -> None:
        super().__init__(run, stage, stop, progress, ("loss",), guard)
        self._numbers: dict[str, list[float]] = {}
        self.finished = False

    def write(self, step: int, numbers: dict[str, Any]) -> None:
        """Keep the numbers of a step."""
        del step
        for name, value in numbers.items():
            if name not in ("epoch", "num_tokens", "not_finite"):
                self._numbers.setdefault(name, []).append(value)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Note whether this was the last step."""
        super().on_step_end(args, state, control, **kwargs)
        self.finished = state.global_step >= state.max_steps

    def numbers(self) -> Numbers:
        """The mean of every number over the steps; of skipped steps the sum."""
        return {
            name: sum(values) if name == "skipped_steps" else statistics.fmean(values)
            for name, values in self._numbers.items()
        }


@contextmanager
def forward_restored(model: PreTrainedModel) -> Iterator[None]:
    """Restore `model.forward` on exit; each round's trainer wraps it again (autocast, fused head).

    accelerate marks a model that it has wrapped and does not wrap it twice, so its marks go, too: later rounds would be
    trained without autocast.
    """
    before = vars(model).get("forward")
    try:
        yield
    finally:
        for name in ("forward", "_original_forward", "_is_accelerate_prepared"):
            vars(model).pop(name, None)
        if before is not None:
            model.forward = before
