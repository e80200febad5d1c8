"""Laws of the checks: a right game passes all, and a game with one fault is found out by the check for it."""

import json

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
    LastTurnUnpaid,
    NeverPaid,
    NoisyRewards,
    OneSecretForAll,
    PaidForGoingOn,
    ProseCrash,
    ProseSearched,
    QuittingPaid,
    RefusalsCounted,
    RepeatsPaid,
    RewardInWords,
    RightGame,
    SecretInBase64,
    SecretInErrors,
    SecretInOpening,
    SecretInState,
    SecretSpelledOut,
    SecretUnlisted,
    SeedIgnored,
    SevenTurns,
    ShortWordsFree,
    SmallRewards,
    StaleMarks,
    TagsPaid,
    TextsCounted,
    ThoughtsSearched,
    UnlistedScored,
)

from wordle_rl.conformance.adapters.module import ModuleTarget
from wordle_rl.conformance.checks.check import Check
from wordle_rl.conformance.dialects import Dialect
from wordle_rl.conformance.examiner import Examiner, Settings
from wordle_rl.conformance.results import ConformanceReport, Status, passed
from wordle_rl.conformance.suite import CHECKS, carry_out, examine
from wordle_rl.conformance.target import SessionLostError
from wordle_rl.solver import Solver

SOLVER = Solver(WORDS, use_cache=False)


def examiner_of(game: type[RightGame], games: int = 10, **settings: float) -> Examiner:
    return Examiner(ModuleTarget(game.__name__, game), SOLVER, Dialect(), Settings(games=games, **settings))  # type: ignore[arg-type]


def report_of(game: type[RightGame], **settings: float) -> ConformanceReport:
    return examine(examiner_of(game, **settings), {})


def with_status(report: ConformanceReport, *statuses: Status) -> set[str]:
    return {result.check_id for result in report.results if result.status in statuses}


def test_a_right_game_passes_every_check() -> None:
    report = report_of(RightGame)
    assert {each.check_id: each.evidence for each in report.results if each.status is not Status.PASS} == {}
    assert len(report.results) == len(CHECKS) == 20
    assert report.conforms


ALONE = {
    SeedIgnored: "runtime.seed_control",
    RefusalsCounted: "semantic.replayability",
    BoardShared: "runtime.episode_isolation",
    InfiniteReward: "runtime.reward_well_formed",
    SmallRewards: "semantic.floor_gap",
    RepeatsPaid: "semantic.canary_floor",
    FiveTurns: "wordle.turn_limit",
    SevenTurns: "wordle.turn_limit",
    GoesOnAfterTheEnd: "wordle.after_end",
    EmojiCrash: "wordle.refusals",
    ShortWordsFree: "wordle.refusals",
    StaleMarks: "wordle.refusals",
    UnlistedScored: "wordle.refusals",
    ThoughtsSearched: "wordle.guess_grammar",
    ProseSearched: "wordle.guess_grammar",
    ProseCrash: "wordle.guess_grammar",
    SecretInBase64: "semantic.no_solution_leakage",
    SecretSpelledOut: "semantic.no_solution_leakage",
    SecretInOpening: "semantic.no_solution_leakage",
    SecretInState: "runtime.oracle_containment",
    SecretInErrors: "runtime.oracle_containment",
    PaidForGoingOn: "runtime.reward_attribution",
    QuittingPaid: "statistical.gameability_gap",
}
"""Faults that break one rule and no other."""


@pytest.mark.parametrize("game", ALONE, ids=lambda game: game.__name__)
def test_one_fault_fails_one_check(game: type[RightGame]) -> None:
    report = report_of(game)
    assert with_status(report, Status.FAIL, Status.ERROR) == {ALONE[game]}
    assert not report.conforms


