"""The loss on teacher games that are not trained on: when it is taken and of what, without effect on the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import EvalPrediction, TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class ValidationTimes(TrainerCallback):
    """Requests a validation this many times per epoch, evenly spaced, the last at its end; and after the last step."""

    def __init__(self, per_epoch: int) -> None:
        self._per_epoch = per_epoch

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Request one if this step completes a part of an epoch."""
        steps = -(-len(kwargs["train_dataloader"]) // args.gradient_accumulation_steps)
        done, before = (step * self._per_epoch // steps for step in (state.global_step, state.global_step - 1))
        control.should_evaluate = done > before or state.global_step >= state.max_steps


def sums_by_game(losses: torch.Tensor, right: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """Per game the summed loss and the number of right tokens.

    Args:
        losses: Cross-entropy of each token that is trained on, shape (N,), float32.
        right: Whether the model would have chosen it, shape (N,).
        trained: Which tokens those are, shape (B, T), N of them true.

    Returns:
        Shape (B, 2), float32.
    """
    games = trained.nonzero()[:, 0]  # (N,)
    sums = torch.zeros(len(trained), 2, device=losses.device)
    return sums.index_add_(0, games, torch.stack([losses, right.float()], -1))


def figures(scored: EvalPrediction) -> dict[str, float]:
    """Mean loss and accuracy over all tokens, exact for batches of any size.

    Args:
        scored: As predictions the sums of each game, shape (games, 2); as labels its number of tokens, shape (games,).
    """
    loss, right = scored.predictions.sum(0, dtype=float)  # type: ignore[union-attr]  # one array
    count = scored.label_ids.sum()  # type: ignore[union-attr]
    return {"loss": float(loss / count), "mean_token_accuracy": float(right / count)}


@contextmanager
def random_stream_kept(device: torch.device) -> Iterator[None]:
    """Leave torch's generators as they were. A data loader draws a seed, and dropout would then drop something else."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
