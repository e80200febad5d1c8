"""Laws of the checks: a right game passes all, and a game with one fault is found out by the check for it."""

import pytest
from faulty_games import (
    WORDS,
    BadRepliesPaid,
    BoardShared,
    CopiesNeverUsedUp,
    EmojiCrash,
    EndlessRefusals,
    FiveTurns,
    GoesOnAfterTheEnd,
    GreensForYellows,
    InfiniteReward,
    NeverPaid,
    NoisyRewards,
    ProseSearched,
    QuittingPaid,
    RefusalsCounted,
    RepeatsPaid,
    RightGame,
    SecretInErrors,
    SecretInOpening,
    SecretInState,
    SeedIgnored,
    ShortWordsFree,
    StaleMarks,
    TagsPaid,
    ThoughtsSearched,
    UnlistedScored,
)

from wordle_rl.conformance.environment_checks import CHECKS, Check, CheckResult, Found, examine
from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.targets import Dialect, ModuleTarget, SessionLostError
from wordle_rl.solver import Solver

SOLVER = Solver(WORDS)


def results_of(game: type[RightGame], num_games: int = 10) -> list[CheckResult]:
    target = ModuleTarget(game.__name__, game)
    return list(examine(Examiner(target, SOLVER, Dialect.TAGGED, num_games)))


def with_status(results: list[CheckResult], *statuses: str) -> set[str]:
    return {result.check_id for result in results if result.status in statuses}


def test_a_right_game_passes_every_check() -> None:
    results = results_of(RightGame)
    assert {each.check_id: each.evidence for each in results if each.status != "pass"} == {}
    assert len(results) == len(CHECKS) == 12


ALONE = {
    SeedIgnored: "runtime.seed_control",
    RefusalsCounted: "runtime.episode_determinism",
    BoardShared: "runtime.episode_isolation",
    RepeatsPaid: "semantic.canary_floor",
    FiveTurns: "wordle.turn_limit",
    GoesOnAfterTheEnd: "wordle.after_end",
    EmojiCrash: "wordle.refusals",
    ShortWordsFree: "wordle.refusals",
    StaleMarks: "wordle.refusals",
    UnlistedScored: "wordle.refusals",
    ThoughtsSearched: "wordle.guess_grammar",
    ProseSearched: "wordle.guess_grammar",
    SecretInOpening: "semantic.no_solution_leakage",
    SecretInState: "semantic.no_solution_leakage",
    SecretInErrors: "semantic.no_solution_leakage",
    QuittingPaid: "statistical.gameability_gap",
}
"""Faults that break one rule and no other."""


@pytest.mark.parametrize("game", ALONE, ids=lambda game: game.__name__)
def test_one_fault_fails_one_check(game: type[RightGame]) -> None:
    assert with_status(results_of(game), "fail", "error") == {ALONE[game]}


TOGETHER = {
    InfiniteReward: {"semantic.oracle_max"},
    NeverPaid: {"semantic.oracle_max"},
    TagsPaid: {"semantic.canary_floor", "statistical.gameability_gap"},
    EndlessRefusals: {"semantic.canary_floor", "wordle.refusals"},
    GreensForYellows: {"semantic.oracle_max", "wordle.marks"},
    CopiesNeverUsedUp: {"wordle.marks"},
    BadRepliesPaid: {"wordle.refusals", "statistical.gameability_gap"},
    NoisyRewards: {"statistical.gameability_gap"},
}
"""Faults that several checks must find; others may follow from them."""


@pytest.mark.parametrize("game", TOGETHER, ids=lambda game: game.__name__)
def test_a_fault_is_found_by_every_check_it_concerns(game: type[RightGame]) -> None:
    assert with_status(results_of(game), "fail") >= TOGETHER[game]


def test_every_check_has_a_game_that_fails_it() -> None:
    found = {*ALONE.values()}.union(*TOGETHER.values())
    assert found == {check.check_id for check in CHECKS}


def test_what_needs_seeds_is_skipped_without_them() -> None:
    needing = {"runtime.episode_determinism", "runtime.episode_isolation"}
    assert with_status(results_of(SeedIgnored), "skip") == needing


def test_a_session_that_breaks_off_is_an_error_of_its_check_alone() -> None:
    def breaking(_: Examiner) -> Found:
        raise SessionLostError("connection closed")

    checks = [Check("wordle.broken", "Holds", breaking), Check("wordle.sound", "Holds", lambda _: ([], "all well"))]
    broken, sound = examine(Examiner(ModuleTarget("right", RightGame), SOLVER, Dialect.TAGGED, 10), checks)
    assert (broken.status, sound.status) == ("error", "pass")
    assert "connection closed" in broken.evidence[0]
