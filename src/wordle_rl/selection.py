"""Which of the weights met in training are kept: those that play the validation secrets best.

The test secrets have no say, so what is measured on them afterwards is honest.
"""

from __future__ import annotations

import random
import shutil
import statistics
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_model, save_model
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from wordle_rl.chat import ChatCodec
from wordle_rl.config import ConfigError, SamplingSettings
from wordle_rl.env import Transcript
from wordle_rl.processes import is_first, wait_for_all
from wordle_rl.roller import Arena, transcript_row
from wordle_rl.rollout import Start, play
from wordle_rl.runs import Run, read_object, write_json
from wordle_rl.samplers.base import Sampler
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.trackers import GameBook

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_RECORD_FILE = "best.json"
_WEIGHTS_FILE = "best.safetensors"

Engine = Callable[[SamplingSettings], AbstractContextManager[tuple[Sampler, int | None]]]
"""Opens a sampler that draws as the settings say; with it the longest prompt it takes, None if any."""


class Validation:
    """Plays the validation secrets with a model as it is at the time: greedily, and as it plays in training.

    Args:
        model: The policy.
        codec: Its tokenizer and template.
        arena: Words, prompts, and the validation secrets.
        sampling: How tokens are drawn in training; the random stream is the same each time.
        book: Where sample games of greedy play are put down, other words at every step; None: nowhere.
        sample_games: How many a validation.
        engine: Opens a sampler, and says the longest prompt it takes; None: the model itself plays.

    Raises:
        ConfigError: If there are no validation secrets.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        codec: ChatCodec,
        arena: Arena,
        sampling: SamplingSettings,
        book: GameBook | None = None,
        sample_games: int = 0,
        engine: Engine | None = None,
    ) -> None:
        if not arena.validation:
            raise ConfigError("there are no validation secrets to choose weights by; set validate_every_steps to 0")
        self._model, self._codec, self._arena, self._sampling = model, codec, arena, sampling
        self._book, self._sample_games = book, sample_games
        self._open = engine or self._itself

    def __call__(self, step: int) -> dict[str, float]:
        """Shares of games won, 0 to 1, and the `cost`: mean guesses over both kinds of play, a loss as one more than
        the game allows. Greedy play alone hardly moves in RL, and what chance does to it would decide.

        Args:
            step: Of the training; it draws which games are put down.
        """
        greedy = self._play(self._sampling.model_copy(update={"temperature": 0.0}))
        sampled = self._play(self._sampling)
        if self._book is not None and is_first():
            shown = random.Random(step).sample(greedy, min(self._sample_games, len(greedy)))
            self._book.add("validation", step, map(transcript_row, shown))
        lost = self._arena.prompter.rules.max_turns + 1
        return {
            "greedy_win_rate": statistics.fmean(transcript.won for transcript in greedy),
            "sampled_win_rate": statistics.fmean(transcript.won for transcript in sampled),
            "cost": statistics.fmean(t.turns_used if t.won else lost for t in [*greedy, *sampled]),
        }

    def _play(self, sampling: SamplingSettings) -> list[Transcript]:
        starts = [Start(secret) for secret in self._arena.validation]
        words, prompter = self._arena.words, self._arena.prompter
        with self._open(sampling) as (sampler, budget):
            games = play(starts, words, prompter, sampler, max_prompt_tokens=budget)
        return [game.transcript for game in games]

    def _itself(self, sampling: SamplingSettings) -> AbstractContextManager[tuple[Sampler, None]]:
        return nullcontext((TransformersSampler(self._model, self._codec, sampling), None))


class BestWeights(TrainerCallback):
    """Validates before the first step, every so many steps and at the end; the best weights are taken in the end.

    Of equals the later ones are kept, which have learnt more. The best so far lie on disk, so that a training that
    was stopped goes on with them.

    Args:
        model: The model in training.
        validate: Gives figures at a step; of `cost` less is better, the others are only written down.
        every_steps: How often.
        run: Where the figures go, into metrics.jsonl under the stage `validation`.
        directory: Where the best weights are kept meanwhile.
    """

    def __init__(
        self,
        model: nn.Module,
        validate: Callable[[int], Mapping[str, float]],
        every_steps: int,
        run: Run,
        directory: Path,
    ) -> None:
        self._model, self._validate, self._every_steps = model, validate, every_steps
        self._run, self._directory = run, directory

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Validate what training starts from, unless it goes on from a checkpoint."""
        if state.global_step == 0:
            self._consider(0)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Validate when it is time."""
        if state.global_step % self._every_steps == 0 or state.global_step == state.max_steps:
            self._consider(state.global_step)

    def take_best(self) -> int:
        """Put the best weights into the model, forget them on disk, and say of which step they are."""
        step = int(read_object(self._directory / _RECORD_FILE)["step"])
        load_model(self._model, self._directory / _WEIGHTS_FILE)
        wait_for_all()
        if is_first():
            shutil.rmtree(self._directory)
        return step

    def _consider(self, step: int) -> None:
        figures = dict(self._validate(step))
        if not is_first():
            return
        self._run.append("metrics.jsonl", {"stage": "validation", "step": step, **figures})
        record = self._directory / _RECORD_FILE
        if step and record.is_file() and read_object(record)["cost"] < figures["cost"]:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        save_model(self._model, str(self._directory / _WEIGHTS_FILE))
        write_json(record, {"step": step, "cost": figures["cost"]})
