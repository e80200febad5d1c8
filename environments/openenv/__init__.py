"""Wordle as an OpenEnv environment: what `openenv push` looks for. The environment itself is `wordle_rl.serve`."""

from wordle_rl.serve.client import WordleClient
from wordle_rl.serve.types import WordleAction, WordleObservation, WordleState

__all__ = ["WordleAction", "WordleClient", "WordleObservation", "WordleState"]
