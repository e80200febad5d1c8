"""Checkpoint selection by greedy validation cost; evaluations are greedy, too.

Played are the validation secrets and some training secrets, never the test secrets, so results on those stay unbiased.
Sampled play improves through most of training; greedy play declines if training lasts too long. Weights interpolated
between the start and the end of a training often have most of the gain and none of that loss, so such weights can be
candidates, too, or the only ones.

Source: weights between a start and its fine-tuning, Wortsman et al. 2022, arXiv:2109.01903.
"""

from __future__ import annotations

import random
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, SamplingSettings
from wordle_rl.env import Transcript
from wordle_rl.reward import RewardBreakdown
from wordle_rl.rl.grpo.play import OpenSampler
from wordle_rl.rl.setup import GameSetup, transcript_row
from wordle_rl.rollout import InitialState, play
from wordle_rl.runs import CHOICE_FILE, Run, read_object, write_json
from wordle_rl.runs.distributed import is_first, wait_for_all
from wordle_rl.runs.trackers import GameLog
from wordle_rl.samplers.base import Sampler
from wordle_rl.samplers.transformers import TransformersSampler, without_autocast

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_RECORD_FILE = "best.json"
_WEIGHTS_FILE = "best.safetensors"
_START_FILE = "start.safetensors"
_END_FILE = "end.safetensors"
_TRAIN_PER_VALIDATION = 4
_GAMES_PER_SECRET = 4
"""Sampled games per validation secret; a single one is mostly luck."""
_COSTS = ("greedy_cost", "cost")
"""Criteria by which weights are compared, in this order."""


class Validation:
    """Plays the validation secrets with the current weights: greedily, and sampled as in training.

    It also plays training secrets greedily, four for each validation secret, always the same ones.

    Args:
        model: The policy; None: `open_sampler` knows it.
        codec: Its tokenizer and template.
        setup: Words, prompts, and the validation secrets.
        sampling: How tokens are drawn in training; the random stream is the same each time.
        log: Where sample games of greedy play are written, of other secrets at every step; None: nowhere.
        sample_games: How many per validation.
        open_sampler: Opens the sampler that plays; None: the model itself does, in its own precision.
        reward_of: The reward of a game, written with it; None: no reward is.

    Raises:
        ConfigError: If there are no validation secrets.
    """

    def __init__(
        self,
        model: PreTrainedModel | None,
        codec: ChatCodec,
        setup: GameSetup,
        sampling: SamplingSettings,
        log: GameLog | None = None,
        sample_games: int = 0,
        open_sampler: OpenSampler | None = None,
        reward_of: Callable[[Transcript], RewardBreakdown] | None = None,
    ) -> None:
        if not setup.validation:
            raise ConfigError("there are no validation secrets to choose weights by; set validate_every_steps to 0")
        self._model, self._codec, self._setup, self._sampling = model, codec, setup, sampling
        self._log, self._sample_games = log, sample_games
        self._open_sampler = open_sampler or self._open_model
        self._reward_of = reward_of
        known = [*setup.rehearsal, *setup.secrets]
        count = min(len(known), _TRAIN_PER_VALIDATION * len(setup.validation))
        self._train = random.Random(0).sample(known, count)

    def __call__(self, step: int) -> dict[str, float]:
        """Win rates, 0 to 1, and mean guesses, a loss as one more than the game allows.

        `cost` is that of sampled play on validation secrets, `greedy_cost` that of greedy play on validation and
        training secrets.

        Args:
            step: Of the training; it decides which games are written.
        """
        everything = self._play([*self._setup.validation, *self._train], self._sampling.greedy())
        greedy, trained = everything[: len(self._setup.validation)], everything[len(self._setup.validation) :]
        often = [secret for secret in self._setup.validation for _ in range(_GAMES_PER_SECRET)]
        sampled = self._play(often, self._sampling)
        if self._log is not None and is_first():
            shown = random.Random(step).sample(greedy, min(self._sample_games, len(greedy)))
            reward_of = self._reward_of
            games = ((game, reward_of(game) if reward_of is not None else None) for game in shown)
            self._log.add("validation", step, starmap(transcript_row, games))
        return {
            "greedy_win_rate": statistics.fmean(transcript.won for transcript in greedy),
            "sampled_win_rate": statistics.fmean(transcript.won for transcript in sampled),
            **({"train_win_rate": statistics.fmean(transcript.won for transcript in trained)} if trained else {}),
            "cost": self._cost(sampled),
            "greedy_cost": self._cost(everything),
        }

    def _cost(self, games: Sequence[Transcript]) -> float:
        lost = self._setup.prompter.rules.max_turns + 1
        return statistics.fmean(game.turns_used if game.won else lost for game in games)

    def _play(self, secrets: Sequence[str], sampling: SamplingSettings) -> list[Transcript]:
        starts = [InitialState(secret) for secret in secrets]
        words, prompter = self._setup.words, self._setup.prompter
        with self._open_sampler(sampling, 0) as (sampler, budget):
            games = play(starts, words, prompter, sampler, max_prompt_tokens=budget)
        return [game.transcript for game in games]

    @contextmanager
    def _open_model(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, None]]:
        if self._model is None:
            raise ValueError("a validation without a model needs open_sampler")
        with without_autocast(self._model):  # as evaluation will play
            yield TransformersSampler(self._model, self._codec, sampling, seed), None


