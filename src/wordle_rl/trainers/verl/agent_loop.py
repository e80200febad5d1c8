"""verl's agent loop around one game: tokens as they were sampled, and the reward of each turn where the turn ends.

verl makes a loop for every game and hands it the columns of a row of `dataset`. Its rewards are one number a token; a
game's are all zero but at the last token of each turn, so that their sum is the reward of the game and estimators that
look at turns find them.
"""

from __future__ import annotations

import json
import logging
import pickle
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from wordle_rl.data.game_record import GameRecord
from wordle_rl.reward import RewardBreakdown
from wordle_rl.rollout import InitialState, Segment, Trajectory, mask_without_overlong
from wordle_rl.train.scored_games import Scored
from wordle_rl.trainers.verl.play import RunGames, run_games

# A loop is made for every game, and for each verl would warn that it does not know a model that is not asked about.
logging.getLogger("verl.utils.tokenizer.continuous_token_wiring").setLevel(logging.ERROR)


class GameOutput(AgentLoopOutput):
    """verl's record of a trajectory, with a reward for each turn.

    Attributes:
        turn_ends: Place of the last token of each own turn in the response.
        turn_rewards: Reward of each own turn.
    """

    turn_ends: list[int] = []  # noqa: RUF012  # pydantic copies it
    turn_rewards: list[float] = []  # noqa: RUF012

    def as_dict(self) -> dict[str, Any]:
        """The fields that verl stores of a trajectory, with its rewards assigned to the turns."""
        fields: dict[str, Any] = super().as_dict()
        ends, rewards = fields.pop("turn_ends"), fields.pop("turn_rewards")
        scores = torch.zeros(len(self.response_ids), dtype=torch.float32)
        scores[ends] = torch.tensor(rewards)
        fields["rm_scores"] = scores
        return fields


class WordleAgentLoop(AgentLoopBase):
    """One game of Wordle against verl's server.

    Args:
        run_directory: The run, whose config.json says what is played.
        tool: Guesses are tool calls.
        hf_model_type: Ignored. verl would choose by it how messages become tokens, which `ChatCodec` does here.
        given: What verl hands to every loop.
    """

    def __init__(
        self,
        *given: Any,
        run_directory: str,
        tool: bool = False,
        hf_model_type: str | None = None,  # noqa: ARG002
        **named: Any,
    ) -> None:
        super().__init__(*given, hf_model_type=None, **named)
        model = str(self.config.actor_rollout_ref.model.path)
        self._games: RunGames = run_games(Path(run_directory), model, tool=tool)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> GameOutput:
        """Play the game of a row of the data set.

        Args:
            sampling_params: Temperature and its like, as verl chose them for training or validation.
            row: The columns; `secret` and `split` say what is played.

        Raises:
            ValueError: If the server gives no log-probabilities.
        """
        games, secret = self._games, str(row["secret"])
        is_training = row["split"] == "train"
        step, index = int(row["global_steps"]), int(row["index"])
        start = games.start(secret, step, index) if is_training else InitialState(secret)
        seconds, facts = 0.0, dict[str, Any]()
        params = {
            **sampling_params,
            "max_tokens": games.training.sampling.max_completion_tokens,
            "stop_token_ids": sorted(games.codec.stop_ids),
        }
        request_id = uuid4().hex

        async def sample(prompt_ids: Sequence[int]) -> tuple[Sequence[int], Sequence[float]]:
            nonlocal seconds
            began = time.perf_counter()
            output = await self.server_manager.generate(
                request_id=request_id, prompt_ids=list(prompt_ids), sampling_params=dict(params)
            )
            seconds += time.perf_counter() - began
            _note_versions(facts, output.extra_fields)
            if output.log_probs is None:
                raise ValueError("verl's server gives no log-probabilities; set rollout.calculate_log_probs to true")
            return output.token_ids, output.log_probs

        trajectory = await games.play(start, sample, self.rollout_config.response_length)
        return _output(trajectory, games, seconds, facts)


def _note_versions(facts: dict[str, Any], extra_fields: dict[str, Any]) -> None:
    """Keep what the server says of a completion; of the versions of its weights the lowest and the highest."""
    lowest = facts.get("min_global_steps", extra_fields.get("min_global_steps"))
    facts.update(extra_fields)
    facts["min_global_steps"] = lowest


def _output(trajectory: Trajectory, games: RunGames, seconds: float, facts: dict[str, Any]) -> GameOutput:
    reward, (segment,) = games.score(trajectory), trajectory.segments
    return GameOutput(
        prompt_ids=list(segment.prompt_ids),
        response_ids=list(segment.token_ids),
        response_mask=_loss_mask(segment, games),
        response_logprobs=list(segment.sampler_logprobs),
        reward_score=reward.total,
        turn_ends=[stop - 1 for _, _, stop in segment.spans],
        turn_rewards=list(reward.turn_rewards),
        num_turns=len(trajectory.transcript.turns),
        metrics=AgentLoopMetrics(generate_sequences=seconds),
        extra_fields={
            **facts,
            "scored": pickle.dumps(Scored(trajectory, reward, ())),  # on its way verl makes dicts of dataclasses
            "reward_extra_info": reward_facts(trajectory, reward),
        },
    )


def _loss_mask(segment: Segment, games: RunGames) -> list[int]:
    if games.training.mask_overlong:
        return mask_without_overlong(segment, games.codec.stop_ids)
    return list(segment.loss_mask)


def reward_facts(trajectory: Trajectory, reward: RewardBreakdown) -> dict[str, Any]:
    """The game as verl logs it beside its reward: every component before its weight, the result, the whole board.

    Returns:
        Numbers, and as text the secret and the game in the row form of games.jsonl.
    """
    transcript = trajectory.transcript
    return {
        **{f"component/{name}": value for name, value in reward.values.items()},
        "won": float(transcript.won),
        "guesses": float(transcript.turns_used + (not transcript.won)),
        "secret": transcript.secret,
        "game": json.dumps(GameRecord.of(transcript, reward).to_row()),
    }
