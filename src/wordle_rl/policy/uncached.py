"""Sampling by transformers' own `generate`, for models that `GameCache` cannot hold.

Linear-attention, state-space and convolution layers (Qwen3.5, LFM2, Granite 4, Nemotron) keep a running summary, and
chunked attention (Llama 4) counts chunks from the first token. Such a state can neither be cut nor continued after
padding, as `GameCache` does with keys and values. So `generate` reads the whole prompt every turn with transformers'
cache for the model. That is slower, but correct for every model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from wordle_rl.policy.sizes import has_keys_and_values

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Choose = Callable[[Tensor], Tensor]
"""Chooses the next token of each row, shape (rows,), from logits, shape (rows, vocabulary)."""


def needs_generate(model: PreTrainedModel) -> bool:
    """True if some layer of the model has no plain keys and values."""
    return not has_keys_and_values(model.config.get_text_config()) or bool(getattr(model, "_is_stateful", False))


def generate(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    stops: Collection[int],
    pad_id: int,
    choose: Choose,
) -> None:
    """Read prompts and let `choose` pick every next token, until each row has stopped or has `max_tokens`.

    `choose` sees all rows at every token, including those that have stopped.
    """
    tokens, alive = left_padded(prompts, pad_id, model.device)
    settings = GenerationConfig(
        max_new_tokens=max_tokens, do_sample=False, eos_token_id=sorted(stops) or None, pad_token_id=pad_id
    )
    with _whole_model(model, settings) as plain:
        plain.generate(
            tokens,
            attention_mask=alive,
            generation_config=settings,
            logits_processor=LogitsProcessorList([_Chosen(choose)]),
        )


def left_padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return rows of token ids padded on the left, and a mask with 1 on tokens; both of shape (rows, longest)."""
    width = max(map(len, rows))
    tokens = [[pad_id] * (width - len(ids)) + [*ids] for ids in rows]
    alive = [[0] * (width - len(ids)) + [1] * len(ids) for ids in rows]
    return torch.tensor(tokens, device=device), torch.tensor(alive, device=device)


class RereadCache:
    """A stand-in for `GameCache` in searches that keeps tokens and reads all of them again every time."""

    def __init__(self, rows: int) -> None:
        self._rows: list[list[int]] = [[] for _ in range(rows)]

    def keep(self, rows: Tensor) -> None:
        """Keep these rows in this order; a row named more than once is copied."""
        self._rows = [[*self._rows[row]] for row in rows.tolist()]

    def read(self, model: PreTrainedModel, tokens: Tensor, alive: Tensor) -> Tensor:
        """Append tokens and return the logits after the last of them, see `next_logits`."""
        for row, new, on in zip(self._rows, tokens.tolist(), alive.tolist(), strict=True):
            row += [token for token, is_token in zip(new, on, strict=True) if is_token]
        found: list[Tensor] = []

        def choose(logits: Tensor) -> Tensor:
            found.append(logits)
            return logits.argmax(-1)

        generate(model, self._rows, 1, (), 0, choose)
        return found[0]


class _Chosen(LogitsProcessor):
    # Leaves one possible token per row, so that greedy search takes the one that `choose` picked.

    def __init__(self, choose: Choose) -> None:
        self._choose = choose

    def __call__(self, _input_ids: Tensor, scores: Tensor) -> Tensor:
        tokens = self._choose(scores.float())
        return torch.full_like(scores, -torch.inf).scatter_(1, tokens[:, None], 0.0)


@contextmanager
def _whole_model(model: PreTrainedModel, settings: GenerationConfig) -> Iterator[Any]:
    unwrapped: Any = getattr(model, "get_base_model", None)
    plain: Any = model if unwrapped is None else unwrapped()
    # A published generation config can set a repetition penalty and the like; sampling must not depend on it.
    published = plain.generation_config
    plain.generation_config = settings
    try:
        yield plain
    finally:
        plain.generation_config = published
