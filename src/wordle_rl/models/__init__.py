"""Models and tokenizers: made, found, loaded, saved, exported.

tiny.py       the embedded model: a small Qwen3-architecture model and its tokenizer, made here
directory.py  model directories and the settings stored with them
gguf.py       GGUF files, SmolLM2's among them, converted once into directories
loading.py    load_model(), load_codec(), load_numbers(), save_model()
device.py     device of this process: GPU, GPU of a Mac, processor
numbers.py    `ModelNumbers`, `Device`: sizes for memory estimates
adapters.py   LoRA and 4-bit bases
multimodal.py the language part of a model that can also see
export.py     a whole model from an adapter or from shards
shards.py     tensors of a distributed checkpoint
"""
