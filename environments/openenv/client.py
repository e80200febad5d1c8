"""Clients of the Space: OpenEnv's protocol at its address, TextArena's below `/textarena`."""

from wordle_rl.serve.client import WordleClient
from wordle_rl.serve.textarena.client import TextArenaEnv

__all__ = ["TextArenaEnv", "WordleClient"]
