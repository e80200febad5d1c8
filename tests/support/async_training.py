"""What TRL's asynchronous trainer takes from GPUs, done plainly."""

import pytest
import torch


class Unsent:
    """Where TRL sends weights over NCCL, which wants GPUs: they are looked at, and the server keeps those it has."""

    def __init__(self) -> None:
        self.sent: list[set[str]] = []

    def init_weight_transfer(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def send_weights(self, iterator) -> None:
        self.sent.append({name for name, _ in iterator})

    def resume(self) -> None:
        pass

    def destroy(self) -> None:
        pass


def plain_varlen_attention(query, key, value, starts_q, starts_k, *_, softmax_scale, causal, **__):
    """What FlashAttention 3 computes, which wants a Hopper GPU: each segment sees the path that leads to it."""
    assert causal
    found = torch.empty_like(query)
    pairs = zip(starts_q.tolist(), starts_q.tolist()[1:], starts_k.tolist(), starts_k.tolist()[1:], strict=False)
    for q0, q1, k0, k1 in pairs:
        heads = query.shape[1] // key.shape[1]
        k, v = (x[k0:k1].repeat_interleave(heads, dim=1) for x in (key, value))  # (K, H, D)
        scores = torch.einsum("qhd,khd->hqk", query[q0:q1], k) * softmax_scale
        seen = torch.arange(k1 - k0)[None] <= torch.arange(q1 - q0)[:, None] + (k1 - k0) - (q1 - q0)
        found[q0:q1] = torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, float("-inf")).softmax(-1), v)
    return found


def train_without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let TRL's asynchronous trainer compute on this processor."""
    from trl.experimental.async_grpo import async_grpo_trainer, packing

    kernel = type("Kernel", (), {"flash_attn_varlen_func": staticmethod(plain_varlen_attention)})
    monkeypatch.setattr(packing, "_flash_attn", lambda: kernel)
    monkeypatch.setattr(async_grpo_trainer, "get_peak_flops_per_device", lambda *_: None)  # it asks CUDA
