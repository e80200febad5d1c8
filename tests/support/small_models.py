"""Configurations of very small models."""

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
