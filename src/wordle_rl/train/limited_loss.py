"""Guesses limited to listed words, in the loss: which tokens the sampler could have drawn at each trained token.

A sampler with a `WordConstraint` gives forbidden tokens probability 0 and shares their mass among the others. A loss
over all tokens would take ratios to another distribution, and would teach letters that can never be drawn. So the
learner follows each reply through the same constraint, and scores its tokens among the allowed ones.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig

from wordle_rl.policy.constrain import State, WordConstraint
from wordle_rl.train.micro_batches import Batch


class AllowedTokens:
    """Finds the allowed tokens of the trained tokens of a micro-batch."""

    def __init__(self, constraint: WordConstraint, config: PreTrainedConfig) -> None:
        self._constraint = constraint
        self._vocabulary = int(config.get_text_config().vocab_size)

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the `allowed` of a batch."""
        constraint = self._constraint
        rows_of: dict[State | None, int] = {}  # the row of each state that occurs
        mask_of: list[int] = []
        for ids, trained in zip(batch.input_ids.tolist(), batch.trained.tolist(), strict=True):
            state: State | None = constraint.start
            inside = False
            for token, is_trained in zip(ids[1:], trained, strict=True):
                if not is_trained:
                    inside = False  # between two replies there is always a message
                    continue
                if not inside:
                    state, inside = constraint.start, True
                mask_of.append(rows_of.setdefault(state, len(rows_of)))
                state = constraint.after(state, token)
        masks = np.ones((max(1, len(rows_of)), self._vocabulary), dtype=np.bool_)
        for state, row in rows_of.items():
            allowed = constraint.allowed(state)
            if allowed is not None:
                masks[row] = False
                masks[row, allowed] = True
        device = batch.input_ids.device
        return torch.from_numpy(masks).to(device), torch.tensor(mask_of, dtype=torch.long, device=device)
