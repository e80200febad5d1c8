"""Laws of the checks: a right game passes all, and a game with one fault is found out by the check for it."""

import faulty_games as faulty
import pytest

from wordle_rl.conformance.environment_checks import CHECKS, Check, CheckResult, Found, examine
from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.targets import Dialect, ModuleTarget, SessionLostError
from wordle_rl.solver import Solver

SOLVER = Solver(faulty.WORDS)


def results_of(game: type[faulty.RightGame], num_games: int = 10) -> list[CheckResult]:
    target = ModuleTarget(game.__name__, game)
    return list(examine(Examiner(target, SOLVER, Dialect.TAGGED, num_games)))


def with_status(results: list[CheckResult], *statuses: str) -> set[str]:
    return {result.check_id for result in results if result.status in statuses}


def test_a_right_game_passes_every_check() -> None:
    results = results_of(faulty.RightGame)
    assert {each.check_id: each.evidence for each in results if each.status != "pass"} == {}
    assert len(results) == len(CHECKS) == 12


ALONE = {
    faulty.SeedIgnored: "runtime.seed_control",
    faulty.RefusalsCounted: "runtime.episode_determinism",
    faulty.BoardShared: "runtime.episode_isolation",
    faulty.RepeatsPaid: "semantic.canary_floor",
    faulty.FiveTurns: "wordle.turn_limit",
    faulty.GoesOnAfterTheEnd: "wordle.after_end",
    faulty.EmojiCrash: "wordle.refusals",
    faulty.ShortWordsFree: "wordle.refusals",
    faulty.StaleMarks: "wordle.refusals",
    faulty.UnlistedScored: "wordle.refusals",
    faulty.ThoughtsSearched: "wordle.guess_grammar",
    faulty.ProseSearched: "wordle.guess_grammar",
    faulty.SecretInOpening: "semantic.no_solution_leakage",
    faulty.SecretInState: "semantic.no_solution_leakage",
    faulty.SecretInErrors: "semantic.no_solution_leakage",
    faulty.QuittingPaid: "statistical.gameability_gap",
}
"""Faults that break one rule and no other."""


@pytest.mark.parametrize("game", ALONE, ids=lambda game: game.__name__)
def test_one_fault_fails_one_check(game: type[faulty.RightGame]) -> None:
    assert with_status(results_of(game), "fail", "error") == {ALONE[game]}


TOGETHER = {
    faulty.InfiniteReward: {"semantic.oracle_max"},
    faulty.NeverPaid: {"semantic.oracle_max"},
    faulty.TagsPaid: {"semantic.canary_floor", "statistical.gameability_gap"},
    faulty.EndlessRefusals: {"semantic.canary_floor", "wordle.refusals"},
    faulty.GreensForYellows: {"semantic.oracle_max", "wordle.marks"},
    faulty.CopiesNeverUsedUp: {"wordle.marks"},
    faulty.BadRepliesPaid: {"wordle.refusals", "statistical.gameability_gap"},
    faulty.NoisyRewards: {"statistical.gameability_gap"},
}
"""Faults that several checks must find; others may follow from them."""


@pytest.mark.parametrize("game", TOGETHER, ids=lambda game: game.__name__)
def test_a_fault_is_found_by_every_check_it_concerns(game: type[faulty.RightGame]) -> None:
    assert with_status(results_of(game), "fail") >= TOGETHER[game]


def test_every_check_has_a_game_that_fails_it() -> None:
    found = {*ALONE.values()}.union(*TOGETHER.values())
    assert found == {check.check_id for check in CHECKS}


def test_what_needs_seeds_is_skipped_without_them() -> None:
    needing = {"runtime.episode_determinism", "runtime.episode_isolation"}
    assert with_status(results_of(faulty.SeedIgnored), "skip") == needing


def test_a_session_that_breaks_off_is_an_error_of_its_check_alone() -> None:
    def breaking(_: Examiner) -> Found:
        raise SessionLostError("connection closed")

    checks = [Check("wordle.broken", "Holds", breaking), Check("wordle.sound", "Holds", lambda _: ([], "all well"))]
    broken, sound = examine(Examiner(ModuleTarget("right", faulty.RightGame), SOLVER, Dialect.TAGGED, 10), checks)
    assert (broken.status, sound.status) == ("error", "pass")
    assert "connection closed" in broken.evidence[0]
