"""Supervised fine-tuning on MLX, of all weights or of adapters, with the loss masks of `data.dataset`.

Every taught reply of a game is trained on. Games come in the order in which TRL's trainer takes them, so that both
trainings see the same batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, SFTSettings
from wordle_rl.data.dataset import Example
from wordle_rl.integrations.mlx.loop import TrainingLoop, added, checkpointed
from wordle_rl.integrations.mlx.model import MLXModel, Weights, mode_kept, save_model
from wordle_rl.integrations.mlx.optimizer import ScheduledOptimizer
from wordle_rl.integrations.mlx.scores import choose, score
from wordle_rl.runs import VALIDATED, Run
from wordle_rl.runs.logs import rewind
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.training.checkpoints import drop_checkpoints, last_step
from wordle_rl.training.interrupt import held_interrupt
from wordle_rl.training.sft import EpochOrder


@dataclass(frozen=True)
class StepFigures:
    """Figures of a step.

    Attributes:
        loss: Mean cross-entropy of its trained tokens.
        accuracy: Fraction of them that were the likeliest.
        num_tokens: All tokens of its games, prompts included.
    """

    loss: float
    accuracy: float
    num_tokens: int


def train_sft(
    model: MLXModel,
    codec: ChatCodec,
    examples: Sequence[Example],
    settings: SFTSettings,
    run: Run,
    *,
    validation: Sequence[Example] = (),
    seed: int = 0,
    report_to: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    on_saved: Callable[[Path], None] | None = None,
) -> Path:
    """Train on the examples and save the model to `<run>/sft`; an interrupted training resumes where it stopped.

    Args:
        model: The model, changed in place.
        codec: Its tokenizer and template.
        examples: Token sequences with loss masks.
        settings: Batch, optimizer, how often to save and validate.
        run: Where metrics, checkpoints and the model go.
        validation: Games that are not trained on, whose loss is logged now and then.
        seed: Seed of the batch order, and of dropout.
        report_to: None; trackers are refused beforehand.
        progress: Called after every step.
        on_saved: Called with the directory of the whole model, before checkpoints are removed.

    Returns:
        The model directory.

    Raises:
        ConfigError: If there are no examples.
        RunError: If the loss is not finite for too many steps in a row.
        KeyboardInterrupt: After Ctrl-C, once a checkpoint is saved.
    """
    del report_to
    if not examples:
        raise ConfigError("no games to train on; make more traces or relax the limits")
    directory = run.directory / "sft"
    checkpoints = directory / "checkpoints"
    plan = Plan.of([len(example.token_ids) for example in examples], settings, seed)
    optimizer = ScheduledOptimizer(model, settings.optimizer, plan.total_steps)
    rewind(run.directory, {"metrics.jsonl": {"sft": last_step(checkpoints) + 1}})
    with held_interrupt() as stop:
        loop = TrainingLoop(
            model,
            optimizer,
            run,
            "sft",
            checkpoints,
            max_grad_norm=settings.optimizer.max_grad_norm,
            stop=stop,
            progress=progress,
            headline="loss",
        )
        _train(loop, plan, codec, examples, settings, sorted(validation, key=lambda e: len(e.token_ids)), directory)
        if stop.wanted:
            return directory  # the interrupt is raised on exit
    save_model(model, codec, directory)
    if on_saved is not None:
        on_saved(directory)
    drop_checkpoints(checkpoints)
    return directory


@dataclass(frozen=True)
class Plan:
    """Order of the games of a training.

    Attributes:
        lengths: Tokens of each game.
        batch_size: Games per batch.
        batches_per_step: Batches per optimizer step.
        total_steps: Steps of the whole training.
        seed: Of the order.
    """

    lengths: Sequence[int]
    batch_size: int
    batches_per_step: int
    total_steps: int
    seed: int

    @classmethod
    def of(cls, lengths: Sequence[int], settings: SFTSettings, seed: int) -> Plan:
        """The plan of these settings."""
        accumulated = settings.gradient_accumulation_steps
        per_epoch = math.ceil(math.ceil(len(lengths) / settings.batch_size) / accumulated)
        total = max(1, math.ceil(per_epoch * settings.epochs))
        return cls(lengths, settings.batch_size, accumulated, total, seed)

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of a pass over all games."""
        return math.ceil(math.ceil(len(self.lengths) / self.batch_size) / self.batches_per_step)

    def steps(self, done: int) -> Iterator[tuple[int, list[list[int]]]]:
        """The steps after `done`, each with its number, from 1, and the games of its batches."""
        for epoch in range(done // self.steps_per_epoch, math.ceil(self.total_steps / self.steps_per_epoch)):
            whole = self.batch_size * self.batches_per_step
            order = list(EpochOrder(whole, self.lengths, self.seed, partial(int, epoch)))
            for place in range(self.steps_per_epoch):
                number = epoch * self.steps_per_epoch + place + 1
                if done < number <= self.total_steps:
                    games = order[place * whole : (place + 1) * whole]
                    size = self.batch_size
                    yield number, [games[first : first + size] for first in range(0, len(games), size)]


def _train(
    loop: TrainingLoop,
    plan: Plan,
    codec: ChatCodec,
    examples: Sequence[Example],
    settings: SFTSettings,
    validation: Sequence[Example],
    directory: Path,
) -> None:
    done, state = loop.restore()
    num_tokens = int(state.get("num_tokens", 0))
    gradient = _gradient_of(loop.model)
    pending: list[StepFigures] = []
    for step, batches in plan.steps(done):
        mx.random.seed((plan.seed << 20) + step)  # dropout of a resumed training is that of an uninterrupted one
        with mode_kept(loop.model.network, training=True), checkpointed(loop.model, settings.gradient_checkpointing):
            figures, gradients = gradient([[examples[game] for game in batch] for batch in batches], codec.pad_id)
        norm = loop.step(step - 1, figures.loss, gradients)
        num_tokens += figures.num_tokens
        pending.append(figures)
        if step % settings.logging_steps == 0 or step == plan.total_steps or not loop.is_sound:
            rate, epoch = loop.optimizer.rate(step - 1), step / plan.steps_per_epoch
            loop.log(step, {**_means(pending), "grad_norm": norm, "learning_rate": rate, "epoch": epoch,
                            "num_tokens": float(num_tokens)})  # fmt: skip
            pending = []
        loop.check(step)
        if validation and _is_due(step, plan, settings.validations_per_epoch):
            loop.write(step, validation_figures(loop.model, validation, settings.batch_size, codec.pad_id))
        if settings.save_each_epoch and step % plan.steps_per_epoch == 0:
            save_model(loop.model, codec, directory / "epochs" / f"epoch-{step // plan.steps_per_epoch}")
        record = {"num_tokens": num_tokens}
        if settings.save_steps and step % settings.save_steps == 0 and loop.is_sound:
            loop.save(step, record)
        if loop.ended(step, plan.total_steps, record):
            return


def _gradient_of(model: MLXModel) -> Callable[[list[list[Example]], int], tuple[StepFigures, Weights]]:
    """A function from the batches of a step to its figures and gradients."""

    def loss(batch: Sequence[Example], pad_id: int, count: int) -> tuple[mx.array, mx.array]:
        chosen = choose([e.token_ids for e in batch], [e.loss_mask for e in batch], pad_id)
        scores = score(model, chosen)
        return -scores.logprobs.sum() / count, scores.right.sum()

    with_gradient = nn.value_and_grad(model.network, loss)

    def of_step(batches: list[list[Example]], pad_id: int) -> tuple[StepFigures, Weights]:
        count = max(1, sum(sum(example.loss_mask) for batch in batches for example in batch))
        total, summed, right = 0.0, None, 0.0
        for batch in batches:
            (value, hits), gradients = with_gradient(batch, pad_id, count)
            summed = added(summed, dict(tree_flatten(gradients)))
            total += float(value.item())
            right += float(hits.item())
        assert summed is not None
        num_tokens = sum(len(example.token_ids) for batch in batches for example in batch)
        return StepFigures(total, right / count, num_tokens), summed

    return of_step


def _means(figures: Sequence[StepFigures]) -> dict[str, float]:
    """Loss and accuracy over some steps."""
    return {
        "loss": sum(each.loss for each in figures) / len(figures),
        "mean_token_accuracy": sum(each.accuracy for each in figures) / len(figures),
    }


def _is_due(step: int, plan: Plan, per_epoch: int) -> bool:
    """True if a validation falls on a step: evenly spaced over an epoch, and after the last step."""
    if not per_epoch:
        return False
    done, before = (number * per_epoch // plan.steps_per_epoch for number in (step, step - 1))
    return done > before or step == plan.total_steps


def validation_figures(model: MLXModel, examples: Sequence[Example], batch_size: int, pad_id: int) -> dict[str, float]:
    """Loss and accuracy over all trained tokens of games that are not trained on."""
    loss, right, count = 0.0, 0.0, 0
    with mode_kept(model.network, training=False):
        for first in range(0, len(examples), batch_size):
            batch = examples[first : first + batch_size]
            chosen = choose([e.token_ids for e in batch], [e.loss_mask for e in batch], pad_id)
            scores = score(model, chosen)
            loss -= float(scores.logprobs.sum().item())
            right += float(scores.right.sum().item())
            count += chosen.count
    return {f"{VALIDATED}loss": loss / count, f"{VALIDATED}mean_token_accuracy": right / count}
