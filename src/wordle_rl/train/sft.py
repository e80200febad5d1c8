"""Supervised fine-tuning: make the replies in a teacher's games likelier.

    for step in steps:
        batch = the next games                    # each once per epoch, similar lengths together
        learner.update(batch, CrossEntropy())     # mean over the tokens of the replies only

Games arrive as token ids with exact masks (`train.example.encode_traces`); no chat template is rendered here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from transformers.trainer_pt_utils import get_length_grouped_indices

from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import SFTSettings
from wordle_rl.config.training import FittingSettings
from wordle_rl.runs.distributed import is_first, num_processes, process_index
from wordle_rl.runs.jsonl_store import rewind
from wordle_rl.runs.trackers import opened_trackers
from wordle_rl.train.checkpoints import last_place
from wordle_rl.train.example import Example
from wordle_rl.train.loss import CrossEntropy
from wordle_rl.train.training_loop import Training, TrainingLoop, held_interrupt

T = TypeVar("T")


def train_sft(
    training: Training,
    examples: Sequence[Example],
    settings: SFTSettings,
    *,
    validation: Sequence[Example] = (),
) -> Path:
    """Train on examples, save the model to the stage's directory, and return that.

    An interrupted training resumes where it stopped.

    Args:
        validation: Held-out games whose loss is logged. They do not influence the final weights.
    """
    if not examples:
        raise ConfigError("there are no games to train on; make more traces or relax the limits")
    learner, run = training.learner, training.run
    fitting = FittingSettings(micro_batch_size=learner.micro_batch_size)
    lengths = [len(example.token_ids) for example in examples]
    plan = Plan(lengths, *fitting.batches(settings.batch_size), settings.epochs, training.seed)
    if is_first():
        rewind(run.directory, {"metrics.jsonl": {training.stage: last_place(training.checkpoints).done + 1}})

    def keep_epoch(step: int) -> None:
        epoch, rest = divmod(step, plan.steps_per_epoch)
        if settings.save_each_epoch and epoch and not rest:
            kept = training.directory / "epochs" / f"epoch-{epoch}"
            learner.save_model(kept)
            if is_first():
                run.describe_model(kept)

    with held_interrupt() as stop, opened_trackers(run, training.report_to, training.stage, training.directory) as logs:
        loop = TrainingLoop(training, stop, plan.total_steps, logging_steps=settings.logging_steps, trackers=logs)
        learner.start(settings.optimizer, plan.total_steps)
        checkpoint, place, _ = loop.restore()
        if checkpoint is not None:
            learner.load_checkpoint(checkpoint)
        keep_epoch(place.done)  # a kill may have come after the checkpoint of an epoch's last step, before its model
        held_out = _batches(sorted(validation, key=lambda example: len(example.token_ids)), plan.batch_size)
        validate = partial(learner.evaluate, held_out[process_index() :: num_processes()], CrossEntropy())
        for step, batches in plan.steps(place.done):
            rows = [[examples[place] for place in batch] for batch in batches]
            loop.add(learner.update(rows, CrossEntropy(), step))
            epoch = {"epoch": step / plan.steps_per_epoch}
            loop.report(step, plan.total_steps, epoch)
            validates = held_out and plan.validates(step, settings.validations_per_epoch)
            stopping = loop.after(
                step,
                epoch,
                save=settings.save_steps > 0 and step % settings.save_steps == 0,
                validate=validate if validates else None,
            )
            keep_epoch(step)
            if stopping:
                break
    return loop.finish()


@dataclass(frozen=True)
class Plan:
    """Order of the games in a training.

    Attributes:
        lengths: Length of each game (or other item) in tokens.
        batch_size: Games per batch and process.
    """

    lengths: Sequence[int]
    batch_size: int
    batches_per_step: int
    epochs: float
    seed: int

    @property
    def games_per_step(self) -> int:
        """Games per optimizer step, over all processes."""
        return self.batch_size * self.batches_per_step * num_processes()

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps per epoch."""
        return math.ceil(len(self.lengths) / self.games_per_step)

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the training."""
        return max(1, math.ceil(self.steps_per_epoch * self.epochs))

    def steps(self, done: int) -> Iterator[tuple[int, list[list[int]]]]:
        """Yield the steps after `done`: the number of the step, from 1, and the batches of this process."""
        whole = self.games_per_step
        for epoch in range(done // self.steps_per_epoch, math.ceil(self.total_steps / self.steps_per_epoch)):
            order = self.order(epoch)
            for place in range(self.steps_per_epoch):
                step = epoch * self.steps_per_epoch + place + 1
                if done < step <= self.total_steps:
                    # Processes take turns, so a step has the same games for any number of processes.
                    batches = _batches(order[place * whole : (place + 1) * whole], self.batch_size)
                    yield step, batches[process_index() :: num_processes()]

    def order(self, epoch: int) -> list[int]:
        """Order all games with similar lengths together; depends on seed and epoch alone."""
        generator = torch.Generator().manual_seed((self.seed << 16) + epoch)
        order: list[int] = get_length_grouped_indices(list(self.lengths), self.games_per_step, generator=generator)
        return order

    def validates(self, step: int, per_epoch: int) -> bool:
        """True if a validation is due after a step: evenly spaced over an epoch, and after the last step."""
        if not per_epoch:
            return False
        done, before = (number * per_epoch // self.steps_per_epoch for number in (step, step - 1))
        return done > before or step == self.total_steps


def _batches(items: Sequence[T], size: int) -> list[list[T]]:
    return [list(items[first : first + size]) for first in range(0, len(items), size)]
