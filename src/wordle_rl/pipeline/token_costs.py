"""Arithmetic of time: the tokens of a GRPO step and of an SFT epoch, times the seconds that a token takes.

    rollout    groups x (1 + redrawn) x (P p + n (F p + S d))
    logprobs   scorings x groups x n x L p
    training   groups x n x L t + k L p
    update     u
    epoch      games x L s

n games a group; P tokens of the prompt, which a group reads once; F tokens of feedback and S sampled ones of a game,
L = P + F + S; k games are also scored by the policy of the start, whose divergence is logged. p, d, t, s: seconds a
token takes to be read, sampled, trained on in GRPO and in SFT; u: seconds of the optimizer. The costs are measured by
`pipeline.cost_probe`, come from a GPU's data sheet (`gpu_costs`), or are given.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wordle_rl.config import GRPOTraining

PARTS = ("rollout", "logprobs", "training", "update")
"""Parts of a GRPO step whose time is that of tokens, in their order."""
GAMES_SCORED_BY_START = 64
"""At most this many games a step are scored by the policy of the start, unless a penalty does so for all of them."""
BYTES_OF_AN_UPDATE = 28
"""Bytes a parameter that Adam reads (weight, gradient, two moments) and writes (all but the gradient), in float32."""


@dataclass(frozen=True, slots=True)
class GameTokens:
    """Mean tokens of a game: of its first prompt, of a reply, and of what is read between two replies."""

    prompt: float
    turns: float
    reply: float
    feedback: float

    @property
    def sampled(self) -> float:
        """Tokens that the policy sampled."""
        return self.turns * self.reply

    @property
    def fed_back(self) -> float:
        """Tokens of feedback; none follows the last turn."""
        return (self.turns - 1) * self.feedback

    @property
    def length(self) -> float:
        """All tokens.

        Examples:
            >>> GameTokens(prompt=10, turns=4, reply=8, feedback=6).length
            60
        """
        return self.prompt + self.fed_back + self.sampled


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """Seconds that one token takes, with as many games at once as the costs were taken for.

    Attributes:
        prefill_s: To be read, without a gradient.
        decode_s: To be sampled.
        training_s: Forward and backward in GRPO.
        sft_s: Forward, backward and optimizer in SFT.
        update_s: Of an optimizer step, however many tokens it has.
    """

    prefill_s: float
    decode_s: float
    training_s: float
    sft_s: float
    update_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StepSize:
    """Games of a GRPO step.

    Attributes:
        groups: Groups that are trained on.
        group_size: Games of each.
        redrawn: Fraction of the groups that are played a second time, since all their games earned the same.
        scorings: Forward passes over all tokens beside training: for a reference, for importance ratios.
        scored_by_start: Games that the policy of the start scores.
    """

    groups: int
    group_size: int
    redrawn: float = 0.0
    scorings: int = 0
    scored_by_start: int = 0

    @classmethod
    def of(cls, grpo: GRPOTraining, redrawn: float = 0.0) -> StepSize:
        """The games of a step under these settings."""
        scorings = int(grpo.beta > 0) + int(grpo.importance_cap > 0)
        together = grpo.micro_batch_size or grpo.groups_per_step * grpo.group_size
        by_start = 0 if grpo.beta else min(GAMES_SCORED_BY_START, together)
        return cls(grpo.groups_per_step, grpo.group_size, redrawn, scorings, by_start)


def grpo_step_seconds(costs: TokenCosts, game: GameTokens, step: StepSize) -> dict[str, float]:
    """Seconds of each of `PARTS`. Rewards, probes, validations and checkpoints come on top.

    Examples:
        >>> costs = TokenCosts(prefill_s=0.001, decode_s=0.01, training_s=0.003, sft_s=0.003, update_s=0.5)
        >>> game = GameTokens(prompt=10, turns=4, reply=8, feedback=6)
        >>> grpo_step_seconds(costs, game, StepSize(groups=2, group_size=4))
        {'rollout': 2.724, 'logprobs': 0.0, 'training': 1.44, 'update': 0.5}
    """
    of_a_game = game.fed_back * costs.prefill_s + game.sampled * costs.decode_s
    of_a_group = game.prompt * costs.prefill_s + step.group_size * of_a_game
    tokens = step.groups * step.group_size * game.length
    return {
        "rollout": step.groups * (1 + step.redrawn) * of_a_group,
        "logprobs": step.scorings * tokens * costs.prefill_s,
        "training": tokens * costs.training_s + step.scored_by_start * game.length * costs.prefill_s,
        "update": costs.update_s,
    }


def sft_epoch_seconds(costs: TokenCosts, games: int, tokens_per_game: float) -> float:
    """Seconds of a pass over teacher games."""
    return games * tokens_per_game * costs.sft_s


def played_tokens(row: Mapping[str, Any], prompt: float, feedback: float, max_turns: int) -> GameTokens:
    """Tokens of the games of a step, from its row of metrics.jsonl.

    A game has a turn more for each turn by which it is not won, so the mean number of turns is one more than the sum
    of `1 - win_rate_by_turn` over all but the last.
    """
    open_after = (1 - row[f"win_rate_by_turn/{turn}"] for turn in range(1, max_turns))
    return GameTokens(prompt, 1 + sum(open_after), row["reply_tokens"], feedback)


def measured_seconds(row: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of each of `PARTS` in a row of metrics.jsonl."""
    return {
        "rollout": row["seconds/rollout"],
        "logprobs": row["seconds/logprobs"],
        "training": row["seconds/forward"] + row["seconds/backward"],
        "update": row["seconds/update"],
    }


