"""Very small random models, those of today among them whose layers are not all attention over the whole past."""

from collections.abc import Callable

import torch
from transformers import (
    AutoModelForCausalLM,
    GraniteMoeHybridConfig,
    Lfm2Config,
    Llama4TextConfig,
    NemotronHConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3_5TextConfig,
    Qwen3NextConfig,
)

from wordle_rl.chat.codec import ChatCodec


def small_config(codec: ChatCodec) -> dict[str, object]:
    return {
        "vocab_size": len(codec.tokenizer),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 48,
        "max_position_embeddings": 512,
        "pad_token_id": codec.pad_id,
        "eos_token_id": codec.turn_end_ids[0],
        "bos_token_id": None,
    }


SLIDING = ["sliding_attention", "full_attention"]


HYBRID: dict[str, Callable[[dict[str, object]], PreTrainedConfig]] = {
    "qwen3.5": lambda size: Qwen3_5TextConfig(
        **size, head_dim=16, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2,
        linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
    ),
    "qwen3-next": lambda size: Qwen3NextConfig(
        **size, head_dim=16, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2,
        linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=16, shared_expert_intermediate_size=16,
    ),
    "lfm2": lambda size: Lfm2Config(**size, layer_types=["conv", "full_attention"], block_multiple_of=8),
    "granite4": lambda size: GraniteMoeHybridConfig(
        **size, layer_types=["mamba", "attention"], mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8,
        mamba_n_groups=1, num_local_experts=0, shared_intermediate_size=32,
    ),
    "llama4": lambda size: Llama4TextConfig(
        **size, head_dim=16, attention_chunk_size=8, layer_types=["chunked_attention", "full_attention"],
        num_local_experts=2, num_experts_per_tok=1, intermediate_size_mlp=48,
    ),
    "nemotron3": lambda size: NemotronHConfig(
        **size, head_dim=16, layers_block_type=["mamba", "attention"], mamba_num_heads=4, mamba_head_dim=16,
        ssm_state_size=8, n_groups=1,
    ),
}  # fmt: skip


def hybrid_model(architecture: str, codec: ChatCodec) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(HYBRID[architecture](small_config(codec)))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3.0)
    return model.eval()
