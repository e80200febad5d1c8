"""`train.learner.Learner` on MLX, so that every algorithm of `train` runs on a Mac.

    scores  = log-probabilities of the trained tokens      losses.py
    loss    = contribution of a micro-batch                losses.py
    update  = gradients summed, clipped, one step          `ScheduledOptimizer`

One process. The arithmetic equals that of `TorchLearner`, except for rounding and the random numbers of dropout.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_map, tree_unflatten

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.training import ADAM_BETAS, OptimizerSettings, SamplingSettings
from wordle_rl.mlx.losses import Figures, MLXBatch, loss_of, score
from wordle_rl.mlx.model import MLXModel, Weights, bar_of, mode_kept, read, read_model, save_model
from wordle_rl.mlx.sampler import MLXSampler
from wordle_rl.policy.base import Sampler
from wordle_rl.policy.loading import context_budget
from wordle_rl.train.example import Example
from wordle_rl.train.learner import ROWS_SCORED, Sums, Update, gradient_noise
from wordle_rl.train.loss import Loss, Totals
from wordle_rl.train.micro_batches import FILLER, TwoHalves
from wordle_rl.train.optimizer import Part, rate_factor

_WEIGHTS, _OPTIMIZER = "weights.safetensors", "optimizer.safetensors"
_GIB = 1024**3


class MLXLearner:
    """A model trained by MLX, in place; if it has adapters, only those. See `Learner`.

    Args:
        gradient_checkpointing: Recompute layers in the backward pass, to save memory.
        micro_batch_size: Games per backward pass; 0: all of a batch.
        temperature: Divides the logits, as in sampling.
        seed: Random seed of dropout.
    """

    shares_prefixes = False

    def __init__(
        self,
        model: MLXModel,
        codec: ChatCodec,
        *,
        gradient_checkpointing: bool = False,
        micro_batch_size: int = 0,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.model, self.codec, self.micro_batch_size = model, codec, micro_batch_size
        self._bar = bar_of(codec, model.config.vocab_size)
        self._checkpointing, self._temperature, self._seed = gradient_checkpointing, temperature, seed
        self._optimizer: ScheduledOptimizer | None = None
        self._start: Weights = {}

    def start(self, settings: OptimizerSettings, total_steps: int, part: Part = (0, 1)) -> None:
        """See `Learner`."""
        self._max_grad_norm = settings.max_grad_norm
        self._optimizer = ScheduledOptimizer(self.model, settings, total_steps, part)

    def remember_start(self) -> None:
        """See `Learner`."""
        self._start = self._start or self.model.trainable()  # MLX arrays are immutable, so no copy is needed

    def update(self, micro_batches: Sequence[Sequence[Example]], loss: Loss, step: int) -> Update:
        """See `Learner`."""
        assert self._optimizer is not None, "call start() first"
        batches, totals = self._laid_out(micro_batches, loss)
        if loss.needs_reference:
            self._add_reference(batches)

        def summand(batch: MLXBatch) -> tuple[mx.array, Figures]:
            return self._loss(loss, batch)

        with_gradient = nn.value_and_grad(self.model.network, summand)
        value, sums, total, first_half = 0.0, Sums(), None, None
        seconds = dict.fromkeys(("forward", "backward", "update"), 0.0)
        seed = (self._seed << 20) + (step << 8)  # by step, so that a resumed training drops the same units
        mx.random.seed(seed)
        saving = recomputing(self.model, seed) if self._checkpointing else nullcontext()
        with mode_kept(self.model.network, training=loss.dropout), saving:
            for number, batch in enumerate(batches, start=1):
                started = time.perf_counter()
                (of_batch, figures), gradients = with_gradient(batch)
                mx.eval(of_batch, figures)
                forward = time.perf_counter()
                total = gradients if total is None else tree_map(mx.add, total, gradients)
                mx.eval(total)  # MLX is lazy; evaluate now, to free this micro-batch before the next
                if isinstance(micro_batches, TwoHalves) and number == micro_batches.split:
                    first_half = total
                del gradients
                mx.clear_cache()
                seconds["forward"] += forward - started
                seconds["backward"] += time.perf_counter() - forward
                value += float(of_batch.item())
                sums.add(figures)
        started = time.perf_counter()
        kept, norm = optim.clip_grad_norm(total, self._max_grad_norm)
        is_sound = math.isfinite(value) and math.isfinite(norm.item())
        if is_sound:
            self._optimizer.update(kept, step - 1)  # skipped if the loss or the gradient is not finite
        seconds["update"] = time.perf_counter() - started
        noise = {}
        if isinstance(micro_batches, TwoHalves):
            other = tree_map(mx.subtract, total, first_half)
            products = (_inner(first_half, other), _inner(first_half, first_half), _inner(other, other))
            noise = gradient_noise(*products, micro_batches.games)
        figures = {**sums.means(loss.count(totals)), **noise, "mlx_peak_memory_gib": mx.get_peak_memory() / _GIB}
        tokens = sum(len(example.token_ids) for examples in micro_batches for example in examples)
        return Update(value, float(norm.item()), self._optimizer.rate(step - 1), is_sound, tokens, figures, seconds)

    def evaluate(self, micro_batches: Sequence[Sequence[Example]], loss: Loss) -> dict[str, float]:
        """See `Learner`."""
        batches, totals = self._laid_out(micro_batches, loss)
        value, sums = 0.0, Sums()
        with mode_kept(self.model.network, training=False):
            for batch in batches:
                summand, figures = self._loss(loss, batch)
                value += float(summand.item())
                sums.add(figures)
        return {"loss": value, **sums.means(loss.count(totals))}

    def logprobs(self, rows: Sequence[Example]) -> list[float]:
        """See `Learner`."""
        found: list[float] = []
        for first in range(0, len(rows), ROWS_SCORED):
            part = rows[first : first + ROWS_SCORED]
            batch = MLXBatch.of(part, [1.0] * len(part), self.codec.pad_id)
            sums = mx.zeros((len(part),)).at[batch.rows].add(self._logprobs(batch))
            found += sums.tolist()
        return found

    def _loss(self, loss: Loss, batch: MLXBatch) -> tuple[mx.array, Figures]:
        scores = score(self.model, batch, self._temperature, entropy=loss.needs_entropy, bar=self._bar)
        return loss_of(loss, scores, batch)

    def _laid_out(self, micro_batches: Sequence[Sequence[Example]], loss: Loss) -> tuple[list[MLXBatch], Totals]:
        counts = [[int(sum(example.loss_mask[1:])) for example in examples] for examples in micro_batches]
        totals = Totals(sum(map(sum, counts)), sum(map(len, counts)))
        batches = [
            MLXBatch.of(examples, loss.token_weights(of_rows, totals), self.codec.pad_id)
            for examples, of_rows in zip(micro_batches, counts, strict=True)
        ]
        return batches or [MLXBatch.of([FILLER], [0.0], self.codec.pad_id)], totals

    def _logprobs(self, batch: MLXBatch) -> mx.array:
        """Return log-probabilities under the current weights, without gradient and dropout."""
        with mode_kept(self.model.network, training=False):
            logprobs = score(self.model, batch, self._temperature, bar=self._bar).logprobs
            mx.eval(logprobs)
        return logprobs

    def _add_reference(self, batches: Sequence[MLXBatch]) -> None:
        with self._start_weights():
            for batch in batches:
                batch.reference_logprobs = self._logprobs(batch)

    @contextmanager
    def _start_weights(self) -> Iterator[None]:
        """Put the start weights into the model for the duration of the block."""
        assert self._start, "call remember_start() before the first step"
        current = self.model.trainable()
        self.model.take(self._start)
        try:
            yield
        finally:
            self.model.take(current)

    @contextmanager
    def policy(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int | None]]:
        """See `Learner`."""
        yield MLXSampler(self.model, self.codec, sampling, seed), context_budget(self.model, sampling)  # type: ignore[arg-type]  # only its config is read

    def save_checkpoint(self, directory: Path) -> None:
        """See `Learner`."""
        assert self._optimizer is not None, "call start() first"
        self.save_weights(directory / _WEIGHTS)
        self._optimizer.save(directory / _OPTIMIZER)

    def load_checkpoint(self, directory: Path) -> None:
        """See `Learner`."""
        assert self._optimizer is not None, "call start() first"
        self.load_weights(directory / _WEIGHTS)
        self._optimizer.load(directory / _OPTIMIZER)

    def save_model(self, directory: Path) -> None:
        """See `Learner`."""
        save_model(self.model, self.codec, directory)

    def load_model(self, directory: Path) -> None:
        """See `Learner`."""
        read_model(self.model, directory)

    def save_weights(self, path: Path) -> None:
        """See `Learner`."""
        with path.open("wb") as file:  # given a path, MLX would change its suffix
            mx.save_safetensors(file, self.model.trainable())

    def load_weights(self, path: Path) -> None:
        """See `Learner`."""
        self.model.take(read(path))

    def interpolate(self, start: Path, end: Path, alpha: float) -> None:
        """See `Learner`."""
        first, last = read(start), read(end)
        self.model.take({name: first[name] + alpha * (last[name] - first[name]) for name in last})


_OF_WORDS = ("embed_tokens.weight", "lm_head.weight")


class ScheduledOptimizer:
    """AdamW, or Muon for matrices inside the layers and AdamW for the rest, with a learning rate schedule."""

    def __init__(self, model: MLXModel, settings: OptimizerSettings, total_steps: int, part: Part = (0, 1)) -> None:
        self._network, self._settings, self._total_steps, self._part = model.network, settings, total_steps, part
        rate, muon_rate = settings.learning_rate, settings.muon_learning_rate
        adamw = optim.AdamW(rate, betas=list(ADAM_BETAS), eps=1e-8, weight_decay=0.0, bias_correction=True)
        if muon_rate is not None:
            self._rates = [muon_rate, rate]
            self._optimizer = optim.MultiOptimizer(
                [optim.Muon(muon_rate, momentum=0.95, weight_decay=0.0), adamw], [_is_matrix]
            )
        else:
            self._rates = [rate]
            self._optimizer = optim.MultiOptimizer([adamw])
        self._optimizer.init(self._network.trainable_parameters())

    def rate(self, step: int) -> float:
        """Return the first optimizer's learning rate after `step` steps."""
        return self._rates[0] * self._factor(step)

    def _factor(self, step: int) -> float:
        number, parts = self._part
        return rate_factor(self._settings, number * self._total_steps + step, parts * self._total_steps)

    def update(self, gradients: Any, step: int) -> None:
        """Apply the clipped gradients, a tree, after `step` steps."""
        for optimizer, rate in zip(self._optimizer.optimizers, self._rates, strict=True):
            optimizer.learning_rate = rate * self._factor(step)
        self._optimizer.update(self._network, gradients)
        mx.eval(self._network.trainable_parameters(), self._optimizer.state)

    def save(self, path: Path) -> None:
        """Write the optimizer state."""
        mx.save_safetensors(str(path), dict(tree_flatten(self._optimizer.state)))

    def load(self, path: Path) -> None:
        """Restore the state that `save` wrote."""
        self._optimizer.state = tree_unflatten(list(read(path).items()))


