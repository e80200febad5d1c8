"""Wordle as an OpenEnv environment: what `openenv push` looks for. The environment itself is `wordle_rl.serve`."""

from wordle_rl.serve.openenv_client import WordleAction, WordleClient, WordleObservation, WordleState

__all__ = ["WordleAction", "WordleClient", "WordleObservation", "WordleState"]
