"""Play secrets, keep every game, measure, and compare two players on the same words.

    records.py   GameRecord, Evaluation (every game, saved as JSON), Figures
    play.py      evaluate(): secrets -> Evaluation
    pairs.py     compare(): two evaluations -> Comparison

A game that could not be played to its end because the player could not be asked is an error: counted as such, left
out of every figure, never a loss. A game cut short by a token budget is a loss.
"""

from wordle_rl.evaluate.pairs import ComparedGame, Comparison, compare
from wordle_rl.evaluate.play import WASTED_TURN_REGRET, evaluate
from wordle_rl.evaluate.records import (
    RESULT_SPLITS,
    Evaluation,
    EvaluationError,
    Figures,
    GameRecord,
    TurnRecord,
    figures_by_split,
    measure,
)

__all__ = [
    "RESULT_SPLITS",
    "WASTED_TURN_REGRET",
    "ComparedGame",
    "Comparison",
    "Evaluation",
    "EvaluationError",
    "Figures",
    "GameRecord",
    "TurnRecord",
    "compare",
    "evaluate",
    "figures_by_split",
    "measure",
]
