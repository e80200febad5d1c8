"""Play secrets, keep every game, measure, and compare players on the same words.

    players.py       players by name: solver, random, a model or run directory, openai:MODEL, module:attribute
    conditions.py    EvalConditions: prompting and sampling of a player
    records.py       Evaluation (every game, saved as JSON), Figures, the distribution of rewards
    play.py          evaluate(): secrets -> Evaluation; evaluate_concurrently(): the same with an endpoint
    eval_secrets.py  secrets outside the split, and boards with earlier turns
    journal.py       finished games on disk, so that a stopped evaluation can resume
    strata.py        held-out secrets by what training games showed of them
    entropy.py       the temperature at which one model is as random as another
    controls.py      evaluations to compare a run's figures with
    csv_tables.py    evaluations as CSV
    stats.py         intervals and tests
    compare.py       compare(): two evaluations -> Comparison; compare_all(): any number -> MultiComparison

A game that could not be finished because a request failed is an error. Errors are counted apart, are left out of every
other figure, and are never losses. A game cut short by a token budget is a loss.
"""

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.evaluate.compare import ComparedPlayer, Comparison, MultiComparison, SharedGame, compare, compare_all
from wordle_rl.evaluate.conditions import EvalConditions, differences, unlike
from wordle_rl.evaluate.csv_tables import GAME_COLUMNS, check_table, save_csv, write_rows
from wordle_rl.evaluate.journal import Journal, journal_of, journal_path, num_kept
from wordle_rl.evaluate.play import WASTED_TURN_REGRET, Scorer, evaluate, evaluate_concurrently, with_regret
from wordle_rl.evaluate.records import (
    CONSTRAINED_PART,
    PART_NAMES,
    RESULT_SPLITS,
    STRATA,
    STRICT_CONSTRAINED_PART,
    ControlFacts,
    Evaluation,
    EvaluationError,
    Figures,
    figures_by_split,
    is_sampled_part,
    measure,
    model_and_variant,
    occurrences,
    quoted_parts,
    sampled_part,
)

__all__ = [
    "CONSTRAINED_PART",
    "GAME_COLUMNS",
    "PART_NAMES",
    "RESULT_SPLITS",
    "STRATA",
    "STRICT_CONSTRAINED_PART",
    "WASTED_TURN_REGRET",
    "ComparedPlayer",
    "Comparison",
    "ControlFacts",
    "EvalConditions",
    "Evaluation",
    "EvaluationError",
    "Figures",
    "GameRecord",
    "Journal",
    "MultiComparison",
    "Scorer",
    "SharedGame",
    "TurnRecord",
    "check_table",
    "compare",
    "compare_all",
    "differences",
    "evaluate",
    "evaluate_concurrently",
    "figures_by_split",
    "is_sampled_part",
    "journal_of",
    "journal_path",
    "measure",
    "model_and_variant",
    "num_kept",
    "occurrences",
    "quoted_parts",
    "sampled_part",
    "save_csv",
    "unlike",
    "with_regret",
    "write_rows",
]