class WeightStore(Protocol):
    """The weights that a training changes, on disk and back."""

    def save(self, path: Path) -> None:
        """Write the current weights."""

    def load(self, path: Path) -> None:
        """Take the weights of a file."""

    def interpolate(self, start: Path, end: Path, alpha: float) -> None:
        """Take start + alpha x (end - start) of the weights of two files."""


class TorchWeights:
    """Trainable weights of a torch module, tied ones once."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def save(self, path: Path) -> None:
        """Write the current weights."""
        save_file({name: weight.detach().contiguous() for name, weight in self._named()}, path)

    @torch.no_grad()
    def load(self, path: Path) -> None:
        """Take the weights of a file."""
        stored = load_file(path)
        for name, weight in self._named():
            weight.copy_(stored[name])

    @torch.no_grad()
    def interpolate(self, start: Path, end: Path, alpha: float) -> None:
        """Take start + alpha x (end - start) of the weights of two files."""
        first, last = load_file(start), load_file(end)
        for name, weight in self._named():
            a, b = (tensors[name].to(weight.device, weight.dtype) for tensors in (first, last))
            weight.copy_(torch.lerp(a, b, alpha))

    def _named(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, weight) for name, weight in self._model.named_parameters() if weight.requires_grad)


class BestWeights(TrainerCallback):
    """Validates before the first step, every `every_steps` steps and at the end, and then loads the best weights.

    Ties: lower sampled cost, then the later step. Only trainable weights are stored. The best so far are kept on disk,
    so that a resumed training knows them. A step's weights are validated after its checkpoint, if it has one, so that
    nothing is lost if the validation is interrupted.

    Args:
        weights: The weights in training.
        validate: Gives figures at a step. Lower `greedy_cost` is better, then lower `cost`; the others are only logged.
        every_steps: How often.
        run: Where the figures go, into metrics.jsonl under the stage `validation`, or `blend`.
        directory: Where the best weights are kept during training.
        alphas: Which weights are candidates at the end: start + alpha x (last step - start); the
            start is one in any case, and those of the steps only with 1 among them.
    """

    def __init__(
        self,
        weights: WeightStore,
        validate: Callable[[int], Mapping[str, float]],
        every_steps: int,
        run: Run,
        directory: Path,
        alphas: Sequence[float] = (1.0,),
    ) -> None:
        self._weights, self._validate, self._every_steps = weights, validate, every_steps
        self._run, self._directory = run, directory
        self._between = sorted(alpha for alpha in alphas if alpha < 1)
        self._takes_steps = 1 in alphas
        self._last_validated: int | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Validate the initial weights, unless training resumes from a checkpoint."""
        if state.global_step == 0:
            self.begin()

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Validate the weights of the last step when it is time."""
        if state.global_step:
            self.after(state.global_step)

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Validate the final weights."""
        if state.global_step == state.max_steps:
            self._consider(state.global_step)

    def begin(self) -> None:
        """Validate the initial weights."""
        if self._between and is_first():
            self._keep(_START_FILE)
        self._consider(0)

    def after(self, step: int) -> None:
        """Validate the weights of a step if it is time."""
        if step % self._every_steps == 0:
            self._consider(step)

    def take_best(self, last_step: int) -> int:
        """Load the best weights into the model, which has those of the last step, and return their step."""
        if self._last_validated != last_step:
            self._consider(last_step)
        self._blend(last_step)
        wait_for_all()
        best = read_object(self._directory / _RECORD_FILE)
        self._weights.load(self._directory / _WEIGHTS_FILE)
        if is_first():
            write_json(self._directory.parent / CHOICE_FILE, best)
        return int(best["step"])

    def forget(self) -> None:
        """Remove all stored weights, once the chosen ones are saved elsewhere."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _blend(self, last_step: int) -> None:
        """Try weights between those of the start and those of the last step."""
        if not self._between:
            return
        wait_for_all()
        if is_first():
            self._keep(_END_FILE)
        wait_for_all()
        for alpha in self._between:
            self._weights.interpolate(self._directory / _START_FILE, self._directory / _END_FILE, alpha)
            self._consider(last_step, alpha)

    def _consider(self, step: int, alpha: float = 1.0) -> None:
        figures = dict(self._validate(step))
        self._last_validated = step
        if not is_first():
            return
        percent = round(100 * alpha, 6)
        where = {"stage": "validation", "step": step} if alpha == 1 else {"stage": "blend", "step": percent}
        self._run.append("metrics.jsonl", {**where, **figures})
        record = self._directory / _RECORD_FILE
        if step and alpha == 1 and not self._takes_steps:
            return
        costs = {name: figures[name] for name in _COSTS}
        if step and record.is_file():
            best = read_object(record)
            if [best[name] for name in _COSTS] < list(costs.values()):
                return
        self._keep(_WEIGHTS_FILE)
        write_json(record, {"step": step, "alpha": alpha, **costs})

    def _keep(self, name: str) -> None:
        """Write the current trainable weights to a file, which is replaced at once."""
        self._directory.mkdir(parents=True, exist_ok=True)
        partial = self._directory / f".{name}.partial"
        self._weights.save(partial)
        partial.replace(self._directory / name)
