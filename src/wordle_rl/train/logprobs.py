"""Log-probabilities of the trained tokens of a micro-batch, and of no others.

Two things make a step cheap:

- Rows of a batch begin alike (the prompt, the opener, in a group often the first marks). A common prefix is computed
  once.
- Only trained tokens need logits. The body of the model runs on all tokens, the head only where a trained token is
  predicted, one piece at a time. With a vocabulary of 150,000, all logits at once would not fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from wordle_rl.policy.adapters import has_adapters
from wordle_rl.train.prefix_sharing import (
    attending_to_tree,
    share_prefixes,
    takes_prefix_tree,
)

if TYPE_CHECKING:
    from wordle_rl.train.micro_batches import Batch

PIECE_BYTES = 1 << 28
"""Most bytes of float32 logits to hold at once."""
_NODES = 32
"""Pad lists of nodes to a multiple of this, so that fewer different lengths need kernels of their own."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of each trained token, shape (N,), float32.

    Attributes:
        logprobs: Log-probability of the target, or the expectation under a target distribution.
        entropies: Entropy of the policy in nats; no gradient.
        right: 1 where the target is the likeliest token; no gradient.
    """

    logprobs: Tensor
    entropies: Tensor
    right: Tensor


class Scorer(nn.Module):
    """The module that DDP and FSDP wrap: its forward pass computes the `Scores` of a micro-batch.

    Args:
        bf16: Compute under bfloat16 autocast.
        temperature: Divide logits by this, as in sampling.
        checkpointing: Compute layers again in the backward pass to save memory.
        compiled: Compile each layer with torch.compile. Prefixes are then not shared, since the shape of a prefix tree
            differs from step to step.
        unknown: Token ids that the sampler never draws, see `ChatCodec.unknown_ids`.
        sharded: The weights will be sharded by FSDP. It gathers them when a module is called, and all processes must
            call the modules in the same order. So each module is called once, and prefixes are not shared.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        bf16: bool = False,
        temperature: float = 1.0,
        checkpointing: bool = False,
        compiled: bool = False,
        sharded: bool = False,
        unknown: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.model = model
        self._bf16, self._temperature, self._sharded = bf16, temperature, sharded
        if checkpointing:
            # transformers before 5.23 has only the old name; later versions warn about it.
            name = "activation_checkpointing_enable"
            enable: Any = getattr(model, name if hasattr(model, name) else "gradient_checkpointing_enable")
            enable({"use_reentrant": False})
        self._unknown = torch.tensor(unknown, device=model.device) if unknown else None
        whole = model.get_base_model() if has_adapters(model) else model  # type: ignore[operator]  # peft's
        if compiled:
            compile_layers(whole)
        sharing = not (sharded or checkpointing or compiled)
        # As attributes these modules would be registered, and torch would list their weights twice. A tuple hides them.
        self._parts = (whole, *_body_and_head(whole))
        self.shares_prefixes = sharing and self._agrees_over_a_tree(whole)
        """True if rows that begin alike should share a micro-batch."""
        # Tree attention has no window: every token sees back to the first. Within the window both are the same.
        self._longest_shared = getattr(whole.config.get_text_config(), "sliding_window", None) or math.inf

    # accelerate asks the module that FSDP shards for these three.
    def get_input_embeddings(self) -> nn.Module:
        """Of the model."""
        return self.model.get_input_embeddings()

    def get_output_embeddings(self) -> nn.Module:
        """Of the model."""
        head: nn.Module = self.model.get_output_embeddings()
        return head

    def tie_weights(self) -> None:
        """Of the model."""
        self.model.tie_weights()

    def forward(self, batch: Batch, entropy: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Score the trained tokens; without `entropy`, entropies are zeros.

        Returns the fields of `Scores` as a plain tuple, in which FSDP can find the tensors.
        """
        device = batch.input_ids.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self._bf16):
            if self.shares_prefixes and len(batch.targets) and batch.input_ids.shape[1] <= self._longest_shared:
                return self._over_a_tree(batch, entropy)
            whole, body, head = self._parts
            if head is None:
                states = whole(input_ids=batch.input_ids, use_cache=False).logits  # (B, T, V)
            else:
                states = body(input_ids=batch.input_ids, use_cache=False).last_hidden_state  # (B, T, width)
            return self._scores(states[:, :-1][batch.trained], None, head, batch, entropy)

    def _over_a_tree(self, batch: Batch, entropy: bool) -> tuple[Tensor, Tensor, Tensor]:
        shared = share_prefixes(batch.input_ids, batch.trained, _NODES)
        whole, body, head = self._parts
        inputs: dict[str, Any] = {
            "input_ids": shared.tokens[None],
            "position_ids": shared.positions[None],
            "use_cache": False,
        }
        asked = shared.asked[: shared.num_asked]  # (M,)
        with attending_to_tree(whole, shared):
            if head is None:
                states = whole(**inputs, logits_to_keep=asked).logits[0]  # (M, V)
            else:
                states = body(**inputs).last_hidden_state[0, asked]  # (M, width)
        return self._scores(states, shared.predicted_by, head, batch, entropy)

    def _scores(
        self, states: Tensor, predicted_by: Tensor | None, head: Any, batch: Batch, entropy: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        # states: (M, width), or logits (M, V) if head is None
        # predicted_by: the state that predicts each trained token, (N,); None: state i predicts token i
        if predicted_by is None:
            predicted_by = torch.arange(len(states), device=states.device)
        masks, mask_of = batch.allowed or (None, None)
        targets = (batch.targets, batch.soft_ids, batch.soft_probs, mask_of)
        if self._sharded and head is not None:
            states, head = head(states), None  # one call for all pieces, see `sharded`
        vocabulary = states.shape[1] if head is None else head.weight.shape[0]
        size = tokens_per_piece(vocabulary)
        if len(states) <= size:
            return self._of_piece(head, states, predicted_by, *targets, masks, entropy)
        found = tuple(states.new_zeros(len(predicted_by), dtype=torch.float32) for _ in range(3))
        for first in range(0, len(states), size):
            here = ((predicted_by >= first) & (predicted_by < first + size)).nonzero()[:, 0]  # tokens of this piece
            of_piece = (t if t is None else t[here] for t in targets)
            # Drop the float32 logits of a piece and compute them again in the backward pass.
            values = checkpoint(
                self._of_piece, head, states[first : first + size], predicted_by[here] - first, *of_piece, masks,
                entropy, use_reentrant=False,
            )  # fmt: skip
            found = tuple(whole.index_copy(0, here, part) for whole, part in zip(found, values, strict=True))
        return found  # type: ignore[return-value]  # three of them

    def _of_piece(
        self,
        head: Any,
        states: Tensor,
        by: Tensor,
        targets: Tensor,
        soft_ids: Tensor | None,
        soft_probs: Tensor | None,
        mask_of: Tensor | None,
        masks: Tensor | None,
        entropy: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits = (states if head is None else head(states)).float()  # (M, V)
        if self._temperature != 1:
            logits = logits / self._temperature
        if self._unknown is not None:
            # A finite number: in the entropy, 0 times infinity would not be one.
            logits = logits.index_fill(-1, self._unknown, torch.finfo(logits.dtype).min)
        if masks is not None and mask_of is not None:
            # Tokens that one state predicts follow the same ones, so they share a mask.
            barred = torch.zeros_like(logits, dtype=torch.bool).index_copy(0, by, ~masks[mask_of])
            logits = logits.masked_fill(barred, torch.finfo(logits.dtype).min)
        logits = logits.log_softmax(-1)  # under the name of its input, which nothing needs any more
        if soft_ids is None or soft_probs is None:
            logprobs = logits[by, targets]  # (N,)
        else:
            # sum_v q(v) log p(v); padding has q = 0
            logprobs = (soft_probs * logits[by[:, None], soft_ids]).sum(-1)  # (N,)
        with torch.no_grad():
            right = (logits.argmax(-1)[by] == targets).float()
            entropies = torch.zeros_like(right)
            if entropy:
                entropies = -(logits.exp() * logits).sum(-1)[by]
        return logprobs, entropies, right

    def _agrees_over_a_tree(self, whole: PreTrainedModel) -> bool:
        if not takes_prefix_tree(whole):
            return False
        # A model can change attention in ways its configuration does not show, so compare both ways on a few tokens.
        device = next(whole.parameters()).device
        rows = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 5, 6, 7]], device=device)
        shared = share_prefixes(rows, torch.ones_like(rows[:, 1:], dtype=torch.bool), _NODES)
        was_training = whole.training
        whole.eval()
        with torch.no_grad():
            plain = whole(input_ids=rows, use_cache=False).logits[:, :-1].flatten(0, 1).float()
            with attending_to_tree(whole, shared):
                nodes = whole(
                    input_ids=shared.tokens[None], position_ids=shared.positions[None], use_cache=False
                ).logits[0]  # fmt: skip
        whole.train(was_training)
        found = nodes[shared.asked[: shared.num_asked]][shared.predicted_by].float()
        return _close(found, plain)


def tokens_per_piece(vocabulary: int) -> int:
    """Return the number of tokens whose logits are held at once."""
    return max(64, PIECE_BYTES // (4 * vocabulary))


def compile_layers(model: PreTrainedModel) -> None:
    """Compile each layer of a model in place; weights keep their names."""
    # Layers of one kind share compiled code, so this is much faster than compiling the model. Batches differ in shape;
    # `dynamic` avoids a recompilation for the second one.
    for layer in layers_of(model):
        layer.compile(dynamic=True)


def layers_of(model: PreTrainedModel) -> nn.ModuleList:
    """Return the stack of a model's layers."""
    num_layers = model.config.get_text_config().num_hidden_layers
    return next(
        part for part in model.get_decoder().modules() if isinstance(part, nn.ModuleList) and len(part) == num_layers
    )


def _body_and_head(model: PreTrainedModel) -> tuple[Any, Any]:
    """Return body and head of a model, or (None, None) if the logits are not head(body(tokens)).

    Some models scale or cap what the head returns. For those, all logits are computed by the whole model.
    """
    body, head = model.base_model, model.get_output_embeddings()
    if body is model or head is None:
        return None, None
    seen: dict[str, Tensor] = {}
    hook = head.register_forward_hook(lambda _module, given, made: seen.update(given=given[0], made=made))
    tokens = torch.tensor([[0, 1, 2, 3]], device=next(model.parameters()).device)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=tokens, use_cache=False).logits
        hook.remove()
        states = body(input_ids=tokens, use_cache=False).last_hidden_state
    model.train(was_training)
    plain = bool(seen) and torch.equal(seen["made"].float(), logits.float()) and _close(states, seen["given"])
    return (body, head) if plain else (None, None)


def _close(found: Tensor, expected: Tensor) -> bool:
    tolerance = 1e-3 if expected.dtype is torch.float32 else 0.05  # relative to the largest value
    return bool((found.float() - expected.float()).abs().max() <= tolerance * expected.float().abs().max())
