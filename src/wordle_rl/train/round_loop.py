"""Training by rounds: the policy plays, a method chooses from its games what to learn, the learner learns it.

    for round in rounds:
        games = play(policy, starts)               # groups that share a secret and a start
        items, numbers = method.choose(games)      # expert_iteration.py, hindsight_labels.py, dpo.py, distill.py
        fit(learner, items, method.loss)           # as SFT does

After playing, a round stores its items; after training, its model and record. An interrupted training therefore resumes
inside the round in which it stopped. `Replay` adds teacher games to a round, against forgetting.

Every board and word that a round trains on is recorded in labels.jsonl, in the row form of games. A guess of the
policy's own games can become a label, so those that name a strict word are left out, whoever named it first.
"""

from __future__ import annotations

import math
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from wordle_rl.config import RoundTraining, SFTTraining, seed_after
from wordle_rl.data.dataset import Example, encode_traces
from wordle_rl.data.game_record import GameRecord, TurnRecord, read_traces
from wordle_rl.env import PlayedTurn
from wordle_rl.game import Turn
from wordle_rl.policy.base import Sampler
from wordle_rl.policy.loading import context_length
from wordle_rl.rollout import Trajectory, groups_of, play
from wordle_rl.runs import LABELS_FILE, Run, read_jsonl, read_object, write_json, write_jsonl
from wordle_rl.runs.distributed import check_alone
from wordle_rl.runs.jsonl_store import rewind
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.runs.trackers import opened_trackers
from wordle_rl.train.checkpoints import STATE_FILE, drop_checkpoints
from wordle_rl.train.grpo_rollouts import OpenPolicy
from wordle_rl.train.learner import Learner
from wordle_rl.train.loss import Loss
from wordle_rl.train.scored_games import Scored, check_some_played, group_rows, measured
from wordle_rl.train.sft import fit
from wordle_rl.train.starts import GameSetup, GroupStarts, record_secrets
from wordle_rl.train.training_loop import StopRequest, TrainingLoop, held_interrupt
from wordle_rl.words.split import Split

Item = list[Example]
"""Rows that share a batch: a game, the boards of a game, or the two replies of a pair. `rl.batch_size` counts items."""
Numbers = dict[str, float]


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

    loss: Loss

    def choose(self, played: Round) -> tuple[list[Item], Numbers]:
        """Return what to learn from these games, and metrics; no items: the round teaches nothing."""


@dataclass(frozen=True)
class Record:
    """State of the finished rounds that later ones need."""

    rounds: int = 0
    best_compliance: float | None = None
    cumulative_wins: int = 0


