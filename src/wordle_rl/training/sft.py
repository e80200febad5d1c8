"""Supervised fine-tuning on teacher games, with TRL's `SFTTrainer`.

The games arrive as token ids made by `dataset.encode_traces`, so masks are exact by construction and no chat template
is rendered during training. Games of similar length share a batch, so there is hardly any padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_pt_utils import LengthGroupedSampler, get_length_grouped_indices
from trl import SFTConfig, SFTTrainer

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, SFTSettings
from wordle_rl.data.dataset import Example
from wordle_rl.models.loading import SMALL_VOCABULARY
from wordle_rl.runs import Run
from wordle_rl.runs.distributed import check_sharded, is_first, num_processes
from wordle_rl.runs.logs import rewind
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.runs.trackers import keep_tensorboard
from wordle_rl.training.branches import BranchCollator
from wordle_rl.training.checkpoints import drop_checkpoints, last_step, save_trained
from wordle_rl.training.guard import StepGuard
from wordle_rl.training.interrupt import held_interrupt
from wordle_rl.training.shared_forward import learnt_logits
from wordle_rl.training.trainer import (
    Part,
    RunCallback,
    WholeCheckpoints,
    is_sharded,
    known_warnings_silenced,
    train_epochs,
    trainer_arguments,
)
from wordle_rl.training.validation_loss import ValidationTimes, figures, random_stream_kept, sums_by_game

_FILLER = Example([0, 0], [0, 0])
"""A row without a loss."""


def train_sft(
    model: PreTrainedModel,
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
        settings: Batch, optimizer, precision.
        run: Where metrics, checkpoints and the model go.
        validation: Games that are not trained on, whose loss is logged now and then; none: no such loss. The weights
            that training ends with are the same with and without.
        seed: Seed of the batch order.
        report_to: Experiment trackers, by TRL's names.
        progress: Called after every step.
        on_saved: Called in the first process with the directory of the whole model, before checkpoints are removed.

    Returns:
        The model directory.

    Raises:
        ConfigError: If there are no examples, or the launch does not suit the settings.
        RunError: If the loss is not finite for too many steps in a row.
        KeyboardInterrupt: After Ctrl-C, once a checkpoint is saved.
    """
    if not examples:
        raise ConfigError("no games to train on; make more traces or relax the limits")
    directory = run.directory / "sft"
    checkpoints = directory / "checkpoints"
    if is_first():
        rewind(run.directory, {"metrics.jsonl": {"sft": last_step(checkpoints) + 1}})
    with held_interrupt() as stop, known_warnings_silenced():
        guard = StepGuard("sft")
        callback = RunCallback(run, "sft", stop, progress, ("loss",), guard)
        trainer = fit_games(
            model,
            codec,
            examples,
            settings,
            checkpoints,
            callback,
            validation=validation,
            seed=seed,
            report_to=report_to,
        )
    save_trained(trainer, codec, directory)
    if trainer.is_world_process_zero():
        if on_saved is not None:
            on_saved(directory)
        drop_checkpoints(checkpoints)
    return directory


