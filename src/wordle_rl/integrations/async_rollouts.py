"""Our games in the process that TRL's asynchronous trainer keeps beside itself to ask a vLLM server for tokens."""

from __future__ import annotations

import random
import time
import uuid
from pathlib import Path
from typing import Any

from trl.import_utils import suppress_experimental_warning

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.models.loading import load_codec
from wordle_rl.rollout import InitialState, Segment, Trajectory, mask_without_overlong, open_game, play_tokens
from wordle_rl.runs import append_jsonl
from wordle_rl.train.prefix_guesses import PrefixGuesses

with suppress_experimental_warning():
    from trl.experimental.async_grpo.async_rollout_worker import (
        AsyncRolloutWorker,
        TrainingSequence,
        _AsyncRolloutLoop,
    )

_NO_DRIFT = {"clean": 0.0, "realign": 0.0, "fork": 0.0, "transitions": 0.0, "drift_tokens": 0.0, "drift_max": 0.0}


class WordleRolloutLoop(_AsyncRolloutLoop):
    """TRL's loop over a server, in a process of its own, with one of our games where TRL would call tools.

    Args:
        config: Every setting.
        run_directory: Where a model of SFT is, and where the secrets are written down.
        max_length: The most tokens the server takes, a reply included.
        given: What TRL's loop takes besides.
    """

    _provides_rollout_reward = True

    def __init__(self, *, config: RunConfig, run_directory: Path, max_length: int, **given: Any) -> None:
        self.config, self._run_directory = config, run_directory
        context = GameContext.of(config).for_training
        self.words, self.prompter = context.words, context.prompter
        self.codec = start_codec(config, run_directory)
        self._solver = context.solver
        hard_mode = self.prompter.rules.hard_mode
        self._prefixes = PrefixGuesses(self.words, self._solver, config.rl.starts, hard_mode=hard_mode)
        self._rubric = config.rl.reward.schedule().rubric()
        self._max_prompt_tokens = max_length - config.max_completion_tokens
        # TRL wants to know how tool calls are read from a reply; there are none.
        self.codec.tokenizer.response_template = {}
        stops = sorted(self.codec.stop_ids)
        super().__init__(processing_class=self.codec.tokenizer, eos_token_ids=stops, reward_funcs=[], **given)
        self.reward_func_names.append("game")

    async def _generate_one(
        self,
        prompt: list[dict[str, str]],
        tool_dict: dict[str, Any],  # noqa: ARG002  # TRL's signature
        tools: list[Any],  # noqa: ARG002
        group_id: int = 0,
    ) -> tuple[list[dict[str, str]], list[int], list[TrainingSequence], int, int, float | None]:
        """Play one game; a row's prompt is its secret, which the model never sees."""
        started = time.monotonic()
        secret, version = prompt[-1]["content"], self.model_version
        trajectory = await self._game(self._start(secret, group_id))
        row = {"stage": "grpo", "step": version, "process": 0, "secrets": [secret]}
        append_jsonl(self._run_directory / "secrets.jsonl", row)
        reward = self._rubric.score(trajectory.transcript, self._solver)
        rollout_id = uuid.uuid4().hex
        sequences = [self._sequence(segment, rollout_id) for segment in trajectory.segments]
        said = [
            token
            for segment in trajectory.segments
            for token, m in zip(segment.token_ids, segment.loss_mask, strict=True)
            if m
        ]
        replies = [turn.reply for turn in trajectory.transcript.own_turns]
        self._push_rollout_metrics(
            turns=len(replies),
            sequences=len(sequences),
            completion_ids=said,
            tally=_NO_DRIFT,
            loop_exhausted=False,
            duration_s=time.monotonic() - started,
        )
        won = float(trajectory.transcript.won)
        self._rates["win_rate"][0] += won
        self._rates["win_rate"][1] += 1.0
        messages = [{"role": "assistant", "content": reply} for reply in replies]
        return messages, said, sequences, 0, 0, reward.total

    def _start(self, secret: str, group_id: int) -> InitialState:
        """Initial state of a group's games."""
        rng = random.Random(f"{self.config.seed}:{group_id}")
        return InitialState(secret, self._prefixes(secret, rng))

    async def _game(self, start: InitialState) -> Trajectory:
        """One game, asked of the server turn by turn, its tokens as they were sampled."""
        running = open_game(0, start, self.words, self.prompter, self.codec)
        return await play_tokens(running, self.codec, self._generate_one_turn, self._max_prompt_tokens)

    def _sequence(self, segment: Segment, rollout_id: str) -> TrainingSequence:
        """A row as TRL trains it: prompt and game in one, 1 in the mask on what was sampled."""
        mask = list(segment.loss_mask)
        if self.config.grpo.mask_overlong:
            mask = mask_without_overlong(segment, self.codec.stop_ids)
        before = len(segment.prompt_ids)
        return TrainingSequence(
            input_ids=[*segment.prompt_ids, *segment.token_ids],
            completion_mask=[0] * before + mask,
            old_log_probs=[0.0] * before + list(segment.sampler_logprobs),
            rollout_id=rollout_id,
        )


class WordleRolloutWorker(AsyncRolloutWorker):
    """Starts and stops the process of a `WordleRolloutLoop`, and hands its games to the trainer."""

    _loop_cls = WordleRolloutLoop


def start_codec(config: RunConfig, run_directory: Path) -> ChatCodec:
    """Tokenizer and chat template of the model that GRPO starts from."""
    return load_codec(config.start_settings(run_directory))[0]