TOGETHER = {
    OneSecretForAll: {"runtime.seed_control"},
    TextsCounted: {"runtime.episode_determinism", "runtime.episode_isolation", "semantic.replayability"},
    RewardInWords: {"runtime.reward_well_formed"},
    NeverPaid: {"runtime.reward_well_formed", "semantic.floor_gap", "statistical.training_signal"},
    SecretUnlisted: {"semantic.oracle_max", "wordle.marks"},
    TagsPaid: {"semantic.canary_floor", "statistical.gameability_gap"},
    EndlessRefusals: {"semantic.canary_floor", "wordle.refusals"},
    GreensForYellows: {"semantic.oracle_max", "wordle.marks"},
    CopiesNeverUsedUp: {"wordle.repeated_letters"},
    LastTurnUnpaid: {"wordle.last_turn_win", "statistical.gameability_gap"},
    BadRepliesPaid: {"wordle.refusals", "statistical.gameability_gap"},
    NoisyRewards: {"statistical.training_signal", "statistical.gameability_gap"},
}
"""Faults that several checks must find; others may follow from them."""


@pytest.mark.parametrize("game", TOGETHER, ids=lambda game: game.__name__)
def test_a_fault_is_found_by_every_check_it_concerns(game: type[RightGame]) -> None:
    assert with_status(report_of(game), Status.FAIL) >= TOGETHER[game]


class Listing(ModuleTarget):
    """A target that lists its tasks, secrets included, outside sessions."""

    def surroundings(self) -> str:
        return json.dumps([{"index": seed, "word": RightGame().secret_of(seed)} for seed in range(6)])


def test_a_listing_of_secrets_is_found_outside_sessions() -> None:
    examiner = Examiner(Listing("listing", RightGame), SOLVER, Dialect(), Settings(games=10))
    assert with_status(examine(examiner, {}), Status.FAIL) == {"runtime.oracle_containment"}


def test_every_check_has_a_game_that_fails_it() -> None:
    found = {*ALONE.values()}.union(*TOGETHER.values())
    assert found == {check.check_id for check in CHECKS}


def test_a_declared_maximum_is_held() -> None:
    lowest = {"max_reward": 2.0, "oracle_tolerance": 0.5}
    assert "semantic.oracle_max" not in with_status(report_of(RightGame, **lowest), Status.FAIL)
    strict = report_of(RightGame, max_reward=2.0)
    assert with_status(strict, Status.FAIL) == {"semantic.oracle_max"}


def test_what_needs_seeds_is_skipped_without_them() -> None:
    needing = {check.check_id for check in CHECKS if "runtime.seed_control" in check.needs}
    report = report_of(SeedIgnored)
    assert needing <= with_status(report, Status.SKIP)
    assert len(needing) == 4


def test_too_few_games_prove_no_training_signal() -> None:
    assert "statistical.training_signal" in with_status(report_of(RightGame, games=5), Status.FAIL)


def test_no_check_depends_on_a_later_one() -> None:
    seen: set[str] = set()
    for check in CHECKS:
        assert set(check.needs) <= seen
        seen.add(check.check_id)
    assert len(seen) == len(CHECKS)


def test_a_session_that_breaks_off_is_an_error_of_its_check_alone() -> None:
    def breaking(_: Examiner) -> object:
        raise SessionLostError("connection closed")

    broken = Check("wordle.broken", "Breaks", breaking)  # type: ignore[arg-type]
    sound = Check("wordle.sound", "Holds", lambda _: passed("all well"))
    report = examine(examiner_of(RightGame), {}, [broken, sound])
    assert [result.status for result in report.results] == [Status.ERROR, Status.PASS]
    assert "connection closed" in report.results[0].evidence[0]
    assert not report.conforms


def test_findings_do_not_depend_on_when_they_are_asked_for() -> None:
    games = examiner_of(RightGame)
    first = {check.check_id: carry_out(check, games).measured for check in CHECKS if not check.needs}
    again = {check.check_id: carry_out(check, games).measured for check in reversed(CHECKS) if not check.needs}
    assert first == again
