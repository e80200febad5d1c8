"""Games as verl's workers play them: made once a process from the run's config, asked of a server turn by turn."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Self

from transformers import AutoTokenizer

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import GRPOTraining, RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import stored_config
from wordle_rl.policy.loading import load_codec
from wordle_rl.reward import RewardBreakdown, Rubric
from wordle_rl.rollout import InitialState, SampleTokens, Trajectory, open_game, play_tokens
from wordle_rl.train.starts import PrefixGuesses
from wordle_rl.trainers.verl.tool import ToolCodec, ToolPrompter


@dataclass(frozen=True)
class RunGames:
    """What the games of a run share."""

    config: RunConfig
    context: GameContext
    codec: ChatCodec
    rubric: Rubric

    @classmethod
    def of(cls, config: RunConfig, model: str, *, tool: bool = False) -> Self:
        """Make it from a config and the trained model, a directory or a name; with `tool`, guesses are tool calls."""
        context = GameContext.of(config).for_training
        if tool:
            tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
            codec: ChatCodec = ToolCodec(tokenizer, config.model.template_kwargs)
            context = replace(context, prompter=ToolPrompter(**vars(context.prompter)))
        else:
            codec = load_codec(config.model.model_copy(update={"path": model}))[0]
        return cls(config, context, codec, config.rl.reward.schedule().rubric())

    @property
    def training(self) -> GRPOTraining:
        """Settings of the training."""
        training = self.config.training
        assert isinstance(training, GRPOTraining)
        return training

    def start(self, secret: str, step: int, index: int) -> InitialState:
        """Return the initial state of a training group: of the secret in row `index`, after `step` optimizer steps."""
        rng = random.Random(f"{self.config.seed}:{step}:{index}")
        return InitialState(secret, self._prefixes(secret, rng))

    @cached_property
    def _prefixes(self) -> PrefixGuesses:
        context, hard_mode = self.context, self.context.prompter.rules.hard_mode
        return PrefixGuesses(context.words, context.solver, self.training.starts, hard_mode=hard_mode)

    async def play(self, start: InitialState, sample: SampleTokens, max_tokens: int) -> Trajectory:
        """Play one game, truncated where it may exceed `max_tokens` after its opening prompt."""
        running = open_game(0, start, self.context.words, self.context.prompter, self.codec)
        budget = len(running.prompt_ids) + max_tokens - self.training.sampling.max_completion_tokens
        return await play_tokens(running, self.codec, sample, budget)

    def score(self, trajectory: Trajectory) -> RewardBreakdown:
        """Reward a finished game."""
        return self.rubric.score(trajectory.transcript, self.context.solver)


@lru_cache(maxsize=2)
def run_games(run_directory: Path, model: str, *, tool: bool = False) -> RunGames:
    """Return the games of a run directory, made once for a process."""
    return RunGames.of(stored_config(run_directory / "config.json"), model, tool=tool)
