"""Learners: a model, its optimizer, and one method, `update`, through which every algorithm trains it.

`Learner` is the protocol. `TorchLearner` runs torch through accelerate (one process, DDP, FSDP2); `mlx.learner` runs
MLX.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, DistributedType
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.training import OptimizerSettings, Precision, SamplingSettings
from wordle_rl.policy.base import Sampler
from wordle_rl.policy.constrain import WordConstraint
from wordle_rl.policy.device import device_kind, release_memory
from wordle_rl.policy.loading import context_budget, load_weights, save_model
from wordle_rl.policy.sizes import FEW_WEIGHTS
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.policy.whole_models import SHARDS
from wordle_rl.runs.distributed import gather, wait_for_all
from wordle_rl.train.example import Example
from wordle_rl.train.logprobs import Scorer, Scores, layers_of
from wordle_rl.train.loss import Loss, Totals
from wordle_rl.train.micro_batches import FILLER, AllowedTokens, Batch, TwoHalves
from wordle_rl.train.optimizer import MakeOptimizer, Part, make_optimizer, set_rate, wants_bf16

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from transformers import PreTrainedModel

_OPTIMIZER, _OPTIMIZER_SHARDS = "optimizer.pt", "optimizer_0"
ROWS_SCORED = 256
"""Rows to score at once without a gradient."""


@dataclass(frozen=True, slots=True)
class Update:
    """Outcome of one optimizer step, over all processes.

    Attributes:
        grad_norm: Gradient norm before clipping.
        learning_rate: Learning rate of the first parameter group.
        is_sound: False if loss or gradient were not finite, in which case the step was skipped.
        num_tokens: All tokens of the step's rows, prompts included.
        figures: Means over the trained tokens, by name.
        seconds: Seconds that this process spent in `forward`, `backward` and `update`.
    """

    loss: float
    grad_norm: float
    learning_rate: float
    is_sound: bool
    num_tokens: int
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


class Learner(Protocol):
    """A model in training. With several processes, each must call every method."""

    codec: ChatCodec
    micro_batch_size: int
    """Games per backward pass that its memory has room for; 0: all of a batch."""

    @property
    def model(self) -> Any:
        """The policy, with the `config` of transformers."""

    @property
    def shares_prefixes(self) -> bool:
        """True if rows that begin alike should share a micro-batch."""

    def start(self, settings: OptimizerSettings, total_steps: int, part: Part = (0, 1)) -> None:
        """Create the optimizer for the `total_steps` of a part of its schedule."""

    def remember_start(self) -> None:
        """Keep the current weights as the reference of losses that need one; later calls do nothing."""

    def update(self, micro_batches: Sequence[Sequence[Example]], loss: Loss, step: int) -> Update:
        """Take optimizer step number `step`, from 1, on the rows of this process; a micro-batch is a backward pass."""

    def evaluate(self, micro_batches: Sequence[Sequence[Example]], loss: Loss) -> dict[str, float]:
        """Compute loss and figures of rows as means over their trained tokens, without learning."""

    def logprobs(self, rows: Sequence[Example]) -> list[float]:
        """Return the log-probability of each row's trained tokens together, without learning.

        Unlike the others, each process may call this as often as it likes. Sharded weights cannot.
        """

    def policy(self, sampling: SamplingSettings, seed: int) -> AbstractContextManager[tuple[Sampler, int | None]]:
        """Open a sampler over the current weights; also yields the longest prompt that leaves room for a completion."""

    def save_checkpoint(self, directory: Path) -> None:
        """Write weights and optimizer state."""

    def load_checkpoint(self, directory: Path) -> None:
        """Load weights and optimizer state."""

    def save_model(self, directory: Path) -> None:
        """Write a model directory from the first process."""

    def load_model(self, directory: Path) -> None:
        """Load weights from a model directory that `save_model` wrote."""

    def save_weights(self, path: Path) -> None:
        """Write the trained weights as safetensors; the first process alone may call this."""

    def load_weights(self, path: Path) -> None:
        """Load the trained weights from a file that `save_weights` wrote."""

    def interpolate(self, start: Path, end: Path, alpha: float) -> None:
        """Load start + alpha x (end - start) from the weights of two files."""


class TorchLearner:
    """Trains a transformers model, in place; if it has adapters, only those.

    Args:
        precision: `bf16` autocast, `fp32`, or `auto`.
        gradient_checkpointing: Compute layers again in the backward pass to save memory.
        micro_batch_size: Games per backward pass; 0: all of a batch.
        compiled: Fuse layers with torch.compile in training.
        temperature: Divide logits by this, as in sampling.
        constraint: Limits guesses to listed words, in play and in the loss.
        seed: Seed of dropout.
        optimizer: Makes the optimizer of each `start`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        codec: ChatCodec,
        *,
        precision: Precision = "auto",
        gradient_checkpointing: bool = False,
        micro_batch_size: int = 0,
        compiled: bool = False,
        temperature: float = 1.0,
        constraint: WordConstraint | None = None,
        seed: int = 0,
        optimizer: MakeOptimizer = make_optimizer,
    ) -> None:
        self.model, self.codec, self.micro_batch_size = model, codec, micro_batch_size
        self._allowed = None if constraint is None else AllowedTokens(constraint, model.config)
        self._constraint = constraint
        self.accelerator = Accelerator(
            cpu=device_kind() == "cpu",
            mixed_precision="no",  # `Scorer` autocasts itself; accelerate would patch the model's own forward
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=False)],
        )
        self._bf16, self._seed = wants_bf16(precision), seed
        self._is_large = model.num_parameters() > FEW_WEIGHTS
        if self.is_sharded:
            plugin = self.accelerator.state.fsdp_plugin
            if self._bf16:
                plugin.set_mixed_precision("bf16")
            # Gather one layer at a time, unless the launch file says otherwise.
            plugin.transformer_cls_names_to_wrap = plugin.transformer_cls_names_to_wrap or [
                type(layers_of(model)[0]).__name__
            ]
        scorer = Scorer(
            model,
            bf16=self._bf16,
            temperature=temperature,
            checkpointing=gradient_checkpointing,
            compiled=compiled,
            sharded=self.is_sharded,
            unknown=codec.unknown_ids(model.config.get_text_config().vocab_size),
        )
        self.shares_prefixes = scorer.shares_prefixes
        self._scorer: Any = scorer  # `start` replaces it by what accelerate makes of it: DDP's or FSDP's module
        self._own_scorer = scorer
        self._make_optimizer = optimizer
        self._optimizer: Optimizer | None = None
        self._start: list[Tensor] = []
        self.version = 0
        """Grows with every change of the weights, so that an engine knows whether it has them."""

    @property
    def is_sharded(self) -> bool:
        """True if the weights are sharded over processes."""
        return bool(self.accelerator.distributed_type is DistributedType.FSDP)

    def start(self, settings: OptimizerSettings, total_steps: int, part: Part = (0, 1)) -> None:
        """See `Learner`."""
        self._settings, self._total_steps, self._part = settings, total_steps, part
        optimizer = self._make_optimizer(self.model, settings)
        if self._optimizer is None:
            self._scorer, self._optimizer = self.accelerator.prepare(self._scorer, optimizer)
        else:
            # accelerate keeps all that it prepared: the optimizer states of earlier rounds would stay in memory.
            self._optimizer = None
            self.accelerator.free_memory()
            self._optimizer = self.accelerator.prepare(optimizer)

    def remember_start(self) -> None:
        """See `Learner`."""
        self._start = self._start or [weight.detach().clone() for weight in self._trained()]

    def update(self, micro_batches: Sequence[Sequence[Example]], loss: Loss, step: int) -> Update:
        """See `Learner`."""
        batches, totals = self._laid_out(micro_batches, loss)
        if loss.needs_reference:
            self._add_reference(batches)
        world = self.accelerator.num_processes
        value, sums, seconds = 0.0, Sums(), dict.fromkeys(("forward", "backward", "update"), 0.0)
        split = micro_batches.split if isinstance(micro_batches, TwoHalves) else 0
        first_half: list[Tensor] = []
        with self._seeded(step), self._training_mode(dropout=loss.dropout):
            for number, batch in enumerate(batches, start=1):
                # Gradients accumulate locally. Only the last micro-batch, of each half if the halves are compared,
                # triggers the exchange between processes.
                last = number in (split, len(batches))
                with nullcontext() if last else self.accelerator.no_sync(self._scorer):
                    started = time.perf_counter()
                    scores = Scores(*self._scorer(batch, loss.needs_entropy))
                    summand, figures = loss(scores, batch)
                    forward = time.perf_counter()
                    # DDP and FSDP average gradients over processes, but the loss of a step is a sum over them.
                    self.accelerator.backward(summand * world)
                seconds["forward"] += forward - started
                seconds["backward"] += time.perf_counter() - forward
                value += float(summand.detach())
                sums.add(figures)
                if number == split:
                    first_half = [gradient.clone() for gradient in self._gradients()]
        started = time.perf_counter()
        value = sum(gather(value))
        noise = self._noise(first_half, micro_batches.games) if isinstance(micro_batches, TwoHalves) else {}
        norm, is_sound = self._take_step(value, step)
        if self._is_large and device_kind() == "cpu" and step % 16 == 0:
            release_memory()  # sizes differ from step to step, and gaps grow; it costs a tenth of a step
        seconds["update"] = time.perf_counter() - started
        means = Sums(gather(sums.values)).means(loss.count(totals)) | noise
        rate = float(self._optimizer.param_groups[0]["lr"]) if self._optimizer is not None else 0.0
        tokens = sum(gather(sum(len(example.token_ids) for batch in micro_batches for example in batch)))
        return Update(value, norm, rate, is_sound, tokens, means, seconds)

    def _gradients(self) -> list[Tensor]:
        # Those of this process, see `_trained`; a weight that no micro-batch has used yet has none.
        none = torch.zeros((), device=self.model.device)
        gradients = [none if weight.grad is None else weight.grad for _, weight in self._named()]
        return [g.to_local() if hasattr(g, "to_local") else g for g in gradients]

    def _noise(self, first: Sequence[Tensor], games: float) -> dict[str, float]:
        both = self._gradients()
        seconds = [whole - half for whole, half in zip(both, first, strict=True)]
        mine = [
            sum(float((a.float() * b.float()).sum()) for a, b in zip(*pair, strict=True))
            for pair in ((first, seconds), (first, first), (seconds, seconds))
        ]
        # Sharded, a process holds a part of the gradient; else each holds all of it.
        between, square, other = map(sum, zip(*gather(mine), strict=True)) if self.is_sharded else mine
        return gradient_noise(between, square, other, games * self.accelerator.num_processes)

    def _take_step(self, loss: float, step: int) -> tuple[float, bool]:
        assert self._optimizer is not None, "call start() first"
        set_rate(self._optimizer, self._settings, step - 1, self._total_steps, self._part)
        norm = float(self.accelerator.clip_grad_norm_(self._scorer.parameters(), self._settings.max_grad_norm))
        # Skip a step with NaN or infinity: a NaN gradient turns every weight it reaches into NaN, for good. All
        # processes must agree, or their weights would drift apart.
        bad = not (math.isfinite(loss) and math.isfinite(norm))
        is_sound = not any(gather(bad))
        if is_sound:
            self._optimizer.step()
            self.version += 1
        self.model.zero_grad(set_to_none=True)
        return norm, is_sound

    @torch.no_grad()
    def evaluate(self, micro_batches: Sequence[Sequence[Example]], loss: Loss) -> dict[str, float]:
        """See `Learner`."""
        batches, totals = self._laid_out(micro_batches, loss)
        value, sums = 0.0, Sums()
        was_training = self.model.training
        self.model.eval()
        for batch in batches:
            summand, figures = loss(Scores(*self._scorer(batch, loss.needs_entropy)), batch)
            value += float(summand)
            sums.add(figures)
        self.model.train(was_training)
        return {"loss": sum(gather(value)), **Sums(gather(sums.values)).means(loss.count(totals))}

    @torch.no_grad()
    def logprobs(self, rows: Sequence[Example]) -> list[float]:
        """See `Learner`."""
        # Rows of a game begin alike, so order by tokens lets them share prefixes.
        order = sorted(range(len(rows)), key=lambda place: tuple(rows[place].token_ids))
        found = [0.0] * len(rows)
        with self._training_mode(dropout=False):
            for first in range(0, len(order), ROWS_SCORED):
                places = order[first : first + ROWS_SCORED]
                batch = self._batch([rows[place] for place in places], [1.0] * len(places))
                scores, *_ = self._own_scorer(batch)
                sums = scores.new_zeros(batch.num_rows).index_add(0, batch.rows, scores).tolist()
                for place, value in zip(places, sums, strict=True):
                    found[place] = value
        return found

    def _batch(self, examples: Sequence[Example], row_weights: Sequence[float]) -> Batch:
        batch = Batch.of(examples, row_weights, self.codec.pad_id, self.accelerator.device)
        if self._allowed is not None:
            batch.allowed = self._allowed(batch)
        return batch

    def _laid_out(self, micro_batches: Sequence[Sequence[Example]], loss: Loss) -> tuple[list[Batch], Totals]:
        # The weights of a micro-batch's tokens depend on the size of the whole step, over all processes.
        token_counts = [[int(sum(example.loss_mask[1:])) for example in batch] for batch in micro_batches]
        sizes = gather((len(micro_batches), sum(map(sum, token_counts)), sum(map(len, token_counts))))
        totals = Totals(sum(tokens for _, tokens, _ in sizes), sum(rows for *_, rows in sizes))
        batches = [
            self._batch(examples, loss.token_weights(counts, totals))
            for examples, counts in zip(micro_batches, token_counts, strict=True)
        ]
        # Every process needs the same number of forward passes, or the collectives of DDP and FSDP would hang.
        missing = max(1, *(count for count, *_ in sizes)) - len(batches)
        return batches + [self._batch([FILLER], [0.0]) for _ in range(missing)], totals

    @torch.no_grad()
    def _add_reference(self, batches: Sequence[Batch]) -> None:
        with self._start_weights(), self._training_mode(dropout=False):
            for batch in batches:
                batch.reference_logprobs = self._scorer(batch)[0]

    @contextmanager
    def _start_weights(self) -> Iterator[None]:
        # Swap contents, not modules: one model serves as policy and reference, and shards stay where they are.
        assert self._start, "call remember_start() before the first step"
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for place, weight in enumerate(self._trained()):
            current = weight.clone()
            weight.copy_(self._start[place])
            self._start[place] = current

    def _trained(self) -> list[Tensor]:
        # `to_local` gives the shard of this process (a DTensor under FSDP2).
        return [weight.to_local() if hasattr(weight, "to_local") else weight for _, weight in self._named()]

    def _named(self) -> Iterator[tuple[str, nn.Parameter]]:
        # Tied weights count once.
        return ((name, weight) for name, weight in self.model.named_parameters() if weight.requires_grad)

    @contextmanager
    def _training_mode(self, *, dropout: bool) -> Iterator[None]:
        was_training = self.model.training
        self.model.train()
        if not dropout:
            # Dropout in attention has no module of its own; the layer's mode switches it. transformers checkpoints a
            # layer only in training mode, so layers with checkpointing stay in it.
            for module in self.model.modules():
                module.training = bool(getattr(module, "gradient_checkpointing", False))
        try:
            yield
        finally:
            self.model.train(was_training)

    @contextmanager
    def _seeded(self, step: int) -> Iterator[None]:
        # Dropout depends on seed, step and process alone, so a resumed training ends with the same bits.
        device = self.accelerator.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed((self._seed << 20) + (step << 8) + self.accelerator.process_index)
            yield

    @contextmanager
    def policy(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int | None]]:
        """See `Learner`."""
        device = self.model.device.type
        # On a CPU, bfloat16 plays SmolLM2 in 0.57 of the time, and is slow with one token per row of a small model.
        # Run compiled layers eagerly here: the growing cache would trigger a recompilation at every length.
        play = torch.autocast(device, torch.bfloat16, enabled=self._bf16 and (device != "cpu" or self._is_large))
        if self._is_large:  # a small model's steps are too short for it
            release_memory()
        with play, torch.compiler.set_stance("force_eager"):
            sampler = TransformersSampler(self.model, self.codec, sampling, seed, self._constraint)
            yield sampler, context_budget(self.model, sampling)
            sampler.begin()  # whoever still holds it holds no games
        if self._is_large:
            release_memory()

    def save_checkpoint(self, directory: Path) -> None:
        """See `Learner`."""
        assert self._optimizer is not None, "call start() first"
        if self.is_sharded:
            save_shards({"model": get_model_state_dict(self.model)}, checkpoint_id=directory / SHARDS)
            state = get_optimizer_state_dict(self._scorer, self._plain_optimizer)
            save_shards({"optimizer": state}, checkpoint_id=directory / _OPTIMIZER_SHARDS)
            if self.accelerator.is_main_process:
                self.model.config.save_pretrained(directory)
                self.codec.tokenizer.save_pretrained(directory)
        elif self.accelerator.is_main_process:
            save_model(self.model, self.codec, directory)
            torch.save(self._optimizer.state_dict(), directory / _OPTIMIZER)
        wait_for_all()

    def load_checkpoint(self, directory: Path) -> None:
        """See `Learner`."""
        assert self._optimizer is not None, "call start() first"
        self.version += 1
        if not self.is_sharded:
            load_weights(self.model, directory)
            state = torch.load(directory / _OPTIMIZER, map_location="cpu", weights_only=True)
            self._optimizer.load_state_dict(state)
            return
        weights = {"model": get_model_state_dict(self.model)}
        load_shards(weights, checkpoint_id=directory / SHARDS)
        set_model_state_dict(self.model, weights["model"])
        state = {"optimizer": get_optimizer_state_dict(self._scorer, self._plain_optimizer)}
        load_shards(state, checkpoint_id=directory / _OPTIMIZER_SHARDS)
        set_optimizer_state_dict(self._scorer, self._plain_optimizer, state["optimizer"])

    def save_model(self, directory: Path) -> None:
        """See `Learner`."""
        whole = None
        if self.is_sharded:
            whole = get_model_state_dict(self.model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        if self.accelerator.is_main_process:
            save_model(self.model, self.codec, directory, whole)
        wait_for_all()

    def load_model(self, directory: Path) -> None:
        """See `Learner`."""
        self.version += 1
        load_weights(self.model, directory)

    def save_weights(self, path: Path) -> None:
        """See `Learner`."""
        save_file({name: weight.detach().contiguous() for name, weight in self._named()}, path)

    @torch.no_grad()
    def load_weights(self, path: Path) -> None:
        """See `Learner`."""
        stored = load_file(path)
        self.version += 1
        for name, weight in self._named():
            weight.copy_(stored[name])

    @torch.no_grad()
    def interpolate(self, start: Path, end: Path, alpha: float) -> None:
        """See `Learner`."""
        first, last = load_file(start), load_file(end)
        self.version += 1
        for name, weight in self._named():
            a, b = (tensors[name].to(weight.device, weight.dtype) for tensors in (first, last))
            weight.copy_(torch.lerp(a, b, alpha))

    @property
    def _plain_optimizer(self) -> Optimizer:
        optimizer: Any = self._optimizer  # accelerate's wrapper, which torch's functions do not take
        return optimizer.optimizer  # type: ignore[no-any-return]


def gradient_noise(between: float, first: float, second: float, games: float) -> dict[str, float]:
    """Return how noisy a step's gradient is, from its halves: `gradient/cosine`, and `gradient/noise_scale` in games.

    Each half is g + noise, with independent noises, so the product of both estimates |g|^2, and their squares |g|^2 +
    trace / games. The noise scale is trace / |g|^2: the games at which noise and gradient are equally long. There is
    none where the halves contradict each other.

    Args:
        between: Inner product of the two gradients.
        first: Squared norm of the first.
        second: Squared norm of the second.
        games: Games of a half.

    Source: McCandlish et al. 2018, "An empirical model of large-batch training", arXiv:1812.06162.

    Examples:
        >>> gradient_noise(1.0, 4.0, 4.0, 256)
        {'gradient/cosine': 0.25, 'gradient/noise_scale': 768.0}
    """
    if not first or not second:
        return {}
    noise = {"gradient/cosine": between / math.sqrt(first * second)}
    if between > 0:
        noise["gradient/noise_scale"] = games * ((first + second) / (2 * between) - 1)
    return noise


class Sums:
    """Sums of figures over micro-batches and processes; figures that end in `/max` are maxima."""

    def __init__(self, every: Sequence[Mapping[str, float]] = ()) -> None:
        self.values: dict[str, float] = {}
        for figures in every:
            self.add(figures)

    def add(self, figures: Mapping[str, Any]) -> None:
        """Add figures: numbers, or scalars of torch or MLX."""
        for name, figure in figures.items():
            value, before = float(figure), self.values.get(name)
            if before is not None:
                value = max(before, value) if name.endswith("/max") else before + value
            self.values[name] = value

    def means(self, count: int) -> dict[str, float]:
        """Divide the sums by `count`."""
        return {name: value if name.endswith("/max") else value / max(1, count) for name, value in self.values.items()}
