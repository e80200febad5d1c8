"""Examples as tensors: a micro-batch, laid out for one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wordle_rl.data.dataset import Example


@dataclass(slots=True)
class Batch:
    """A micro-batch: B rows of tokens, N of which are trained on.

    Values of trained tokens are laid end to end, row by row.

    Attributes:
        input_ids: Shape (B, T), padded on the right, where no token of a causal model looks.
        trained: Which tokens after the first of their row are trained on, shape (B, T - 1).
        targets: Their ids, shape (N,).
        rows: The row of each, shape (N,).
        weights: Each token's share in the loss of the step, shape (N,).
        num_rows: B.
        advantages: Of each token, shape (N,); None outside of policy gradients.
        sampler_logprobs: What each was drawn with, shape (N,); None outside of policy gradients.
        reference_logprobs: Under the weights that training began with, shape (N,); None until they are computed.
        soft_ids: Tokens of each target distribution, shape (N, K), filled up with 0; None: targets are tokens.
        soft_probs: Their probabilities, shape (N, K), filled up with 0.
    """

    input_ids: Tensor
    trained: Tensor
    targets: Tensor
    rows: Tensor
    weights: Tensor
    num_rows: int
    advantages: Tensor | None = None
    sampler_logprobs: Tensor | None = None
    reference_logprobs: Tensor | None = None
    soft_ids: Tensor | None = None
    soft_probs: Tensor | None = None

    @classmethod
    def of(
        cls,
        examples: Sequence[Example],
        row_weights: Sequence[float],
        pad_id: int,
        device: torch.device | str = "cpu",
    ) -> Batch:
        """Lay examples out.

        Args:
            examples: At least one. Either all have advantages, or none. Where some have target distributions, those of
                the others are certain of their tokens.
            row_weights: Weight of a trained token of each.
            pad_id: Fills rows up.
            device: Where the tensors go.
        """
        width = max(2, *(len(example.token_ids) for example in examples))
        ids = np.full((len(examples), width), pad_id, dtype=np.int64)
        mask = np.zeros((len(examples), width), dtype=np.bool_)
        for row, example in enumerate(examples):
            ids[row, : len(example.token_ids)] = example.token_ids
            mask[row, : len(example.loss_mask)] = example.loss_mask
        trained = mask[:, 1:]  # nothing predicts the first token of a row
        rows, _ = np.nonzero(trained)

        def tensor(values: np.ndarray | Sequence[float], dtype: torch.dtype | None = None) -> Tensor:
            return torch.as_tensor(values, dtype=dtype, device=device)

        def column(name: str) -> Tensor | None:
            """The values of the trained tokens in a column of the examples; None if they have none."""
            if not any(len(getattr(example, name)) for example in examples):
                return None
            padded = np.zeros((len(examples), width), dtype=np.float32)
            for row, example in enumerate(examples):
                values = getattr(example, name)
                padded[row, : len(values)] = values
            return tensor(padded[:, 1:][trained])

        batch = cls(
            input_ids=tensor(ids),
            trained=tensor(trained),
            targets=tensor(ids[:, 1:][trained]),
            rows=tensor(rows),
            weights=tensor(np.asarray(row_weights, dtype=np.float32)[rows]),
            num_rows=len(examples),
            advantages=column("advantages"),
            sampler_logprobs=column("sampler_logprobs"),
        )
        if any(example.soft_targets for example in examples):
            soft = [target for example in examples for target in example.soft_targets or _certain(example)]
            most = max(len(target) for target in soft)
            soft_ids = np.zeros((len(soft), most), dtype=np.int64)
            soft_probs = np.zeros((len(soft), most), dtype=np.float32)
            for place, target in enumerate(soft):
                soft_ids[place, : len(target)] = [token for token, _ in target]
                soft_probs[place, : len(target)] = [probability for _, probability in target]
            batch.soft_ids, batch.soft_probs = tensor(soft_ids), tensor(soft_probs)
        return batch


def _certain(example: Example) -> list[list[tuple[int, float]]]:
    """The trained tokens of an example as distributions."""
    pairs = zip(example.token_ids[1:], example.loss_mask[1:], strict=True)
    return [[(token, 1.0)] for token, is_trained in pairs if is_trained]


def micro_batches(examples: Sequence[Example], size: int, *, sharing: bool = False) -> list[list[Example]]:
    """Cut the rows of a step into micro-batches of at most `size` rows; a step's loss does not depend on how.

    Args:
        examples: The rows.
        size: 0: one micro-batch.
        sharing: Put rows that begin alike side by side, for a learner that computes common prefixes once. Otherwise
            rows of similar length share a micro-batch, which saves padding; the longest come first, so that a lack of
            memory shows at once.
    """
    if sharing:
        ordered = sorted(examples, key=lambda example: tuple(example.token_ids))
    else:
        ordered = sorted(examples, key=lambda example: -len(example.token_ids))
    size = size or len(ordered)
    return [ordered[first : first + size] for first in range(0, len(ordered), size)]


FILLER = Example([0, 0], [0, 0], [0.0, 0.0], [0.0, 0.0])
"""A row without a loss, whichever it is, for processes that have fewer micro-batches than others."""