def _is_matrix(name: str, weight: mx.array) -> bool:
    return weight.ndim == 2 and not name.endswith(_OF_WORDS)


@contextmanager
def recomputing(model: MLXModel, seed: int) -> Iterator[None]:
    """Inside the block, layers keep only their inputs for the backward pass and recompute the rest.

    This patches the layer classes of the model, and so affects other models of these classes.
    """
    seeds = random.Random(seed)
    kinds = {type(layer) for layer in model.network.layers}
    before = {kind: kind.__call__ for kind in kinds}
    for kind, call in before.items():
        kind.__call__ = _recomputed(call, seeds)
    try:
        yield
    finally:
        for kind, call in before.items():
            kind.__call__ = call


def _recomputed(call: Callable[..., Any], seeds: random.Random) -> Callable[..., Any]:
    def layer_call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        seed = seeds.getrandbits(32)

        def inner(weights: Any, *inner_args: Any, **inner_kwargs: Any) -> Any:
            mx.random.seed(seed)  # the recomputed pass must drop the same units
            layer.update(weights)
            return call(layer, *inner_args, **inner_kwargs)

        return mx.checkpoint(inner)(layer.trainable_parameters(), *args, **kwargs)

    return layer_call


def _inner(a: Any, b: Any) -> float:
    pairs = zip(tree_flatten(a), tree_flatten(b), strict=True)
    return float(sum((x.astype(mx.float32) * y.astype(mx.float32)).sum() for (_, x), (_, y) in pairs).item())
