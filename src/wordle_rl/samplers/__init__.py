"""Players: the `Sampler` protocol and its backends.

Import each backend from its own module.

    base.py            `Sampler`, `Request`, `Completion`
    simple.py          players without a model: the solver, random words
    transformers.py    a model in this process; keeps the key/value cache across the turns of a game
    batches.py         which games share a cache, and which share a row of it
    kv_cache.py        the key/value cache
    attention.py       grouped-query attention that reads keys and values in place
    drawing.py         draw the next token of every row
    constrain.py       limit guesses to listed words
    likeliest_word.py  the likeliest listed word of a greedy reply
    guess_probabilities.py  the likeliest guesses and their probabilities
    generate.py        models that the key/value cache cannot hold
    vllm.py            a vLLM engine in this process
    vllm_server.py     a vLLM server, by token ids
    endpoint/          models behind an OpenAI-compatible server
    run_async.py       run asynchronous code from synchronous code
"""

from wordle_rl.samplers.base import Completion, Request, Sampler

__all__ = ["Completion", "Request", "Sampler"]
