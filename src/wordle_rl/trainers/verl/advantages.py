"""Turn and guess credit as advantage estimators of verl, registered when this is imported.

verl's own estimators know one number a game. These find a game's turns in the loss mask, whose runs of ones they are,
and hand the rewards of each group to `train.advantages`, so that both trainers credit turns by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch
from verl.trainer.ppo.core_algos import register_adv_est

from wordle_rl.train.advantages import find_credit

ESTIMATORS: Mapping[str, str] = MappingProxyType({"turn": "wordle_turn", "guess": "wordle_guess"})
"""Credit -> name of the estimator. Game credit is verl's own, `grpo`."""


def turns_of(loss_mask: Sequence[float]) -> list[tuple[int, int]]:
    """Return the begin and end of each run of ones.

    Examples:
        >>> turns_of([0, 1, 1, 0, 0, 1])
        [(1, 3), (5, 6)]
    """
    padded = [0, *loss_mask, 0]
    edges = [place for place, (before, after) in enumerate(pairwise(padded)) if bool(before) != bool(after)]
    return list(zip(edges[::2], edges[1::2], strict=True))


def credited(
    credit: str, rewards: torch.Tensor, loss_mask: torch.Tensor, index: Sequence[Hashable], *, scale: bool
) -> torch.Tensor:
    """Return the advantage of every token, 0 off the mask.

    Args:
        credit: `turn`, `guess` or `game`.
        rewards: Reward of each token, shape (games, tokens). What stands on the tokens of a turn is the turn's.
        loss_mask: 1 on sampled tokens, same shape. Rows without any are padding.
        index: Group of each row.
        scale: Divide by the standard deviation of the group's rewards.
    """
    turns = [turns_of(row) for row in loss_mask.tolist()]
    groups: dict[Hashable, list[int]] = {}
    for row, group in enumerate(index):
        if turns[row]:
            groups.setdefault(group, []).append(row)
    advantages = torch.zeros_like(rewards)  # (games, tokens)
    for rows in groups.values():
        turn_rewards = [tuple(float(rewards[row, a:b].sum()) for a, b in turns[row]) for row in rows]
        for row, values in zip(rows, find_credit(credit)(turn_rewards, scale=scale), strict=True):
            for (start, stop), value in zip(turns[row], values, strict=True):
                advantages[row, start:stop] = value
    return advantages


def _estimator(credit: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def estimate(
        token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # Returns, the second value, are only for a critic.
        scale = bool(config is not None and config.get("norm_adv_by_std_in_grpo", True))
        values = credited(credit, token_level_rewards, response_mask, list(index), scale=scale)
        return values, values

    return estimate


for _credit, _name in ESTIMATORS.items():
    register_adv_est(_name)(_estimator(_credit))