@dataclass(frozen=True, slots=True)
class Comparison:
    """A part of a step or an epoch, as predicted and as measured, in seconds."""

    part: str
    predicted_s: float
    measured_s: float

    @property
    def ratio(self) -> float:
        """Predicted over measured; infinite where nothing was measured."""
        return self.predicted_s / self.measured_s if self.measured_s else float("inf")


def compare_steps(
    rows: Sequence[Mapping[str, Any]], costs: TokenCosts, step: StepSize, prompt: float, feedback: float, max_turns: int
) -> list[Comparison]:
    """Compare the costs with the steps of a run, by medians over its steps.

    Turns, tokens of a reply and groups of equal reward are each step's own; `step.redrawn` of these are played again. A
    step that probes every secret is left out. `logprobs` is compared where there is a scoring; without one it is not a
    time of tokens.

    Raises:
        ValueError: If there is no step to compare with.
    """
    steps = [row for row in rows if row.get("stage") == "grpo" and "seconds/rollout" in row]
    plain = [row for row in steps if "scouted_win_rate" not in row]
    if not plain:
        raise ValueError(
            f"metrics.jsonl has {len(steps)} steps of GRPO with times, each with a probe of all secrets; compare with "
            "a run that has a step without one"
        )
    predicted, measured = [], []
    for row in plain:
        game = played_tokens(row, prompt, feedback, max_turns)
        own = replace(step, redrawn=row["zero_variance_share"] * step.redrawn)
        predicted.append(grpo_step_seconds(costs, game, own))
        measured.append(measured_seconds(row))
    parts = [part for part in PARTS if part != "logprobs" or step.scorings]
    found = [
        Comparison(part, statistics.median(p[part] for p in predicted), statistics.median(m[part] for m in measured))
        for part in parts
    ]
    whole = [statistics.median(sum(one[part] for part in parts) for one in each) for each in (predicted, measured)]
    return [*found, Comparison("step", *whole)]


def compare_epoch(
    rows: Sequence[Mapping[str, Any]], costs: TokenCosts, games: int, tokens_per_game: float
) -> Comparison | None:
    """Compare the cost of SFT with a run's epoch; None if fewer than two of its steps were logged."""
    steps = [row for row in rows if row.get("stage") == "sft" and "loss" in row]
    if len(steps) < 2:
        return None
    first, last = steps[0], steps[-1]
    measured = (last["seconds"] - first["seconds"]) / (last["epoch"] - first["epoch"])
    return Comparison("SFT epoch", sft_epoch_seconds(costs, games, tokens_per_game), measured)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU's data sheet, and the fractions of it that are reached.

    Attributes:
        flops: Dense bfloat16 operations a second.
        bandwidth: Bytes a second of its memory.
        training_utilisation: Fraction of `flops` in forward and backward.
        prefill_utilisation: The same where tokens are read.
        bandwidth_utilisation: Fraction of `bandwidth` where tokens are sampled.
    """

    flops: float = 989e12
    bandwidth: float = 3.35e12
    training_utilisation: float = 0.4
    prefill_utilisation: float = 0.5
    bandwidth_utilisation: float = 0.6


def gpu_costs(
    gpu: Gpu, parameters: int, cache_bytes: int, game: GameTokens, *, gpus: int, games_at_once: int
) -> TokenCosts:
    """Costs of a model on GPUs by arithmetic: nothing is measured.

    A token takes 6 operations a parameter in training and 2 where it is read; attention is left out. A pass that
    samples one token of every game reads the weights in bfloat16 and the caches of the games, half grown on average.

    Args:
        gpu: What one of them does.
        parameters: Of the model.
        cache_bytes: Of one token in the key/value cache.
        game: Its tokens.
        gpus: Their number; each serves the model by itself, and training is shared.
        games_at_once: Games in play on each.
    """
    training_s = 6 * parameters / (gpu.flops * gpu.training_utilisation) / gpus
    prefill_s = 2 * parameters / (gpu.flops * gpu.prefill_utilisation)
    bandwidth = gpu.bandwidth * gpu.bandwidth_utilisation
    context = (game.prompt + game.length) / 2
    pass_s = (2 * parameters + games_at_once * context * cache_bytes) / bandwidth
    decode_s = max(pass_s / games_at_once, prefill_s)
    update_s = BYTES_OF_AN_UPDATE * parameters / bandwidth / gpus
    return TokenCosts(prefill_s / gpus, decode_s / gpus, training_s, training_s, update_s)
