"""Models and tokenizers: make, find, load, save and export them.

tiny.py       the embedded model: a small Qwen3-architecture model and its tokenizer, built here
directory.py  model directories and the settings stored with them
gguf.py       GGUF files, SmolLM2's among them, converted once to directories
loading.py    load_model(), load_codec(), load_numbers(), save_model()
device.py     device of this process: GPU, GPU of a Mac, CPU
numbers.py    `ModelNumbers`, `Device`: sizes for memory estimates
adapters.py   LoRA and 4-bit base models
multimodal.py the text part of a multimodal model
export.py     a whole model from an adapter or from shards
shards.py     tensors of a distributed checkpoint
"""
