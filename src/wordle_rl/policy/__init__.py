"""Who answers: models and other players behind the `Sampler` protocol, and how models are made, loaded and saved.

Import each module by its own name.

    base.py            `Sampler`, `Request`, `Completion`; the way to a library other than torch
    scripted.py        players without a model: the solver, random words
    transformers.py    a model in this process: batches of games whose cache is kept across turns
    next_token.py      the next token from its logits: temperature, limits, the draw
    kv_cache.py        the key/value cache, and attention that reads it in place
    constrain.py       limit guesses to listed words
    word_search.py     beam searches: the likeliest listed word of a greedy reply, a model's likeliest guesses
    uncached.py        models that the key/value cache cannot hold
    vllm.py            a vLLM engine in this process
    vllm_server.py     a vLLM server, by token ids
    openai.py          models behind an OpenAI-compatible endpoint: requests, retries
    providers.py       addresses and keys of endpoints

    tiny.py            the embedded model: a small Qwen3-architecture model and its tokenizer, built here
    directory.py       what the name of a model means, and the settings stored with it
    gguf.py            GGUF files, SmolLM2's among them, converted once to directories
    loading.py         load_model(), load_codec(), load_numbers(), save_model()
    device.py          device of this process: GPU, GPU of a Mac, CPU
    sizes.py           `ModelNumbers`, `Device`: sizes for memory estimates, read off a model's configuration
    adapters.py        LoRA and 4-bit base models
    multimodal.py      the text part of a multimodal model
    whole_models.py    a whole model from an adapter or from shards
"""
