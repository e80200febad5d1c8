"""OpenAI-compatible endpoints as players.

sampler.py    `OpenAISampler`
client.py     requests, sent again where that may help
retry.py      pauses between attempts
responses.py  a reply out of an HTTP response
providers.py  addresses, keys, parameter names
"""
