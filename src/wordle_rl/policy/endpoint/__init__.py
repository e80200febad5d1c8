"""OpenAI-compatible endpoints as players.

sampler.py    `OpenAISampler`
client.py     requests and retries
retry.py      pauses between attempts
responses.py  parse a response into a reply
providers.py  addresses, keys, parameter names
"""
