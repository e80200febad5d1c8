"""The forward pass of the embedded model over the distinct tokens of a batch, for training on a CPU.

A small network spends most of a step outside matrix products. This forward pass saves that time:

- The batch is a list of nodes (`prefixes`), so common prefixes are computed once.
- Matrices with the same input are multiplied in one product.
- RMSNorm and the gated unit are single autograd functions with their derivatives written out.
- In the last layer, nodes that predict nothing serve only as keys and values.

The weights are the model's own. The logits agree with those of its own forward pass up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf
from transformers import Qwen3ForCausalLM

from wordle_rl.train.prefix_attention import short_attention
from wordle_rl.train.prefixes import SharedBatch


def takes_shared_prefixes(model: nn.Module) -> bool:
    """True for a dense Qwen3 in float32 on the CPU, without adapters, dropout or hooks."""
    if type(model) is not Qwen3ForCausalLM:
        return False
    config: Any = model.config
    usual = set(config.layer_types) == {"full_attention"} and config.hidden_act == "silu" and not config.attention_bias
    weights = all(weight.dtype is torch.float32 and weight.device.type == "cpu" for weight in model.parameters())
    return usual and weights and not any(_is_changed(name, module) for name, module in model.named_modules())


def _is_changed(name: str, module: nn.Module) -> bool:
    adapted = name.endswith("_proj") and type(module) is not nn.Linear
    return bool(
        adapted or getattr(module, "attention_dropout", 0) or module._forward_hooks or module._forward_pre_hooks
    )


def shared_logits(model: nn.Module, batch: SharedBatch, dtype: torch.dtype) -> Tensor:
    """Logits of every node that predicts a trained token.

    Args:
        model: A model for which `takes_shared_prefixes` is true.
        batch: The tokens.
        dtype: Type of matrix products and attention, float32 or bfloat16. Norms and the residual stream are float32.

    Returns:
        Shape (M, V), float32, in the order of `batch.asked`.
    """
    network: Any = model.model
    x = network.embed_tokens(batch.tokens)  # (N, D)
    cos, sin = (table[0].to(dtype) for table in network.rotary_emb(x[None], batch.positions[None]))  # (N, d)
    places = batch.places
    for number, layer in enumerate(network.layers, start=1):
        own = _norm(x, layer.input_layernorm, dtype)  # (N, D): input of keys and values
        asking, of_asking = own, (cos, sin)  # input of queries
        if number == len(network.layers):
            # Only nodes that predict a trained token go through the rest of the last layer.
            asking, x = own.index_select(0, batch.asked), x.index_select(0, batch.asked)  # (M, D)
            of_asking = (cos.index_select(0, batch.asked), sin.index_select(0, batch.asked))
            places = places.index_select(0, batch.asked[: batch.num_asked])
        q, k, v = _projected(layer.self_attn, own, asking)
        q = _turned(_norm(q, layer.self_attn.q_norm, dtype), *of_asking)  # (N, H, d)
        k = _turned(_norm(k, layer.self_attn.k_norm, dtype), cos, sin)  # (N, K, d)
        seen = _attention(q, k, v, batch.node_of, places)  # (N, H * d)
        x = x + nnf.linear(seen, layer.self_attn.o_proj.weight.to(dtype))
        inner = _norm(x, layer.post_attention_layernorm, dtype)
        gate_and_up = nnf.linear(inner, _joined(dtype, layer.mlp.gate_proj, layer.mlp.up_proj))
        x = x + nnf.linear(_gated(gate_and_up), layer.mlp.down_proj.weight.to(dtype))
    head: Any = model.lm_head
    logits = nnf.linear(_norm(x, network.norm, dtype), head.weight.to(dtype))  # (M, V)
    return logits.float()


def _joined(dtype: torch.dtype, *layers: nn.Linear) -> Tensor:
    return torch.cat([layer.weight for layer in layers]).to(dtype)


def _projected(attention: Any, own: Tensor, asking: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # Queries of `asking`, keys and values of `own`, each (tokens, heads, d). One product for all three if both agree.
    q_proj, k_proj, v_proj, d = attention.q_proj, attention.k_proj, attention.v_proj, attention.head_dim
    if own is asking:
        widths = [q_proj.out_features, k_proj.out_features, v_proj.out_features]
        q, k, v = nnf.linear(own, _joined(own.dtype, q_proj, k_proj, v_proj)).split(widths, -1)
    else:
        q = nnf.linear(asking, q_proj.weight.to(own.dtype))
        k, v = nnf.linear(own, _joined(own.dtype, k_proj, v_proj)).chunk(2, -1)
    return q.unflatten(-1, (-1, d)), k.unflatten(-1, (-1, d)), v.unflatten(-1, (-1, d))


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    # Rotary positions: x is (N, heads, d), the tables are (N, d).
    first, second = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat((-second, first), -1) * sin[:, None]


def _attention(q: Tensor, k: Tensor, v: Tensor, node_of: Tensor, places: Tensor) -> Tensor:
    # As `tree_attention`: each node has its query at one place of its rows, and zeros stand at the other places.
    (num_rows, width), (heads, d), shared = node_of.shape, q.shape[1:], k.shape[1]
    asked = q.new_zeros(num_rows * width, heads * d).index_copy(0, places, q.flatten(1)[: len(places)])
    keys, values = (
        each.flatten(1).index_select(0, node_of.flatten()).view(num_rows, width, shared, d).transpose(1, 2)
        for each in (k, v)
    )  # (B, K, T, d)
    seen = short_attention(asked.view(num_rows, width, heads, d).transpose(1, 2), keys, values, d**-0.5)
    at_places = seen.transpose(1, 2).reshape(num_rows * width, heads * d).index_select(0, places)
    return nnf.pad(at_places, (0, 0, 0, len(q) - len(places)))  # (N, H * d), zeros for padding


def _norm(x: Tensor, layer: Any, dtype: torch.dtype) -> Tensor:
    normed: Tensor = _RMSNorm.apply(x, layer.weight, layer.variance_epsilon, dtype)  # type: ignore[no-untyped-call]
    return normed


def _gated(gate_and_up: Tensor) -> Tensor:
    unit: Tensor = _GatedUnit.apply(gate_and_up)  # type: ignore[no-untyped-call]
    return unit


class _RMSNorm(torch.autograd.Function):
    # x / sqrt(mean(x²) + epsilon) * weight, computed in float32 and returned in `dtype`

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        scale = norm.square_().div_(x.shape[-1]).add_(epsilon).rsqrt_()
        unit = x * scale
        ctx.save_for_backward(unit, weight, scale)
        ctx.x_dtype = x.dtype
        normed: Tensor = (unit * weight).to(dtype)
        return normed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        # With u = x * scale and g = gradient * weight: dx = scale * (g - u * mean(g * u)), since scale depends on x.
        unit, weight, scale = ctx.saved_tensors
        gradient = gradient.float()
        of_weight = (gradient * unit).flatten(0, -2).sum(0)
        gradient = gradient * weight
        along = torch.linalg.vecdot(gradient, unit).unsqueeze_(-1).div_(unit.shape[-1])
        return gradient.addcmul_(unit, along, value=-1).mul_(scale).to(ctx.x_dtype), of_weight, None, None


class _GatedUnit(torch.autograd.Function):
    # silu(gate) * up, with gate and up side by side in one tensor

    @staticmethod
    def forward(ctx: Any, gate_and_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_and_up)
        gate, up = gate_and_up.chunk(2, -1)
        unit: Tensor = nnf.silu(gate).mul_(up)
        return unit

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (gate_and_up,) = ctx.saved_tensors
        gate, up = gate_and_up.chunk(2, -1)
        of_both = torch.empty_like(gate_and_up)
        of_gate, of_up = of_both.chunk(2, -1)
        torch.mul(gradient, nnf.silu(gate), out=of_up)
        of_gate.copy_(torch.ops.aten.silu_backward(gradient * up, gate))
        return of_both
