"""Supervised fine-tuning: make the replies in a teacher's games likelier.

    for step in steps:
        batch = the next games                    # each once per epoch, similar lengths together
        learner.update(batch, CrossEntropy())     # mean over the tokens of the replies only

Games arrive as token ids with exact masks (`data.dataset.encode_traces`); no chat template is rendered here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from transformers.trainer_pt_utils import get_length_grouped_indices

from wordle_rl.config import ConfigError, SFTTraining
from wordle_rl.data.dataset import Example
from wordle_rl.runs import Run
from wordle_rl.runs.distributed import is_first, num_processes, process_index
from wordle_rl.runs.jsonl_store import rewind
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.runs.trackers import opened_trackers
from wordle_rl.train.checkpoints import last_step
from wordle_rl.train.learner import Learner
from wordle_rl.train.loss import CrossEntropy, Loss
from wordle_rl.train.micro_batches import cut_by_rows
from wordle_rl.train.training_loop import TrainingLoop, held_interrupt

T = TypeVar("T")


def train_sft(
    learner: Learner,
    examples: Sequence[Example],
    settings: SFTTraining,
    run: Run,
    *,
    validation: Sequence[Example] = (),
    seed: int = 0,
    report_to: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    on_saved: Callable[[Path], None] | None = None,
) -> Path:
    """Train on examples, save the model to `<run>/sft`, and return that directory.

    An interrupted training resumes where it stopped.

    Args:
        validation: Held-out games whose loss is logged. They do not influence the final weights.
        seed: Seed of the batch order.
        on_saved: Called in the first process with the directory of the saved model, before checkpoints are removed.
    """
    if not examples:
        raise ConfigError("there are no games to train on; make more traces or relax the limits")
    directory = run.directory / "sft"
    if is_first():
        rewind(run.directory, {"metrics.jsonl": {"sft": last_step(directory / "checkpoints") + 1}})
    with held_interrupt() as stop, opened_trackers(run, report_to, "sft", directory) as trackers:
        loop = TrainingLoop(
            learner,
            run,
            "sft",
            directory,
            stop=stop,
            progress=progress,
            logging_steps=settings.logging_steps,
            trackers=trackers,
        )
        fit(loop, [[example] for example in examples], settings, validation=validation, seed=seed)
    loop.finish(on_saved)
    return directory


def fit(
    loop: TrainingLoop,
    items: Sequence[Sequence[Example]],
    settings: SFTTraining,
    *,
    loss: Loss | None = None,
    validation: Sequence[Example] = (),
    seed: int = 0,
    part: tuple[int, int] = (0, 1),
) -> bool:
    """Train on items from the last checkpoint on; return False if the user stopped it before the end.

    Args:
        items: Examples that must stay together: one game, the boards of a game, a pair. `batch_size` counts items.
        loss: None: cross-entropy.
        validation: Held-out games whose loss is logged.
        part: Which part of the learning rate schedule this training is.
    """
    lengths = [max(len(example.token_ids) for example in item) for item in items]
    learner, plan, loss = loop.learner, Plan(lengths, *settings.batches, settings.epochs, seed), loss or CrossEntropy()
    learner.start(settings.optimizer, plan.total_steps, part)
    done, _ = loop.restore()

    def keep_epoch(step: int) -> None:
        epoch, rest = divmod(step, plan.steps_per_epoch)
        if settings.save_each_epoch and epoch and not rest:
            kept = loop.checkpoints.parent / "epochs" / f"epoch-{epoch}"
            learner.save_model(kept)
            if is_first():
                loop.run.describe_model(kept)

    keep_epoch(done)  # a kill may have come after the checkpoint of an epoch's last step, before its model
    held_out = _batches(sorted(validation, key=lambda example: len(example.token_ids)), settings.batches[0])
    validate = partial(learner.evaluate, held_out[process_index() :: num_processes()], CrossEntropy())
    for step, batches in plan.steps(done):
        # An item can have several rows, such as a game whose boards are labelled.
        rows = [cut_by_rows([items[item] for item in batch], settings.micro_batch_size) for batch in batches]
        update = learner.update([part for parts in rows for part in parts], loss, step)
        save = settings.save_steps > 0 and step % settings.save_steps == 0
        epoch = {"epoch": step / plan.steps_per_epoch}
        validates = held_out and plan.validates(step, settings.validations_per_epoch)
        stopping = loop.after(
            step, plan.total_steps, update, epoch, save=save, validate=validate if validates else None
        )
        keep_epoch(step)
        if stopping:
            return step == plan.total_steps
    return True


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
