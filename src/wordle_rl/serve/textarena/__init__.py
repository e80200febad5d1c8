"""The TextArena protocol, for openenv's `TextArenaEnv` and notebooks written for it.

game.py          one game in TextArena's texts
models.py        action, observation, state on the wire
environment.py   a session
rubric.py        the signals of a turn
app.py           the application that `wordle-rl serve` mounts at /textarena
client.py        a client
rewards.py       drop-in functions: guess of a completion, marks of an observation
completions.py   `generate_rollout_completions` for TRL
"""

from wordle_rl.serve.textarena.client import TextArenaEnv
from wordle_rl.serve.textarena.models import TextArenaAction, TextArenaMessage, TextArenaObservation, TextArenaState

__all__ = ["TextArenaAction", "TextArenaEnv", "TextArenaMessage", "TextArenaObservation", "TextArenaState"]
