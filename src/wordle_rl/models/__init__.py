"""Models and tokenizers: made, loaded, saved, exported.

tiny.py       the embedded model: a small Qwen3-architecture model and its tokenizer, made here
loading.py    load_model(), load_codec(), save_model()
adapters.py   LoRA and 4-bit bases
text_part.py  the language part of a model that can also see
export.py     a whole model from an adapter or from shards
"""
