"""Laws of the checks: a right game passes all, and a game with one fault is found out by the check for it."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.prompt import Style
from wordle_rl.solver import Solver
from wordle_rl.trainers.games import LoopSettings
from wordle_rl.words import load_words

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from check_environment import main
from conformance import faulty_games as faulty
from conformance.environment_checks import CHECKS, Check, CheckResult, Found, examine, leaks_in
from conformance.examiner import Examiner, Game, Reply, Turn
from conformance.targets import Dialect, ModuleTarget, SessionLostError, Step, read_marks
from conformance_peers import OwnGame

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


# --- ours, as a module and as a server ---


@pytest.mark.parametrize(
    ("style", "preset"), [(Style.ENGLISH, "sparse"), (Style.TEXTARENA, "notebook"), (Style.COMPACT, "strict_xml")]
)
def test_our_own_game_passes_every_check(style: Style, preset: str, tmp_path: Path) -> None:
    words, game = WordSettings(source=faulty.write_words(tmp_path)), GameSettings(style=style)
    target = ModuleTarget("own", lambda: OwnGame(LoopSettings(words=words, game=game, reward_preset=preset)))
    dialect = Dialect.BRACKETED if style is Style.TEXTARENA else Dialect.TAGGED
    examiner = Examiner(target, Solver(load_words(str(tmp_path))), dialect, num_games=10)
    assert {each.check_id: each.evidence for each in examine(examiner) if each.status != "pass"} == {}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a server of ours that asks for a token."""
    pytest.importorskip("openenv")
    from wordle_server import wordle_server

    from wordle_rl.serve.serve_settings import ServeSettings

    monkeypatch.setenv("SOME_TOKEN", "tell-nobody")
    words = WordSettings(source=faulty.write_words(tmp_path / "words"))
    with wordle_server(ServeSettings(words=words, reward_preset="notebook", token_variable="SOME_TOKEN")) as running:
        yield running.address


@pytest.mark.parametrize("only", [["wordle.after_end", "wordle.turn_limit"], pytest.param([], marks=pytest.mark.slow)])
def test_our_server_passes(only: list[str], server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [server, "--words", str(tmp_path / "words"), "--games", "10", "--token-variable", "SOME_TOKEN"]
    assert main([*asked, "--only", *only] if only else asked) == 0
    monkeypatch.setenv("SOME_TOKEN", "another")
    with pytest.raises(SystemExit):
        main(asked)


# --- the script ---


def test_a_fault_gives_1_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--words", faulty.write_words(tmp_path / "words"), "--games", "2", "--only", "wordle.turn_limit"]
    assert main(["conformance.faulty_games:RightGame", *asked]) == 0
    capsys.readouterr()
    assert main(["conformance.faulty_games:FiveTurns", *asked, "--json", "--out", str(tmp_path / "report")]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [(each["check_id"], each["status"]) for each in report["results"]] == [("wordle.turn_limit", "fail")]
    assert json.loads((tmp_path / "report" / "conformance.json").read_text()) == report


@pytest.mark.parametrize("wrong", ["http://127.0.0.1:9", "nowhere", "json:no_such_name", "builtins:dict"])
def test_a_target_that_cannot_be_examined_is_a_wrong_input(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    if wrong.startswith("http"):
        pytest.importorskip("openenv")
    with pytest.raises(SystemExit) as stopped:
        main([wrong])
    assert stopped.value.code == 2
    assert wrong.removeprefix("http://") in capsys.readouterr().err


# --- reading: marks in every known form, never those of another guess; secrets in every disguise ---

TEXTARENA = "\n[GAME] You submitted [crane].\nFeedback:\nC R A N E\nG Y X X X\n\nYou have 4 guesses left."
TABLE = "| Letter  | C R A N E |\n|---------|------------\n| Status  | G Y X X X |"
MARKED = (
    *(TEXTARENA, TABLE, "crane GYXXX", "Guess 2: CRANE -> G Y X X X", "crane: 🟩🟨⬛⬛⬛", "crane 🟩🟨⬜⬜⬜"),
    *("CRANE\nGY___", "cGrYaXnXeX", "scored\ncrane\nGYXXX", "crane: GY---", "crane XXXXX\ncrane GYXXX"),
)
NOT_MARKED = (
    *("", "crane is not a word of the list", "slate GYXXX", "cranes GYXXX", "crane GYXX", "S L A T E\nG Y X X X"),
    *("You attempted an invalid move: crane. 3 guesses left", "My guess is crane.\nGreat, let me see."),
)


@pytest.mark.parametrize("text", MARKED + NOT_MARKED)
def test_marks_of_this_guess_are_read_and_no_others(text: str) -> None:
    assert read_marks(text, "crane") == ("GYXXX" if text in MARKED else None)


def sample(secret: str, text: str, *said: str) -> tuple[Game, str]:
    turns = tuple(Turn(Reply(word, word), Step(""), None, "") for word in said)
    return Game(None, 0, "solver", Step(""), None, turns, secret), text  # type: ignore[arg-type]  # played by nobody


@pytest.mark.parametrize("form", [
    "_crane_", "the secret word was: **Crane**.", "c-r-a-n-e", '["c", "r", "a", "n", "e"]', "enarc", "penar",
    "Y3JhbmU=", "Q1JBTkU=", "6372616e65", "[3, 18, 1, 14, 5]", "99,114,97,110,101",
])  # fmt: skip
def test_a_secret_is_found_in_each_disguise(form: str) -> None:
    others = [sample("slate", "nothing"), sample("pilot", "nothing")]
    assert len(leaks_in([sample("crane", f"before {form} after"), *others])) == 1


@pytest.mark.parametrize("text", ["cranes", "scrane", "c r a n", "crone", "33, 18, 1, 14, 5"])
def test_other_words_are_not_the_secret(text: str) -> None:
    assert not leaks_in([sample("crane", text), sample("slate", "nothing")])


def test_what_all_games_say_and_what_the_player_said_give_nothing_away() -> None:
    assert not leaks_in([sample(secret, "Your guess has its place.") for secret in ("guess", "place", "crane")])
    assert leaks_in([sample("place", "Your word"), sample("crane", "Your word"), sample("guess", "Your guess")])
    other = sample("slate", "pilot XXXXX")
    assert not leaks_in([sample("parts", "strap YYYYY", "strap"), other])
    assert leaks_in([sample("parts", "strap YYYYY"), other])