def fit_games(
    model: PreTrainedModel,
    codec: ChatCodec,
    examples: Sequence[Example],
    settings: SFTSettings,
    checkpoints: Path,
    callback: RunCallback,
    *,
    validation: Sequence[Example] = (),
    seed: int = 0,
    report_to: Sequence[str] = (),
    part: Part = (0, 1),
) -> GameSFTTrainer:
    """Train on the examples from the last checkpoint on, as `train_sft` does, without saving the result.

    `part` is the part of the schedule that this training is. Where an example has branches, the model's attention must
    take them, see `training.branches.takes_branches`.
    """
    attention = model.config.get_text_config()._attn_implementation
    collator = BranchCollator(codec.pad_id, attention) if any(e.position_ids for e in examples) else None
    trainer = GameSFTTrainer(
        model=model,
        args=_arguments(settings, checkpoints, seed, report_to, callback.run.tracker_arguments("sft")),
        train_dataset=as_dataset([*examples, *_fillers(len(examples), settings.batch_size, num_processes())]),
        eval_dataset=as_dataset(sorted(validation, key=lambda e: len(e.token_ids))) if validation else None,
        processing_class=codec.tokenizer,
        data_collator=collator,
        compute_metrics=figures,
        callbacks=[callback.guard, callback],
        guard=callback.guard,
    )
    trainer.remove_callback(PrinterCallback)
    keep_tensorboard(trainer.callback_handler.callbacks, checkpoints.parent / "tensorboard")
    if is_sharded(trainer):
        check_sharded(settings.optimizer, "sft")
    if settings.save_each_epoch:
        epochs = checkpoints.parent / "epochs"
        saver = _EpochSaver(lambda name: save_trained(trainer, codec, epochs / name))
        trainer.add_callback(saver)
    if validation and settings.validations_per_epoch:
        trainer.add_callback(ValidationTimes(settings.validations_per_epoch))
    trainer.lengths = [len(example.token_ids) for example in examples]
    train_epochs(trainer, model, settings.optimizer, checkpoints, part)
    if settings.save_each_epoch:
        saver.save_at(settings.epochs)
    return trainer


