"""The solver: marks of every guess against every answer, candidates, information, best play, regret.

    matrix.py          words -> codes, one number per string of marks
    partition.py       how guesses split the candidates, for all guesses at once
    fewest_guesses.py  fewest guesses still needed, by beam search with bounds; a whole plan, `Tree`
    solver.py          `Solver`, which joins all of this for one word list; answers that fit a board, regret of a turn

It needs only NumPy. Marks, candidates and information are exact. The search for best play tries a beam of guesses, so
its values are upper bounds on the optimum. On the original lists the tree from "salet" reaches the proven optimum of
7,920 guesses. On the embedded list it takes 9,560, and 9,559 with a beam of 20.
"""

from wordle_rl.solver.fewest_guesses import Tree
from wordle_rl.solver.matrix import SolverError, decode_marks, encode_marks, marks_matrix
from wordle_rl.solver.solver import ScoredGuess, Solver, fitting_answers, turn_regret

__all__ = [
    "ScoredGuess",
    "Solver",
    "SolverError",
    "Tree",
    "decode_marks",
    "encode_marks",
    "fitting_answers",
    "marks_matrix",
    "turn_regret",
]
