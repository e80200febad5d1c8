"""Players: the `Sampler` protocol and its backends.

Each backend is imported from its own module.

    base.py            `Sampler`, `Request`, `Completion`
    simple.py          players without a model: the solver, random words
    transformers.py    a model in this process, its key/value cache kept over the turns of a game
    batches.py         which of its games share a cache, and a row of it
    kv_cache.py        that cache
    attention.py       its attention: grouped heads read keys and values in place
    drawing.py         the next token of every row
    constrain.py       completions whose guess can only be a listed word
    likeliest_word.py  the likeliest listed word of a greedy reply
    vllm.py            a vLLM engine in this process
    vllm_server.py     a vLLM server, asked for tokens
    endpoint/          models behind an OpenAI-compatible server
    run_async.py       asynchronous work from synchronous code
"""

from wordle_rl.samplers.base import Completion, Request, Sampler

__all__ = ["Completion", "Request", "Sampler"]
