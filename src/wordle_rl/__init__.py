"""Teach language models to play Wordle, and measure honestly what they learned.

A program needs ten names. Each is imported when it is first asked for, so that a game or the solver never waits for
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.3.0"

__all__ = [
    "Prompter",
    "Rubric",
    "Run",
    "Solver",
    "WordleEnv",
    "evaluate_player",
    "load_words",
    "open_model",
    "play_games",
    "train_model",
]

# Type checkers and editors read the imports and never see `__getattr__`, which would make every misspelt name an
# `object` for them; at run time it is the other way round.
if TYPE_CHECKING:
    from wordle_rl.env import WordleEnv
    from wordle_rl.evaluate.players import open_model
    from wordle_rl.library import evaluate_player, play_games, train_model
    from wordle_rl.prompt import Prompter
    from wordle_rl.reward import Rubric
    from wordle_rl.runs import Run
    from wordle_rl.solver import Solver
    from wordle_rl.words import load_words
else:
    _MODULES = {
        "Prompter": "prompt",
        "Rubric": "reward",
        "Run": "runs",
        "Solver": "solver",
        "WordleEnv": "env",
        "evaluate_player": "library",
        "load_words": "words",
        "open_model": "evaluate.players",
        "play_games": "library",
        "train_model": "library",
    }

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = found  # so that Python does not ask again
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
