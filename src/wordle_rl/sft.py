"""Supervised fine-tuning on teacher games, with TRL's `SFTTrainer`.

The games arrive as token ids made by `dataset.encode_traces`, so masks are exact by construction and no chat
template is rendered while training. Games of similar length share a batch: padding all but vanishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from transformers import PreTrainedModel
from trl import SFTConfig, SFTTrainer

from wordle_rl.chat import ChatCodec
from wordle_rl.config import ConfigError, SFTSettings
from wordle_rl.dataset import Example
from wordle_rl.modeling import make_optimizer, save_model, wants_bf16
from wordle_rl.runs import Run
from wordle_rl.training import (
    Progress,
    RunCallback,
    drop_checkpoints,
    held_interrupt,
    last_checkpoint,
    make_scheduler,
)


def train_sft(
    model: PreTrainedModel,
    codec: ChatCodec,
    examples: Sequence[Example],
    settings: SFTSettings,
    run: Run,
    *,
    seed: int = 0,
    report_to: Sequence[str] = (),
    progress: Progress | None = None,
) -> Path:
    """Train on the examples and save the model to `<run>/sft`; an interrupted training goes on where it stopped.

    Args:
        model: The model, changed in place.
        codec: Its tokenizer and template.
        examples: Token sequences with loss masks.
        settings: Batch, optimizer, precision.
        run: Where metrics, checkpoints and the model go.
        seed: Seed of the batch order.
        report_to: Experiment trackers, by TRL's names.
        progress: Told of every step.

    Returns:
        The model directory.

    Raises:
        ConfigError: If there are no examples.
        KeyboardInterrupt: After Ctrl-C, once a checkpoint is saved.
    """
    if not examples:
        raise ConfigError("no games to train on; make more traces or relax the limits")
    directory = run.directory / "sft"
    checkpoints = directory / "checkpoints"
    dataset = as_dataset(examples)
    with held_interrupt() as stop:
        trainer = SFTTrainer(
            model=model,
            args=_arguments(settings, checkpoints, seed, report_to),
            train_dataset=dataset,
            processing_class=codec.tokenizer,
            callbacks=[RunCallback(run, "sft", stop, progress, "loss")],
        )
        steps_per_epoch = -(-len(trainer.get_train_dataloader()) // settings.gradient_accumulation_steps)
        total_steps = max(1, int(np.ceil(steps_per_epoch * settings.epochs)))
        trainer.optimizer = make_optimizer(model, settings.optimizer)
        trainer.lr_scheduler = make_scheduler(trainer.optimizer, settings.optimizer, total_steps)
        trainer.train(resume_from_checkpoint=last_checkpoint(checkpoints))
    if trainer.is_world_process_zero():
        save_model(model, codec, directory)
        drop_checkpoints(checkpoints)
    return directory


def as_dataset(examples: Sequence[Example]) -> Dataset:
    """Examples as a table of `input_ids`, `labels` (-100 where nothing is learnt) and `length`."""
    lengths = np.array([len(example.token_ids) for example in examples], dtype=np.int32)
    flat_ids = np.concatenate([np.asarray(example.token_ids, dtype=np.int32) for example in examples])
    flat_mask = np.concatenate([np.asarray(example.loss_mask, dtype=np.bool_) for example in examples])
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), type=pa.int32())
    columns = {
        "input_ids": pa.ListArray.from_arrays(offsets, pa.array(flat_ids)),
        "labels": pa.ListArray.from_arrays(offsets, pa.array(np.where(flat_mask, flat_ids, np.int32(-100)))),
        "length": pa.array(lengths),
    }
    return Dataset(pa.table(columns))


def _arguments(settings: SFTSettings, checkpoints: Path, seed: int, report_to: Sequence[str]) -> SFTConfig:
    extra: dict[str, Any] = {"save_strategy": "steps", "save_steps": settings.save_steps} if settings.save_steps else {}
    return SFTConfig(
        output_dir=str(checkpoints),
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        num_train_epochs=settings.epochs,
        max_length=None,
        max_grad_norm=settings.optimizer.max_grad_norm,
        learning_rate=settings.optimizer.learning_rate,
        bf16=wants_bf16(settings.precision),
        use_cpu=not torch.cuda.is_available(),
        gradient_checkpointing=settings.gradient_checkpointing,
        logging_steps=settings.logging_steps,
        train_sampling_strategy="group_by_length",
        dataset_kwargs={"skip_prepare_dataset": True},
        report_to=list(report_to),
        seed=seed,
        save_total_limit=1,
        disable_tqdm=True,
        log_level="error",
        **({"save_strategy": "no"} | extra),
    )
