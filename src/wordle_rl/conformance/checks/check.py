"""A check as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.results import Finding


def no_chance(_games: int) -> str:
    """Error level of a check that compares instead of counting: what fails has failed."""
    return "a failure is a counterexample, which never errs; a pass covers only the games that were played"


@dataclass(frozen=True)
class Check:
    """One question put to a target.

    Attributes:
        check_id: Id of RFC 008 where one asks the same, else `wordle.*`.
        title: What must hold.
        run: The check.
        needs: Ids of checks that must have passed; otherwise this one is skipped.
        error_level: Number of games to a sentence: how often the check errs.
    """

    check_id: str
    title: str
    run: Callable[[Examiner], Finding]
    needs: tuple[str, ...] = ()
    error_level: Callable[[int], str] = no_chance
