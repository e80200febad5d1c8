"""OpenAI-compatible endpoints: where they are, when to try again, what their replies hold.

providers.py  addresses, keys, parameter names
client.py     requests, sent again where that may help
retry.py      pauses between tries
replies.py    a reply out of an HTTP response
"""
