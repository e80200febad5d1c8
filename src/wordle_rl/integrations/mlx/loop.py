"""Shared parts of the trainings on MLX: bad steps, metrics, progress, Ctrl-C, checkpoints with optimizer state.

A checkpoint is a directory `checkpoint-STEP` with the trainable weights, the state of the optimizer and the record of
the training, which is written last and marks it as complete.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_unflatten

from wordle_rl.integrations.mlx.model import MLXModel, Weights
from wordle_rl.integrations.mlx.optimizer import ScheduledOptimizer, clipped, is_finite
from wordle_rl.runs import Run, RunError
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.runs.provenance import resident_memory_gib
from wordle_rl.training import guard
from wordle_rl.training.checkpoints import complete_checkpoint, last_checkpoint, last_step, step_of, stored_state
from wordle_rl.training.interrupt import StopRequest

_WEIGHTS, _OPTIMIZER = "weights.safetensors", "optimizer.safetensors"
_GIB = 1024**3


class TrainingLoop:
    """One training's optimizer, checkpoints and log.

    Args:
        model: Its trainable weights are changed.
        optimizer: Changes them.
        run: Gets the metrics.
        stage: `sft` or `grpo`.
        checkpoints: Where checkpoints go.
        max_grad_norm: Gradients are clipped to this norm.
        stop: Set once the user wants to stop.
        progress: Called after every step.
        headline: The metric that progress shows.
    """

    def __init__(
        self,
        model: MLXModel,
        optimizer: ScheduledOptimizer,
        run: Run,
        stage: str,
        checkpoints: Path,
        *,
        max_grad_norm: float,
        stop: StopRequest,
        progress: ProgressCallback | None,
        headline: str,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self._run, self._stage, self._checkpoints = run, stage, checkpoints
        self._max_grad_norm = max_grad_norm
        self._stop, self._progress, self._headline = stop, progress, headline
        self._started = time.perf_counter()
        self._bad_in_a_row = 0
        self._skipped = 0
        self._note = ""

    @property
    def is_sound(self) -> bool:
        """True unless the last step was bad; no checkpoint is written then."""
        return self._bad_in_a_row == 0

    def step(self, step: int, loss: float, gradients: Weights) -> float:
        """Change the weights, unless loss or gradient is not finite.

        Args:
            step: Steps done before.
            loss: Of the step.
            gradients: Of the step, not clipped yet.

        Returns:
            The norm of the gradients before clipping.
        """
        kept, norm = clipped(gradients, self._max_grad_norm)
        if is_finite(loss, norm):
            self.optimizer.update(kept, step)
            self._bad_in_a_row = 0
        else:
            self._bad_in_a_row += 1
            self._skipped += 1
        return norm

    def check(self, step: int) -> None:
        """Stop after too many bad steps in a row.

        Args:
            step: Steps done.

        Raises:
            RunError: If there were too many.
        """
        if self._bad_in_a_row < guard.MAX_BAD_STEPS:
            return
        section = "sft" if self._stage == "sft" else "rl"
        raise RunError(
            f"{self._stage} stopped at step {step}: loss or gradient were not finite in {self._bad_in_a_row} steps in "
            f"a row; the last good weights are in {last_checkpoint(self._checkpoints) or 'no checkpoint'}; lower "
            f"{section}.optimizer.learning_rate in a new run"
        )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Append the numbers of a step to metrics.jsonl; those that are not finite are named instead."""
        finite = {name: value for name, value in numbers.items() if is_finite(value)}
        row: dict[str, Any] = {**finite, "mlx_peak_memory_gib": round(mx.get_peak_memory() / _GIB, 3)}
        if lost := sorted(set(numbers) - set(finite)):
            row["not_finite"] = lost
        if self._skipped:
            row["skipped_steps"], self._skipped = self._skipped, 0
        if (resident := resident_memory_gib()) is not None:
            row["resident_memory_gib"] = round(resident, 3)
        seconds = round(time.perf_counter() - self._started, 3)
        self._run.append("metrics.jsonl", {"stage": self._stage, "step": step, "seconds": seconds, **row})
        if self._headline in finite:
            self._note = f"{self._headline} {finite[self._headline]:.3f}"

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Append a row that holds these numbers alone."""
        seconds = round(time.perf_counter() - self._started, 3)
        self._run.append("metrics.jsonl", {"stage": self._stage, "step": step, "seconds": seconds, **numbers})

    def ended(self, step: int, total: int, state: Mapping[str, Any]) -> bool:
        """Report progress; True if the user wants to stop, once a checkpoint is saved."""
        if self._progress is not None:
            self._progress(step, total, self._note)
        if self._stop.wanted:
            self.save(step, state)
        return self._stop.wanted

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Write a checkpoint, and remove older ones.

        Args:
            step: Steps done.
            state: Record of the training beside weights and optimizer.

        Raises:
            RunError: If it cannot be written.
        """
        target = self._checkpoints / f"checkpoint-{step}"
        if step == last_step(self._checkpoints):
            return
        shutil.rmtree(target, ignore_errors=True)  # what a kill left of it
        try:
            target.mkdir(parents=True)
            mx.save_safetensors(str(target / _WEIGHTS), self.model.trainable())
            self.optimizer.save(target / _OPTIMIZER)
            complete_checkpoint(target, state)
        except (OSError, RuntimeError) as error:  # MLX reports a full disk by a RuntimeError
            shutil.rmtree(target, ignore_errors=True)
            raise RunError(f"cannot save checkpoint {target}: {error}; free space and run again") from error

    def restore(self) -> tuple[int, dict[str, Any]]:
        """Load the newest checkpoint; the steps done by then and the stored record, (0, {}) without any."""
        found = last_checkpoint(self._checkpoints)
        if found is None:
            return 0, {}
        checkpoint = Path(found)
        self.model.network.update(tree_unflatten(list(mx.load(str(checkpoint / _WEIGHTS)).items())))
        self.optimizer.load(checkpoint / _OPTIMIZER)
        return step_of(checkpoint), stored_state(checkpoint)


def added(total: Weights | None, gradients: Weights) -> Weights:
    """Gradients of a further micro-batch added to those before it, computed at once so that memory is freed."""
    summed = gradients if total is None else {name: total[name] + value for name, value in gradients.items()}
    mx.eval(summed)
    return summed


@contextmanager
def checkpointed(model: MLXModel, wanted: bool) -> Iterator[None]:
    """Within it, layers keep only their inputs for the backward pass and compute the rest again.

    Args:
        model: All layers of a class of its layers are affected.
        wanted: Nothing is changed if false.
    """
    kinds = {type(layer) for layer in model.network.layers} if wanted else set()
    before = {kind: kind.__call__ for kind in kinds}
    for kind, call in before.items():
        kind.__call__ = _recomputed(call)
    try:
        yield
    finally:
        for kind, call in before.items():
            kind.__call__ = call


def _recomputed(call: Callable[..., Any]) -> Callable[..., Any]:
    def recomputing(layer: Any, *args: Any, **kwargs: Any) -> Any:
        def inner(weights: Any, *inner_args: Any, **inner_kwargs: Any) -> Any:
            layer.update(weights)
            return call(layer, *inner_args, **inner_kwargs)

        return mx.checkpoint(inner)(layer.trainable_parameters(), *args, **kwargs)

    return recomputing
