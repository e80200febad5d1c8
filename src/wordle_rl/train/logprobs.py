"""Log-probabilities of the trained tokens of a micro-batch, and of no others.

Two things make a step cheap. Rows of a batch begin alike (the prompt, the opener, in a group often the first marks), so
a common prefix is computed once. And only trained tokens need logits: hidden states are computed for all tokens, the
head only where a trained token is predicted, a piece at a time, so that over a vocabulary of 150,000 no whole logits
stand in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from wordle_rl.models.adapters import has_adapters
from wordle_rl.train.prefix_attention import attending_to_tree, takes_prefix_tree
from wordle_rl.train.prefixes import share_prefixes
from wordle_rl.train.shared_forward import shared_logits, takes_shared_prefixes

if TYPE_CHECKING:
    from wordle_rl.train.batch import Batch

PIECE_BYTES = 1 << 28
"""Most bytes of float32 logits that are held at once."""
_NODES = 32
"""Lists of nodes are filled up to a multiple of this, which spares kernels for every new length."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Of each trained token, shape (N,), float32.

    Attributes:
        logprobs: Log-probability of the target; where it is a distribution, the expectation under it.
        entropies: Entropy of the policy there, in nats; no gradient.
        right: 1 where the target is the likeliest token; no gradient.
    """

    logprobs: Tensor
    entropies: Tensor
    right: Tensor


class Scorer(nn.Module):
    """A model whose forward pass is a micro-batch's `Scores`; what DDP and FSDP wrap.

    Args:
        model: Any causal language model of transformers, adapters on it included.
        bf16: Compute under bfloat16 autocast.
        temperature: Logits are divided by it, as in sampling.
        checkpointing: Layers are computed again in the backward pass, to save memory.
        compiled: Fuse each layer by torch.compile. Rows are then padded: a prefix tree has another shape at every step.
        sharded: Its weights will be sharded over processes. FSDP gathers them where a module is called, in the same
            order in all processes, so here each module is called once, and prefixes are not shared.
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
    ) -> None:
        super().__init__()
        self.model = model
        self._bf16, self._temperature, self._sharded = bf16, temperature, sharded
        if checkpointing:
            # transformers before 5.23 has the older name alone, later ones warn of it
            name = "activation_checkpointing_enable"
            enable: Any = getattr(model, name if hasattr(model, name) else "gradient_checkpointing_enable")
            enable({"use_reentrant": False})
        whole = model.get_base_model() if has_adapters(model) else model  # type: ignore[operator]  # peft's
        if compiled:
            compile_layers(whole)
        sharing = not (sharded or checkpointing or compiled)
        self._embedded = sharing and takes_shared_prefixes(model)
        # In a tuple, or torch would list their weights twice.
        self._parts = (whole, *_body_and_head(whole))
        self.shares_prefixes = self._embedded or (sharing and self._agrees_over_a_tree(whole))
        """True if rows that begin alike should share a micro-batch."""
        # Over a tree, attention reaches back to the first token; no further than a window that has room for it.
        self._longest_shared = getattr(whole.config.get_text_config(), "sliding_window", None) or math.inf

    # accelerate asks these of the module that FSDP shards
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
        """Score the trained tokens.

        Args:
            batch: The rows.
            entropy: Compute entropies; otherwise they are zeros.

        Returns:
            The fields of `Scores`: a plain tuple, in which FSDP finds the tensors.
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
        shared = share_prefixes(batch.input_ids, batch.trained, 128 if self._embedded else _NODES)
        if self._embedded:
            logits = shared_logits(self.model, shared, torch.bfloat16 if self._bf16 else torch.float32)
            return self._scores(logits, shared.predicted_by, None, batch, entropy)
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
        """Scores of trained tokens, given what predicts them.

        Args:
            states: Hidden states of M places; logits, where there is no head.
            predicted_by: The place that predicts each trained token, shape (N,); None: place i predicts token i.
            head: Makes logits of hidden states; None: they are logits.
            batch: Targets.
            entropy: Compute entropies.
        """
        if predicted_by is None:
            predicted_by = torch.arange(len(states), device=states.device)
        targets = (batch.targets, batch.soft_ids, batch.soft_probs)
        if self._sharded and head is not None:
            states, head = head(states), None
        vocabulary = states.shape[1] if head is None else head.weight.shape[0]
        size = max(64, PIECE_BYTES // (4 * vocabulary))
        if len(states) <= size:
            return self._of_piece(head, states, predicted_by, *targets, entropy)
        found = tuple(states.new_zeros(len(predicted_by), dtype=torch.float32) for _ in range(3))
        for first in range(0, len(states), size):
            here = ((predicted_by >= first) & (predicted_by < first + size)).nonzero()[:, 0]  # tokens of this piece
            of_piece = (t if t is None else t[here] for t in targets)
            # The float32 logits of a piece are dropped and computed again in the backward pass.
            values = checkpoint(
                self._of_piece, head, states[first : first + size], predicted_by[here] - first, *of_piece, entropy,
                use_reentrant=False,
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
        entropy: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits = (states if head is None else head(states)).float()  # (M, V)
        if self._temperature != 1:
            logits = logits / self._temperature
        total = logits.logsumexp(-1)  # (M,)
        if soft_ids is None or soft_probs is None:
            logprobs = logits[by, targets] - total[by]  # (N,)
        else:
            # sum_v q(v) log p(v); the fillers have q = 0
            logprobs = (soft_probs * (logits[by[:, None], soft_ids] - total[by, None])).sum(-1)  # (N,)
        with torch.no_grad():
            right = (logits.argmax(-1)[by] == targets).float()
            entropies = torch.zeros_like(right)
            if entropy:
                entropies = (total - (logits.softmax(-1) * logits).sum(-1))[by]
        return logprobs, entropies, right

    def _agrees_over_a_tree(self, whole: PreTrainedModel) -> bool:
        """True if the model computes the same over a prefix tree as over rows; some tokens are compared.

        A model may add something to attention that its configuration does not tell.
        """
        if not takes_prefix_tree(whole):
            return False
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


def compile_layers(model: PreTrainedModel) -> None:
    """Compile each layer of a model in place; layers of one kind share their code, so it is fast to compile.

    Weights keep their names. Batches differ in shape, so sizes are symbols from the first.
    """
    for layer in layers_of(model):
        layer.compile(dynamic=True)


def layers_of(model: PreTrainedModel) -> nn.ModuleList:
    """The stack of a model's layers."""
    num_layers = model.config.get_text_config().num_hidden_layers
    return next(
        part for part in model.get_decoder().modules() if isinstance(part, nn.ModuleList) and len(part) == num_layers
    )


def _body_and_head(model: PreTrainedModel) -> tuple[Any, Any]:
    """A model's layers and its head, if the head on their last hidden states gives the model's logits.

    Some models scale or cap logits: what the head made is then not what the model returns, to the last bit. They have
    no head here, and whole logits are computed.
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
    """True if tensors differ by no more than rounding."""
    tolerance = 1e-3 if expected.dtype is torch.float32 else 0.05
    return bool((found.float() - expected.float()).abs().max() <= tolerance * expected.float().abs().max())
