"""Clients of the Space: OpenEnv's protocol at its address, TextArena's below `/textarena`."""

from wordle_rl.serve.openenv_client import WordleClient
from wordle_rl.serve.textarena import TextArenaEnv

__all__ = ["TextArenaEnv", "WordleClient"]