class Rounds:
    """One training by rounds in one process.

    Args:
        name: Name of the algorithm, of its stage, and of its model's directory.
        outside_rate: Rate of secrets that are listed words outside the answers.
        seed: Seed of secrets, initial states and sampling.
        progress: Called with games played, games in all, and a note.
        on_saved: Called with the directory of the whole model, before checkpoints are removed.
        open_policy: Opens the sampler that plays a round. None: the learner's own.
    """

    def __init__(
        self,
        name: str,
        learner: Learner,
        setup: GameSetup,
        settings: RoundTraining,
        run: Run,
        *,
        outside_rate: float = 0.0,
        seed: int = 0,
        report_to: Sequence[str] = (),
        progress: ProgressCallback | None = None,
        on_saved: Callable[[Path], None] | None = None,
        open_policy: OpenPolicy | None = None,
    ) -> None:
        check_alone(name)
        self.name, self.learner, self.setup, self.settings, self.run = name, learner, setup, settings, run
        self.codec, self.seed = learner.codec, seed
        self._report_to, self._progress, self._on_saved = report_to, progress, on_saved
        self._open_policy = open_policy or learner.policy
        self._schedule = settings.reward.schedule()
        self._starts = GroupStarts(setup, settings.starts, seed, outside_rate=outside_rate)
        self.directory = run.directory / name
        self.checkpoints = self.directory / "checkpoints"
        self.record = Record()

    def train(self, method: Method) -> Path:
        """Go through all rounds that are left, save the model to `<run>/<name>`, and return that directory.

        Ctrl-C stops at once while games are played, else once what there is has been saved.
        """
        with (
            held_interrupt() as stop,
            opened_trackers(self.run, self._report_to, self.name, self.directory) as trackers,
        ):
            if method.loss.needs_reference:
                self.learner.remember_start()  # before the weights of a round are loaded
            self._resume()
            while self.record.rounds < self.settings.rounds and not stop.wanted:
                number = self.record.rounds + 1
                stored = self._stored(number)
                if not stored.is_file():
                    head, items = self._play(method, number, stop)
                    write_jsonl(stored, [head, *({"examples": [*map(_row_of, item)]} for item in items)])
                # Read it back even if it was just written, so that a resumed training learns from the same values.
                head, *rows = read_jsonl(stored)
                items = [[Example(**example) for example in row["examples"]] for row in rows]
                started = time.perf_counter()
                found = self._fit(method.loss, items, number, stop)
                if found is None:
                    break
                numbers = {**head["numbers"], **found, "seconds/training": time.perf_counter() - started}
                self._finish(Record(**head["record"]), numbers)
                for tracker in trackers:
                    tracker.log(number, numbers)
        self.learner.save_model(self.directory)
        if self._on_saved is not None:
            self._on_saved(self.directory)
        drop_checkpoints(self.checkpoints)
        return self.directory

    def _play(self, method: Method, number: int, stop: StopRequest) -> tuple[dict[str, Any], list[Item]]:
        # Play the games of a round and choose what to learn from them.
        started = time.perf_counter()
        seed = random.Random(f"{self.seed}:{number}").getrandbits(31)
        with self._open_policy(self.settings.sampling, seed) as (sampler, max_prompt_tokens):
            trajectories = self._trajectories(sampler, max_prompt_tokens, number, stop)
            rubric = self._schedule.rubric(self.record.best_compliance)
            groups = [
                [Scored(t, rubric.score(t.transcript, self.setup.solver), ()) for t in group if t.error is None]
                for group in groups_of(trajectories, self.settings.group_size)
            ]
            games = [game for group in groups for game in group]
            failed = check_some_played(games, [t.error for t in trajectories if t.error is not None], f"round {number}")
            self._log_samples(groups, number)
            # DPO samples further replies of the same policy, so choose before its sampler closes.
            items, chosen = method.choose(Round(number, groups, sampler, seed))
        found = measured(games, self.setup.words)
        compliance = max(found.means["format_compliance"], self.record.best_compliance or 0.0)
        record = Record(number, compliance, self.record.cumulative_wins + found.num_wins)
        numbers = {
            **found.means,
            "reward": statistics.fmean(game.reward.total for game in games),
            "cumulative_wins": float(record.cumulative_wins),
            **chosen,
            **failed,
            "seconds/play": time.perf_counter() - started,
        }
        return {"record": asdict(record), "numbers": numbers}, items

    def _fit(self, loss: Loss, items: list[Item], number: int, stop: StopRequest) -> Numbers | None:
        # Train on the items of a round. Return the means of its steps' numbers, or None if that was stopped.
        if stop.wanted:
            return None
        logged: dict[str, list[float]] = {}

        def write(_step: int, row: dict[str, Any]) -> None:
            for name, value in row.items():
                if name not in ("epoch", "num_tokens", "not_finite"):
                    logged.setdefault(name, []).append(value)

        def progress(step: int, steps: int, note: str) -> None:
            self._report(self._games_until(number), f"round {number}: step {step} of {steps}, {note}")

        if items:
            directory = self.checkpoints / f"round-{number}-training"
            loop = TrainingLoop(self.learner, self.run, self.name, directory, stop=stop, progress=progress, write=write)
            wanted = self.settings
            settings = SFTTraining(
                epochs=wanted.epochs,
                batch_size=wanted.batch_size,
                micro_batch_size=wanted.micro_batch_size,
                optimizer=wanted.optimizer,
                logging_steps=1,
            )
            # The optimizer's state is new in each round; the schedule of its rate spans them all.
            part = (self.record.rounds, wanted.rounds)
            if not fit(loop, items, settings, loss=loss, seed=seed_after(self.seed, number), part=part):
                return None
        return {
            name: sum(values) if name == "skipped_steps" else statistics.fmean(values)
            for name, values in logged.items()
        }

    def _log_samples(self, groups: Sequence[list[Scored]], number: int) -> None:
        # Some games of a round, evenly spaced.
        rows = [(place, game) for place, group in enumerate(groups) for game in range(len(group))]
        every = max(1, len(rows) // max(1, self.settings.sample_games))
        for place, game in rows[::every][: self.settings.sample_games]:
            row = group_rows(place, groups[place])[game]
            self.run.append("games.jsonl", {"stage": self.name, "step": number - 1, **row})

    def _trajectories(
        self, sampler: Sampler, max_prompt_tokens: int | None, number: int, stop: StopRequest
    ) -> list[Trajectory]:
        rng = random.Random(f"{self.seed}:{number}:given")
        drawn = self._starts.draw(self.settings.groups_per_round, number, rng=rng)
        record_secrets(self.run, self.name, number - 1, 0, [start.secret for start in drawn])
        starts = [start for start in drawn for _ in range(self.settings.group_size)]
        done = (number - 1) * len(starts)

        def count(*_: object) -> None:
            nonlocal done
            done += 1
            self._report(done, f"round {number}: playing")
            if stop.wanted:
                raise KeyboardInterrupt

        words, prompter = self.setup.words, self.setup.prompter
        return play(starts, words, prompter, sampler, max_prompt_tokens=max_prompt_tokens, on_finished=count)

    def _finish(self, record: Record, numbers: Numbers) -> None:
        # Save the model and the record of a round, log it, and remove earlier files of the checkpoint directory.
        directory = self.checkpoints / f"round-{record.rounds}"
        self.learner.save_model(directory)
        self.run.describe_model(directory)
        self.run.append("metrics.jsonl", {"stage": self.name, "step": record.rounds, **numbers})
        write_json(directory / STATE_FILE, asdict(record))  # only now is the round finished, see `_resume`
        self.record = record
        for path in self.checkpoints.iterdir():
            if path != directory:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        won = f"win_rate {numbers['win_rate']:.3f}" if "win_rate" in numbers else "no secret was an answer"
        self._report(self._games_until(record.rounds), won)

    def _resume(self) -> None:
        # Take the weights and the record of the last finished round. What an unfinished round has logged and will log
        # again is removed: all of it, or its training's part.
        if number := rounds_done(self.checkpoints):
            last = self.checkpoints / f"round-{number}"
            self.learner.load_model(last)
            self.record = Record(**read_object(last / STATE_FILE))
        done, name = self.record.rounds, self.name
        played = done + self._stored(done + 1).is_file()
        games = {name: {self.name: played} for name in ("games.jsonl", "secrets.jsonl", LABELS_FILE)}
        rewind(self.run.directory, {"metrics.jsonl": {name: done + 1}, **games})

    def _stored(self, number: int) -> Path:
        # A round keeps its items here, once its games are played.
        return self.checkpoints / f"round-{number}.jsonl"

    def _report(self, games: int, note: str) -> None:
        if self._progress is not None:
            self._progress(games, self._games_until(self.settings.rounds), note)

    def _games_until(self, number: int) -> int:
        return number * self.settings.groups_per_round * self.settings.group_size


def rounds_done(checkpoints: Path) -> int:
    """The number of finished rounds that a training resumes after; 0 if it begins."""
    finished = checkpoints.glob(f"round-*/{STATE_FILE}")
    return max((int(path.parent.name.removeprefix("round-")) for path in finished), default=0)


def _row_of(example: Example) -> dict[str, Any]:
    # `asdict` is slow here, as it copies every token.
    row: dict[str, Any] = {"token_ids": list(example.token_ids), "loss_mask": list(example.loss_mask)}
    if example.soft_targets:
        row["soft_targets"] = [[list(pair) for pair in target] for target in example.soft_targets]
    return row


_NO_LIMIT = 1 << 30


class Replay:
    """Teacher games of traces.jsonl beside those of a round, different ones in each round while there are enough.

    Args:
        fraction: Fraction of teacher games among all games of a round, 0 to below 1.
        most: The most own games of any round.
    """

    def __init__(self, rounds: Rounds, fraction: float, most: int) -> None:
        self._rounds = rounds
        self._per_game = fraction / (1 - fraction)  # teacher games per game of the round
        self._most = math.ceil(most * self._per_game)
        count, path = self._most * rounds.settings.rounds, rounds.run.directory / "traces.jsonl"
        self._games = draw_games(path, count, rounds.seed) if count else []

    def add(self, items: list[Item], games: int, number: int) -> tuple[list[Item], Numbers]:
        """Add teacher games to the items made of a number of games in a round; `number` counts from 1."""
        count, first = round(games * self._per_game), (number - 1) * self._most
        chosen = [self._games[(first + i) % len(self._games)] for i in range(count if self._games else 0)]
        prompter, limit = self._rounds.setup.prompter, context_length(self._rounds.learner.model) or _NO_LIMIT
        replayed = encode_traces(chosen, prompter, self._rounds.codec, limit).examples
        numbers = {"own_examples": float(len(items)), "all_examples": float(len(items) + len(replayed))}
        return [*items, *([example] for example in replayed)], numbers


def draw_games(path: Path, count: int, seed: int) -> list[GameRecord]:
    """Draw up to `count` traces from a file, each as likely as any other, in one reading."""
    rng = random.Random(seed)
    drawn: list[GameRecord] = []
    for place, trace in enumerate(read_traces(path)):  # reservoir sampling
        if place < count:
            drawn.append(trace)
        elif (other := rng.randrange(place + 1)) < count:
            drawn[other] = trace
    rng.shuffle(drawn)
    return drawn


def names_strict(turns: Iterable[PlayedTurn], split: Split) -> bool:
    """True if a turn names a strict word, as its guess or anywhere in its reply."""
    return any(split.strict_words_in(played.turn.guess, played.reply) for played in turns)


def label(secret: str, turns: Iterable[tuple[Turn, bool]], **more: Any) -> dict[str, Any]:
    """Make a row of labels.jsonl from turns, and whether each is trained on."""
    rows = [TurnRecord(turn.guess, turn.marks, taught, outcome=turn.outcome).to_row() for turn, taught in turns]
    return {"secret": secret, **more, "turns": rows}


def board_label(board: Sequence[Turn], guess: str, secret: str, others: Sequence[str] = ()) -> dict[str, Any]:
    """Make the row of a guess that is trained on at a board which is not; `others` share its distribution."""
    row = label(secret, ((turn, False) for turn in board))
    row["turns"].append({"guess": guess, "marks": None, **({"others": [*others]} if others else {})})
    return row


def record_labels(run: Run, stage: str, number: int, labels: Iterable[dict[str, Any]]) -> None:
    """Append a round's labels to labels.jsonl; a round that is chosen again after a stop is written again."""
    (run.directory / LABELS_FILE).touch()  # a round without labels is no missing record
    for row in labels:
        run.append(LABELS_FILE, {"stage": stage, "step": number - 1, **row})
