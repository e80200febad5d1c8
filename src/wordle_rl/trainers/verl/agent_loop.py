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

from wordle_rl.boards import InitialState
from wordle_rl.chat.masks import mask_without_overlong
from wordle_rl.data.game_record import GameRecord
from wordle_rl.rollout import Trajectory
from wordle_rl.train.scored_games import Scored
from wordle_rl.trainers.verl.play import RunGames, run_games

# A loop is made for every game, and for each verl would warn that it does not know a model that is not asked about.
logging.getLogger("verl.utils.tokenizer.continuous_token_wiring").setLevel(logging.ERROR)


class GameOutput(AgentLoopOutput):
    """verl's record of a trajectory, with the reward of each own turn and the place of its last token."""

    turn_ends: list[int] = []  # noqa: RUF012  # pydantic copies it
    turn_rewards: list[float] = []  # noqa: RUF012

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that verl stores of a trajectory, with its rewards assigned to the turns."""
        fields: dict[str, Any] = super().as_dict()
        ends, rewards = fields.pop("turn_ends"), fields.pop("turn_rewards")
        scores = torch.zeros(len(self.response_ids), dtype=torch.float32)
        scores[ends] = torch.tensor(rewards)
        fields["rm_scores"] = scores
        return fields


class WordleAgentLoop(AgentLoopBase):
    """One game of Wordle against verl's server. The config of `run_directory` says what is played."""

    def __init__(self, *given: Any, run_directory: str, tool: bool = False, **named: Any) -> None:
        # verl would choose by the type of the model how messages become tokens, which `ChatCodec` does here.
        super().__init__(*given, **{**named, "hf_model_type": None})
        model = str(self.config.actor_rollout_ref.model.path)
        self._games = run_games(Path(run_directory), model, tool=tool)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> GameOutput:
        """Play the game of a row of the data set, under verl's temperature for training or validation."""
        games, secret = self._games, str(row["secret"])
        is_training = row["split"] == "train"
        step, index = int(row["global_steps"]), int(row["index"])
        board = tuple(str(row["prefix_guesses"]).split())
        start = InitialState(secret, board) if board or not is_training else games.start(secret, step, index)
        seconds, facts = 0.0, dict[str, Any]()
        params = {
            **sampling_params,
            "max_tokens": games.config.max_completion_tokens,
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
            # The weights may change while a game is played: keep the lowest and the highest version that played.
            lowest = facts.get("min_global_steps", output.extra_fields.get("min_global_steps"))
            facts.update(output.extra_fields, min_global_steps=lowest)
            if output.log_probs is None:
                raise ValueError("verl's server gives no log-probabilities; set rollout.calculate_log_probs to true")
            return output.token_ids, output.log_probs

        trajectory = await games.play(start, sample, self.rollout_config.response_length)
        return _output(trajectory, games, seconds, facts)


def _output(trajectory: Trajectory, games: RunGames, seconds: float, facts: dict[str, Any]) -> GameOutput:
    reward, (segment,), transcript = games.score(trajectory), trajectory.segments, trajectory.transcript
    mask = list(segment.loss_mask)
    if games.config.grpo.mask_overlong:
        mask = mask_without_overlong(segment, games.codec.stop_ids)
    return GameOutput(
        prompt_ids=list(segment.prompt_ids),
        response_ids=list(segment.token_ids),
        response_mask=mask,
        response_logprobs=list(segment.sampler_logprobs),
        reward_score=reward.total,
        turn_ends=[stop - 1 for _, _, stop in segment.spans],
        turn_rewards=list(reward.turn_rewards),
        num_turns=len(transcript.turns),
        metrics=AgentLoopMetrics(generate_sequences=seconds),
        extra_fields={
            **facts,
            "scored": pickle.dumps(Scored(trajectory, reward, ())),  # on its way verl makes dicts of dataclasses
            "reward_extra_info": {  # what verl logs beside the reward; the game as the row of games.jsonl
                **{f"component/{name}": value for name, value in reward.values.items()},
                "won": float(transcript.won),
                "guesses": float(transcript.turns_used + (not transcript.won)),
                "secret": transcript.secret,
                "game": json.dumps(GameRecord.of(transcript, reward).to_row()),
            },
        },
    )
