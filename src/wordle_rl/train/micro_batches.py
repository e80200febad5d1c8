"""Micro-batches: rows of tokens as tensors for one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig

from wordle_rl.policy.constrain import State, WordConstraint
from wordle_rl.train.example import Example


@dataclass(slots=True)
class Batch:
    """A micro-batch of B rows with N trained tokens in all.

    Values of trained tokens are concatenated row by row, so no loss sees padding.

    Attributes:
        input_ids: Token ids, shape (B, T), padded on the right. A causal model never looks there.
        trained: Mask of trained tokens, shape (B, T - 1); column t is about token t + 1.
        targets: Ids of the trained tokens, shape (N,).
        rows: Row of each trained token, shape (N,).
        weights: Weight of each trained token in the loss of the step, shape (N,).
        num_rows: B.
        advantages: Shape (N,); None outside policy gradients.
        sampler_logprobs: Log-probability that each token was drawn with, shape (N,); None outside policy gradients.
        reference_logprobs: Log-probability under the initial weights, shape (N,); None until computed.
        soft_ids: Token ids of each target distribution, shape (N, K), padded with 0; None: targets are single tokens.
        soft_probs: Their probabilities, shape (N, K), padded with 0.
        allowed: Where guesses are limited to listed words: which tokens could follow, shape (S, vocabulary) of bool,
            and for each trained token the row of it, shape (N,). None: all.
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
    allowed: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of(
        cls,
        examples: Sequence[Example],
        row_weights: Sequence[float],
        pad_id: int,
        device: torch.device | str = "cpu",
    ) -> Batch:
        """Build a batch from at least one example; all have advantages, or none.

        If some have target distributions, the tokens of the others become distributions with probability 1.
        `row_weights` has the weight of a trained token in each row.
        """
        width = max(2, *(len(example.token_ids) for example in examples))
        ids = np.full((len(examples), width), pad_id, dtype=np.int64)
        mask = np.zeros((len(examples), width), dtype=np.bool_)
        for row, example in enumerate(examples):
            ids[row, : len(example.token_ids)] = example.token_ids
            mask[row, : len(example.loss_mask)] = example.loss_mask
        trained = mask[:, 1:]  # (B, T - 1): nothing predicts the first token of a row
        rows, _ = np.nonzero(trained)  # (N,), row by row: the order of every boolean selection below

        def tensor(values: np.ndarray | Sequence[float], dtype: torch.dtype | None = None) -> Tensor:
            return torch.as_tensor(values, dtype=dtype, device=device)

        def column(name: str) -> Tensor | None:
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
            soft: list[Sequence[tuple[int, float]]] = []
            for example in examples:
                pairs = zip(example.token_ids[1:], example.loss_mask[1:], strict=True)
                soft += example.soft_targets or [[(token, 1.0)] for token, is_trained in pairs if is_trained]
            most = max(len(target) for target in soft)  # K
            soft_ids = np.zeros((len(soft), most), dtype=np.int64)
            soft_probs = np.zeros((len(soft), most), dtype=np.float32)
            for place, target in enumerate(soft):
                soft_ids[place, : len(target)] = [token for token, _ in target]
                soft_probs[place, : len(target)] = [probability for _, probability in target]
            batch.soft_ids, batch.soft_probs = tensor(soft_ids), tensor(soft_probs)
        return batch


class AllowedTokens:
    """Finds which tokens the sampler could have drawn at each trained token, where guesses are limited to listed words.

    A sampler with a `WordConstraint` gives forbidden tokens probability 0 and shares their mass among the others. A
    loss over all tokens would take ratios to another distribution, and would teach letters that can never be drawn. So
    each reply is followed through the same constraint, and its tokens are scored among the allowed ones.
    """

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


def micro_batches(examples: Sequence[Example], size: int, *, sharing: bool = False) -> list[list[Example]]:
    """Cut the rows of a step into micro-batches of at most `size` rows (0: all in one); the loss stays the same.

    `sharing`: for a learner that computes common prefixes once.
    """
    if sharing:
        ordered = sorted(examples, key=lambda example: tuple(example.token_ids))
    else:
        # Similar lengths save padding. The longest come first, so that running out of memory shows at once.
        ordered = sorted(examples, key=lambda example: -len(example.token_ids))
    size = size or len(ordered) or 1
    return [ordered[first : first + size] for first in range(0, len(ordered), size)]


class TwoHalves(list[list[Example]]):
    """The micro-batches of a step whose gradient is measured: those of one half of its groups, then the others.

    Attributes:
        split: Micro-batches of the first half.
        games: Games of a half.
    """

    def __init__(self, first: list[list[Example]], second: list[list[Example]], games: float) -> None:
        super().__init__([*first, *second])
        self.split, self.games = len(first), games


def cut_by_rows(items: Sequence[Sequence[Example]], most: int) -> list[list[Example]]:
    """Cut items into as few micro-batches of at most `most` rows (0: all in one) as their order allows, evenly filled.

    The rows of an item stay together. The largest micro-batch needs the most memory, so it is as small as can be.

    Examples:
        >>> row = FILLER
        >>> [len(rows) for rows in cut_by_rows([[row] * 3, [row] * 2, [row] * 6, [row]], 6)]
        [5, 6, 1]
        >>> [len(rows) for rows in cut_by_rows([[row]] * 10, 8)]
        [5, 5]
    """
    fewest = len(_filled(items, most))
    total = sum(map(len, items))
    limits = range(-(-total // fewest), most) if fewest else ()
    even = (batches for limit in limits if len(batches := _filled(items, limit)) == fewest)
    return next(even, None) or _filled(items, most)


def _filled(items: Sequence[Sequence[Example]], most: int) -> list[list[Example]]:
    batches: list[list[Example]] = []
    for item in items:
        if batches and (not most or len(batches[-1]) + len(item) <= most):
            batches[-1] += item
        else:
            batches.append([*item])
    return batches


FILLER = Example([0, 0], [0, 0], [0.0, 0.0], [0.0, 0.0])
"""A row with no trained token, for processes that have fewer micro-batches than others."""
