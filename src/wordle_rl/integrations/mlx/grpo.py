"""Multi-turn GRPO on MLX: the games, rewards and advantages of `rl.grpo`, and a loss of our own.

1. the games of the step       rl.grpo.rollouts, played by `MLXSampler` with the current weights
2. their rows as micro-batches  rows of similar length share a pass
3. the loss of each            losses.py: clipped ratios to the sampler's log-probabilities, KL
4. one update                  optimizer.py: gradients summed, clipped, scheduled
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import GRPOTraining, SamplingSettings
from wordle_rl.integrations.mlx.loop import TrainingLoop, added, checkpointed
from wordle_rl.integrations.mlx.losses import LossTerms, grpo_loss, token_weights
from wordle_rl.integrations.mlx.model import MLXModel, Weights, mode_kept, save_model
from wordle_rl.integrations.mlx.optimizer import ScheduledOptimizer
from wordle_rl.integrations.mlx.sampler import MLXSampler
from wordle_rl.integrations.mlx.scores import Chosen, choose, score
from wordle_rl.rl.grpo.checkpoint_selection import BestWeights
from wordle_rl.rl.grpo.layout import Rows
from wordle_rl.rl.grpo.rollouts import GroupRollouts, rewind_games
from wordle_rl.rl.grpo.validation import Validation
from wordle_rl.rl.setup import GameSetup, prompt_budget
from wordle_rl.runs import Run
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.runs.trackers import GameLog
from wordle_rl.samplers.base import Sampler
from wordle_rl.training.checkpoints import drop_checkpoints, last_step
from wordle_rl.training.interrupt import StopRequest, held_interrupt


def train_grpo(
    model: MLXModel,
    codec: ChatCodec,
    setup: GameSetup,
    settings: GRPOTraining,
    run: Run,
    *,
    seed: int = 0,
    report_to: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    on_saved: Callable[[Path], None] | None = None,
) -> Path:
    """Improve the model by playing and save it to `<run>/grpo`; an interrupted training resumes where it stopped.

    Args:
        model: The policy, changed in place.
        codec: Its tokenizer and template.
        setup: Words, prompts, training secrets, solver.
        settings: Groups, credit, loss, optimizer.
        run: Where metrics, games, checkpoints and the model go.
        seed: Seed of secrets, initial states and sampling.
        report_to: None; trackers are refused beforehand.
        progress: Called after every step.
        on_saved: Called with the directory of the whole model, before checkpoints are removed.

    Returns:
        The model directory.

    Raises:
        ConfigError: If the context holds no completion.
        RunError: If the loss is not finite for too many steps in a row.
        KeyboardInterrupt: After Ctrl-C, once a checkpoint is saved.
    """
    del report_to
    directory = run.directory / "grpo"
    policy = Policy(model, codec, settings)
    log = GameLog(run)
    rollouts = GroupRollouts(setup, codec, settings, log, seed)
    rewind_games(run, last_step(directory / "checkpoints"))
    with held_interrupt() as stop:
        loop = _loop(policy, run, directory, stop, progress)
        best = _best(policy, setup, rollouts, log, run, directory)
        done = _train(loop, policy, rollouts, best)
        if stop.wanted and done < settings.steps:
            return directory  # the interrupt is raised on exit
    if best is not None:
        best.take_best(done)
    save_model(model, codec, directory)
    if on_saved is not None:
        on_saved(directory)
    drop_checkpoints(directory / "checkpoints")
    if best is not None:
        best.forget()
    return directory


@dataclass(frozen=True)
class Policy:
    """The model in training, and what its passes need.

    Attributes:
        model: The weights.
        codec: Tokenizer and chat template.
        settings: Of the training.
    """

    model: MLXModel
    codec: ChatCodec
    settings: GRPOTraining

    @contextmanager
    def open_sampler(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int | None]]:
        """A sampler over the current weights, and the longest prompt that leaves room for a completion."""
        budget = prompt_budget(self.model, self.settings.sampling)  # type: ignore[arg-type]  # only its config is read
        yield MLXSampler(self.model, self.codec, sampling, seed), budget
        mx.clear_cache()  # what the games' caches took is given back before the training pass


def _loop(
    policy: Policy, run: Run, directory: Path, stop: StopRequest, progress: ProgressCallback | None
) -> TrainingLoop:
    optimizer = policy.settings.optimizer
    return TrainingLoop(
        policy.model,
        ScheduledOptimizer(policy.model, optimizer, policy.settings.steps),
        run,
        "grpo",
        directory / "checkpoints",
        max_grad_norm=optimizer.max_grad_norm,
        stop=stop,
        progress=progress,
        headline="win_rate",
    )


def _best(
    policy: Policy, setup: GameSetup, rollouts: GroupRollouts, log: GameLog, run: Run, directory: Path
) -> BestWeights | None:
    """Checkpoint selection, if it is asked for."""
    settings = policy.settings
    if not settings.validate_every_steps:
        return None
    validation = Validation(
        None, policy.codec, setup, settings.sampling, log, settings.sample_games, policy.open_sampler,
        rollouts.reward_of,
    )  # fmt: skip
    weights = MLXWeights(policy.model)
    every, alphas = settings.validate_every_steps, settings.interpolation_alphas
    return BestWeights(
        weights, validation, every, run, directory / "best", alphas, stop_below_start=settings.stop_below_start
    )


def _train(loop: TrainingLoop, policy: Policy, rollouts: GroupRollouts, best: BestWeights | None) -> int:
    """Train from the last checkpoint to the end; the number of steps done."""
    settings, model = policy.settings, policy.model
    reference = dict(model.trainable()) if settings.beta else None
    done, state = loop.restore()
    if state:
        rollouts.load_state(state)
    elif best is not None:
        best.begin()
    for step in range(done + 1, settings.steps + 1):
        started = time.perf_counter()
        result = rollouts(step - 1, policy.open_sampler)
        rollouts.note_compliance(result.metrics["format_compliance"])
        rows = filled(result.rows)
        with mode_kept(model.network, training=False), checkpointed(model, settings.gradient_checkpointing):
            found = gradient_of_step(model, rows, settings, policy.codec.pad_id, reference)
        norm = loop.step(step - 1, found.loss, found.gradients)
        rewards = result.rows["game_reward"][:: rollouts.rows_per_game * settings.turn_candidates]
        loop.log(
            step,
            {
                "loss": found.loss,
                "reward": statistics.fmean(rewards),
                "reward_std": statistics.pstdev(rewards),
                "grad_norm": norm,
                "learning_rate": loop.optimizer.rate(step - 1),
                **found.metrics,
                **result.metrics,
                "step_time": time.perf_counter() - started,
            },
        )
        loop.check(step)
        if settings.save_steps and step % settings.save_steps == 0 and loop.is_sound:
            loop.save(step, rollouts.state())
        if loop.ended(step, settings.steps, rollouts.state()):
            return step
        if best is not None and step < settings.steps and best.after(step):
            return step
    return settings.steps


def filled(rows: Rows) -> Rows:
    """The rows of a step without those that are blank, which hold no token of a game."""
    kept = [place for place, mask in enumerate(rows["env_mask"]) if any(mask) or len(mask) > 1]
    return {name: [values[place] for place in kept] for name, values in rows.items()}


@dataclass(frozen=True)
class StepGradient:
    """Result of the passes of a step."""

    loss: float
    gradients: Weights
    metrics: Mapping[str, float]


def gradient_of_step(
    model: MLXModel, rows: Rows, settings: GRPOTraining, pad_id: int, reference: Weights | None
) -> StepGradient:
    """Loss of a step and its gradient, a micro-batch at a time.

    Args:
        model: The policy.
        rows: Columns of `rl.grpo.layout`, without blank rows.
        settings: Loss, clip range, micro-batches, temperature.
        pad_id: Fills rows up.
        reference: Trainable weights of the reference; None: no KL penalty.
    """
    if settings.loss_type == "bnpo":
        raise ValueError("bnpo has a mean for each micro-batch; use dapo")
    longest, masks = settings.sampling.max_completion_tokens, rows["env_mask"]
    weights = token_weights(masks, len(masks), settings.loss_type, longest)
    started = time.perf_counter()
    total, summed = 0.0, None
    sums = dict.fromkeys(("entropy", "kl", "low", "high", "tokens"), 0.0)
    largest = 0.0
    for places in micro_batches(rows, settings):
        chosen, terms = _laid_out(rows, places, weights, pad_id)
        if not chosen.count:
            continue
        if reference is not None:
            terms = _with_reference(model, chosen, terms, reference, settings.sampling.temperature)

        def loss(chosen: Chosen = chosen, terms: LossTerms = terms) -> tuple[mx.array, Any]:
            scores = score(model, chosen, settings.sampling.temperature)
            value, figures = grpo_loss(
                scores.logprobs,
                terms,
                epsilon=settings.epsilon,
                epsilon_high=settings.epsilon_high,
                beta=settings.beta,
                by_sequence=settings.sequence_importance,
            )
            return value, (figures.clipped_low, figures.clipped_high, figures.kl, figures.largest_ratio,
                           scores.entropies.sum())  # fmt: skip

        (value, (low, high, kl, ratio, entropy)), gradients = nn.value_and_grad(model.network, loss)()
        summed = added(summed, dict(tree_flatten(gradients)))
        total += float(value.item())
        for name, number in (("entropy", entropy), ("kl", kl), ("low", low), ("high", high)):
            sums[name] += float(number.item())
        sums["tokens"] += chosen.count
        largest = max(largest, float(ratio.item()))
        mx.clear_cache()
    if summed is None:  # nothing of the step is trained on
        summed = {name: mx.zeros_like(weight) for name, weight in model.trainable().items()}
    count = max(sums["tokens"], 1.0)
    metrics = {
        "entropy": sums["entropy"] / count,
        "clip_ratio/low_mean": sums["low"] / count,
        "clip_ratio/high_mean": sums["high"] / count,
        "importance_ratio/max": largest,
        **({"kl": sums["kl"] / count} if reference is not None else {}),
        "seconds/training": time.perf_counter() - started,
    }
    return StepGradient(total, summed, metrics)


def micro_batches(rows: Rows, settings: GRPOTraining) -> list[list[int]]:
    """Rows of similar length side by side, the longest first, so that a lack of memory shows at once."""
    lengths = [len(p) + len(c) for p, c in zip(rows["prompt_ids"], rows["completion_ids"], strict=True)]
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    games = settings.groups_per_step * settings.group_size
    count = games // settings.micro_batch_size if settings.micro_batch_size else 1
    size = max(1, -(-len(order) // count))
    return [order[first : first + size] for first in range(0, len(order), size)]


def _laid_out(rows: Rows, places: Sequence[int], weights: Sequence[float], pad_id: int) -> tuple[Chosen, LossTerms]:
    """Some rows of a step as tensors."""
    prompts, completions = rows["prompt_ids"], rows["completion_ids"]
    chosen = choose(
        [[*prompts[place], *completions[place]] for place in places],
        [[*[0] * len(prompts[place]), *rows["env_mask"][place]] for place in places],
        pad_id,
    )

    def along(name: str) -> mx.array:
        values = [
            rows[name][places[row]][column - len(prompts[places[row]])]
            for row, column in zip(chosen.rows.tolist(), chosen.columns.tolist(), strict=True)
        ]
        return mx.array(values, dtype=mx.float32)

    terms = LossTerms(
        advantages=along("token_advantages"),
        sampler_logprobs=along("logprobs"),
        weights=mx.array([weights[places[row]] for row in chosen.rows.tolist()], dtype=mx.float32),
        rows=mx.array(chosen.rows),
    )
    return chosen, terms


def _with_reference(
    model: MLXModel, chosen: Chosen, terms: LossTerms, reference: Weights, temperature: float
) -> LossTerms:
    """The terms with log-probabilities of the reference, whose weights take the place of the policy's meanwhile."""
    current = model.trainable()
    model.network.update(tree_unflatten(list(reference.items())))
    logprobs = score(model, chosen, temperature).logprobs
    mx.eval(logprobs)
    model.network.update(tree_unflatten(list(current.items())))
    return LossTerms(terms.advantages, terms.sampler_logprobs, terms.weights, terms.rows, logprobs)


class MLXWeights:
    """Trainable weights of a model of MLX, on disk and back; see `WeightStore`."""

    def __init__(self, model: MLXModel) -> None:
        self._model = model

    def save(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Write the current weights as safetensors with these metadata."""
        with path.open("wb") as file:  # MLX would give a path another ending
            mx.save_safetensors(file, self._model.trainable(), dict(metadata))

    def load(self, path: Path) -> None:
        """Take the weights of a file."""
        self._take(_read(path))

    def interpolate(self, start: Path, end: Path, alpha: float) -> None:
        """Take start + alpha x (end - start) of the weights of two files."""
        first, last = _read(start), _read(end)
        self._take({name: first[name] + alpha * (last[name] - first[name]) for name in last})

    def _take(self, weights: Weights) -> None:
        self._model.network.update(tree_unflatten(list(weights.items())))
        mx.eval(self._model.network.trainable_parameters())


def _read(path: Path) -> Weights:
    weights: Weights = mx.load(str(path), format="safetensors")
    mx.eval(weights)
    return weights