class _EpochSaver(TrainerCallback):
    """Keeps the model of every finished epoch.

    A process may be stopped between the checkpoint of an epoch's last step and this, so a training that resumes from
    such a checkpoint saves first.
    """

    def __init__(self, save: Callable[[str], None]) -> None:
        self._save = save
        self._last = 0.0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Save the model of a checkpoint at an epoch's end."""
        self.save_at(state.epoch or 0.0)

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Save, unless the epoch was interrupted."""
        self.save_at(state.epoch or 0.0)

    def save_at(self, epoch: float) -> None:
        """Save the model after this many epochs, if that is a whole number of them and it is not saved yet."""
        if epoch > self._last and float(epoch).is_integer():
            self._save(f"epoch-{int(epoch)}")
            self._last = epoch


class GameSFTTrainer(WholeCheckpoints, SFTTrainer):
    """`SFTTrainer` with the loss computed directly where the vocabulary is small.

    TRL's tiled head saves the memory of logits over a large vocabulary. Over a few hundred tokens there is nothing to
    save, and computing only the positions with a loss is a little faster on a CPU (docs/results.md). Games are padded
    on the right, which a causal model does not attend to, so no attention mask is needed either but for branches. Where
    the model takes it, what games of a batch have in common is computed once (`training.shared_forward`).
    """

    lengths: Sequence[int]
    """Tokens per game, in the order of the training set, which may end on rows that only fill up a batch."""

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> EpochOrder:
        del train_dataset  # there is only one
        # All processes take batches from one order in turn, so a step has the same games for any number of processes.
        batch_size = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        num_fillers = len(self.train_dataset) - len(self.lengths)  # type: ignore[arg-type]  # a table
        return EpochOrder(batch_size, self.lengths, self.args.seed, lambda: int(self.state.epoch or 0), num_fillers)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """The summed cross-entropy of the trained tokens over `num_items_in_batch`."""
        if return_outputs or not self._is_small(model):
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)  # type: ignore[no-untyped-call]
        logits, targets, _ = learnt_logits(model, inputs, bf16=self.args.bf16)
        count = len(targets) if num_items_in_batch is None else num_items_in_batch
        loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum") / max(int(count), 1)
        if len(targets):  # else all rows are fillers
            accuracy = (logits.detach().argmax(-1) == targets).float().mean()
            self._metrics["train"]["mean_token_accuracy"].append(accuracy.item())
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes
        return loss

    def _is_small(self, model: torch.nn.Module) -> bool:
        vocabulary: int = self.accelerator.unwrap_model(model).config.get_text_config().vocab_size
        return vocabulary <= SMALL_VOCABULARY

    def prediction_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[None, torch.Tensor, torch.Tensor]:
        """Summands of `figures`: for each game `sums_by_game`, shape (B, 2), and its number of tokens, shape (B,)."""
        del prediction_loss_only, ignore_keys
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            if self._is_small(model):
                logits, targets, learnt = learnt_logits(model, inputs, bf16=self.args.bf16)
                losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
                right = logits.argmax(-1) == targets
            else:
                found = model(**inputs, use_cache=False, fused_lm_head=True)
                learnt = found.label_mask
                losses, right = -found.log_probs[learnt].float(), found.is_top1[learnt]
        return None, sums_by_game(losses, right, learnt), learnt.sum(-1)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """As transformers does; the training that continues is the same as without."""
        with random_stream_kept(self.args.device):
            found: dict[str, float] = super().evaluate(*args, **kwargs)
        self.model.train()  # type: ignore[union-attr]  # there is one
        return found


class EpochOrder(LengthGroupedSampler):
    """Games of similar length side by side, in an order that depends on the seed and the epoch alone.

    The sampler of transformers draws from the global random stream, so a training resumed in its second epoch would see
    some games of that epoch twice and others never. The last rows of the training set may be fillers, which come last
    in every epoch.
    """

    def __init__(
        self, batch_size: int, lengths: Sequence[int], seed: int, epoch: Callable[[], int], num_fillers: int = 0
    ) -> None:
        super().__init__(batch_size, lengths=list(lengths))
        self._seed, self._epoch, self._num_fillers = seed, epoch, num_fillers

    def __len__(self) -> int:
        return len(self.lengths) + self._num_fillers

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed((self._seed << 16) + self._epoch())
        games = get_length_grouped_indices(self.lengths, self.batch_size, generator=generator)
        return iter([*games, *range(len(games), len(self))])


def _fillers(num_games: int, batch_size: int, processes: int) -> list[Example]:
    """Rows to complete the last batches of several processes; accelerate would repeat games of the epoch instead."""
    return [] if processes == 1 else [_FILLER] * (-num_games % (batch_size * processes))


def as_dataset(examples: Sequence[Example]) -> Dataset:
    """Examples as a table of `input_ids` and `labels` (-100 where the loss mask is 0); with branches `position_ids`."""
    lengths = np.array([len(example.token_ids) for example in examples], dtype=np.int32)
    flat_ids = np.concatenate([np.asarray(example.token_ids, dtype=np.int32) for example in examples])
    flat_mask = np.concatenate([np.asarray(example.loss_mask, dtype=np.bool_) for example in examples])
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), type=pa.int32())
    columns = {
        "input_ids": pa.ListArray.from_arrays(offsets, pa.array(flat_ids)),
        "labels": pa.ListArray.from_arrays(offsets, pa.array(np.where(flat_mask, flat_ids, np.int32(-100)))),
    }
    if any(example.position_ids for example in examples):
        columns["position_ids"] = pa.array([example.position_ids for example in examples], pa.list_(pa.int32()))
    return Dataset(pa.table(columns))


def _arguments(
    settings: SFTSettings, checkpoints: Path, seed: int, report_to: Sequence[str], names: Mapping[str, Any]
) -> SFTConfig:
    extra: dict[str, Any] = {"save_strategy": "steps", "save_steps": settings.save_steps} if settings.save_steps else {}
    common = trainer_arguments(
        settings.optimizer, settings.precision, settings.gradient_checkpointing, checkpoints, seed
    )
    return SFTConfig(
        **common,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        num_train_epochs=settings.epochs,
        max_length=None,
        logging_steps=settings.logging_steps,
        dataset_kwargs={"skip_prepare_dataset": True},
        report_to=list(report_to),
        ddp_find_unused_parameters=False,
        remove_unused_columns=False,  # they are the columns of `as_dataset`
        **names,
        **({"save_strategy": "no"} | extra),
    )
