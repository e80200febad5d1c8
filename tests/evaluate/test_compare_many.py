"""Laws of evaluations side by side: the same figures from JSON and CSV, the same games for everyone."""

import csv
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.console import Console
from scripted import planned

from wordle_rl.evaluate import (
    Evaluation,
    EvaluationError,
    compare,
    compare_all,
    evaluate,
    save_csv,
)
from wordle_rl.evaluate.stats import paired_score_interval
from wordle_rl.game import Rules
from wordle_rl.prompt import Prompter
from wordle_rl.report.terminal import multi_comparison_table
from wordle_rl.samplers.base import Completion, Request
from wordle_rl.solver import Solver
from wordle_rl.words import WordList
from wordle_rl.words.split import split_secrets

ANSWERS = ("abide", "babes", "crane", "crate", "drape", "eerie", "geese", "grape", "graze", "speed", "these", "trace")
WORDS = WordList("small", ANSWERS, (*ANSWERS, "fuzzy", "lymph", "nymph"))
SPLIT = split_secrets(WORDS, val_size=2, test_size=4)
SOLVER = Solver(WORDS, use_cache=False)
REPLIES = [f"<guess>{word}</guess>" for word in ("crane", "speed", "fuzzy", "zzzzz", "cat")] + ["what?", "ERROR"]
LOST = ["fuzzy"] * 6


class Reader:
    """Reads its replies from a list per game; ERROR is a request that fails."""

    codec = None

    def __init__(self, games: Sequence[Sequence[str]]) -> None:
        self.games = [list(game) for game in games]

    def begin(self) -> None:
        pass

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        said = [self.games[request.game_id].pop(0) for request in requests]
        return [Completion("", error='refused,\n"twice"') if reply == "ERROR" else Completion(reply) for reply in said]


def run(name: str, games: dict[str, Sequence[str]] | list[tuple[str, Sequence[str]]], **more) -> Evaluation:
    """Play each secret with its guesses; None among them fails."""
    pairs = list(games.items()) if isinstance(games, dict) else games
    replies = [["ERROR" if word is None else f"<guess>{word}</guess>" for word in guesses] for _, guesses in pairs]
    prompter = Prompter(rules=more.pop("rules", Rules()))
    solver = more.pop("solver", None)
    header = planned(WORDS, prompter, name=name, **more)
    return evaluate(header, [secret for secret, _ in pairs], WORDS, prompter, Reader(replies), solver=solver)


def without_replies(evaluation: Evaluation) -> Evaluation:
    return replace(
        evaluation,
        records=tuple(
            replace(record, turns=tuple(replace(turn, reply="") for turn in record.turns))
            for record in evaluation.records
        ),
    )


BASE = run("base", {"crane": ["crane"], "grape": LOST, "speed": LOST, "trace": ["crane", "trace"], "geese": [None]})
SFT = run("sft", {"crane": ["fuzzy", "crane"], "grape": ["grape"], "speed": LOST, "trace": [None], "geese": ["geese"]})
GRPO = run("grpo", {"speed": ["speed"], "crane": ["crane"], "grape": ["grape"], "trace": ["trace"], "abide": LOST})


# --- CSV --------------------------------------------------------------------------------------------------------------


def test_a_row_tells_a_game(tmp_path: Path) -> None:
    games = [["zzzzz", "grape", "grape"], [None], ["crane"]]
    evaluation = run("sft", list(zip(("grape", "speed", "crane"), games, strict=True)), solver=SOLVER)
    games[0][2:] = []
    save_csv(evaluation, SPLIT, tmp_path / "eval.csv")
    won, failed, _ = csv.DictReader(io.StringIO((tmp_path / "eval.csv").read_text()))
    assert (won["secret"], won["won"], won["turns_used"]) == ("grape", "true", "2")
    assert (won["guesses"], won["marks"], won["outcomes"]) == ("zzzzz grape", "- GGGGG", "unlisted scored")
    assert (won["invalid_turns"], won["malformed_turns"], won["repeated_turns"]) == ("1", "0", "0")
    assert won["split"] == next(part for part in ("train", "val", "test") if "grape" in getattr(SPLIT, part))
    assert (failed["won"], failed["stop_reason"]) == ("", "request_failed"), "an error is neither true nor false"
    assert failed["error"] == 'refused,\n"twice"'


# --- several players --------------------------------------------------------------------------------------------------


def test_all_figures_are_over_the_games_that_all_finished() -> None:
    found = compare_all([BASE, SFT, GRPO])
    # geese was not met by all, and trace failed once.
    assert [game.secret for game in found.games] == ["crane", "grape", "speed"]
    assert [game.guesses for game in found.games] == [(1, 2, 1), (None, 1, 1), (None, None, 1)]
    assert (found.num_games, found.num_unpaired, found.num_errors) == (3, 3, 1)
    assert [run.figures.num_games for run in found.runs] == [3, 3, 3]
    assert [run.figures.win_rate for run in found.runs] == [1 / 3, 2 / 3, 1.0]
    assert [run.figures.mean_guesses_with_losses for run in found.runs] == [15 / 3, 10 / 3, 1.0]
    assert [run.figures.num_errors for run in found.runs] == [1, 1, 0], "errors are counted in all games of a run"


def test_each_run_is_tested_against_the_first() -> None:
    base, sft, grpo = compare_all([BASE, SFT, GRPO]).runs
    assert base.against_base is None
    assert (sft.against_base.name_a, sft.against_base.name_b) == ("base", "sft")
    assert (sft.against_base.only_a, sft.against_base.only_b, sft.against_base.both) == (0, 1, 1)
    assert (grpo.against_base.only_a, grpo.against_base.only_b, grpo.against_base.both) == (0, 2, 1)
    assert grpo.against_base.p_value == 0.5
    assert grpo.against_base.win_rate_difference.mean == pytest.approx(2 / 3)


def test_two_runs_are_compared_as_ever() -> None:
    ours, alone = compare_all([BASE, GRPO]), compare(BASE, GRPO)
    assert ours.runs[1].against_base == replace(alone, num_unpaired=0, num_errors=0)
    assert (ours.num_unpaired, ours.num_errors) == (alone.num_unpaired, alone.num_errors) == (2, 0)


def test_repeats_of_a_secret_meet_in_order() -> None:
    runs = [
        run(name, [("crane", first), ("crane", second)])
        for name, first, second in (("a", ["crane"], LOST), ("b", [None], ["crane"]), ("c", LOST, ["crane"]))
    ]
    found = compare_all(runs)
    assert [(game.secret, game.occurrence, game.guesses) for game in found.games] == [("crane", 1, (None, 1, 1))]


def test_what_cannot_be_put_side_by_side_is_refused() -> None:
    with pytest.raises(EvaluationError, match="1 evaluations give no comparison"):
        compare_all([BASE])
    with pytest.raises(EvaluationError, match="share a name: base, base; tell them apart with --names"):
        compare_all([BASE, BASE])
    with pytest.raises(EvaluationError, match="different rules"):
        compare_all([BASE, SFT, run("c", {"crane": ["crane"]}, rules=Rules(max_turns=5))])
    with pytest.raises(EvaluationError, match="different word lists"):
        compare_all([BASE, replace(SFT, fingerprint="0" * 64)])
    with pytest.raises(EvaluationError, match="'base', 'sft' and 'c' finished no secret in common"):
        compare_all([BASE, SFT, run("c", {"abide": ["abide"]})])


def test_the_table_shows_every_run_its_test_and_the_words_that_differ_most() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(multi_comparison_table(compare_all([BASE, SFT, GRPO])))
    text = out.getvalue()
    lines = [line.split() for line in text.splitlines()]
    assert ["win", "rate,", "%", "33.3", "66.7", "100.0"] in lines
    assert "each against base" in text
    row = next(line for line in lines if line[:1] == ["grpo"])
    low, high = (f"{100 * end:+.1f}" for end in paired_score_interval(0, 2, 3)[1:])
    assert row == ["grpo", "+66.7", low, high, "-4.00", "-6.00", "+0.00", "0", "2", "0.5"]
    assert "games left out because a player could not finish them: 1" in text
    assert "not corrected for multiple tests" in text
    assert lines.index(["grape", "lost", "1", "1"]) < lines.index(["crane", "1", "2", "1"])
    assert "…" not in text


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for evaluation in (BASE, SFT, GRPO):
        evaluation.save(tmp_path / f"{evaluation.name}.json")
    return [tmp_path / "base.json", tmp_path / "sft.json", tmp_path / "grpo.json"]


def test_compare_takes_any_number_of_runs(cli, files, tmp_path: Path) -> None:
    code, out, _ = cli("compare", *files)
    assert code == 0
    assert "not corrected" in out
    code, out, _ = cli("compare", *files, "--json", "--csv", tmp_path / "runs.csv", "--names", "a", "b", "c")
    assert code == 0
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert [run["name"] for run in found["runs"]] == ["a", "b", "c"]
    assert found["games"][1] == {"secret": "grape", "occurrence": 0, "guesses": [None, 1, 1]}
    expected = compare_all([BASE, SFT, GRPO])
    assert found["runs"][2]["figures"] == asdict(expected.runs[2].figures)
    assert found["runs"][2]["against_base"]["p_value"] == 0.5
    rows = list(csv.DictReader(io.StringIO((tmp_path / "runs.csv").read_text())))
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    assert [row["p_value"] for row in rows] == ["", "1.0", "0.5"]
    assert [float(row["guesses_p_value"] or -1) for row in rows] == pytest.approx([-1, 1, 0.5])
    assert [row["games_1"] for row in rows] == ["1", "1", "3"]
    low, high = (float(rows[2][f"win_rate_difference_{end}"]) for end in ("low", "high"))
    assert -1 <= low < 0 < 2 / 3 <= high <= 1, "two games won more are no proof"


@pytest.mark.parametrize("content", [b"name,score\nme,7\n", b"\xff\xfe\x00", b"\n", b"name"])
def test_a_table_replaces_an_earlier_one_and_nothing_else(content: bytes, cli, files, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_bytes(content)
    code, out, err = cli("compare", *files, "--csv", mine)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{mine} holds something else than a table of this kind; name another --csv" in err
    assert cli("compare", *files, "--csv", files[2])[0] == 2, "games are no figures"
    assert mine.read_bytes() == content
    mine.write_bytes(b"")
    for runs in (files, files[:2]):
        assert cli("compare", *runs, "--csv", mine)[0] == 0
        assert len(mine.read_text().splitlines()) == 1 + len(runs)


def test_compare_of_two_shows_figures_verdict_and_words(cli, files) -> None:
    code, out, _ = cli("compare", *files[:2])
    assert code == 0
    for shown in ("only sft won", "McNemar's exact test", "win rate, sft minus base", "win rate, %", "grape"):
        assert shown in out


def test_two_runs_are_compared_once(cli, files, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(
        sys.modules["wordle_rl.evaluate.compare"], "mcnemar_exact", lambda *counts: asked.append(counts) or 1.0
    )
    code, out, _ = cli("compare", *files[:2])
    assert (code, len(asked)) == (0, 1)
    assert "games left out because a player could not finish them: 2" in out


def test_runs_of_one_name_are_told_apart_by_their_files(cli, tmp_path: Path) -> None:
    paths = [tmp_path / run / "sft.json" for run in ("a", "b")]
    for path in paths:
        SFT.save(path)
    code, out, _ = cli("compare", *paths, "--json")
    assert code == 0
    assert [run["name"] for run in json.loads(out)["runs"]] == [path.as_posix() for path in paths]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["base"], "name at least two"),
        (["base", "sft", "--names", "a"], "1 names for 2"),
        (["base", "base"], "--names"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_one_line(arguments, named, cli, files) -> None:
    by_name = {path.stem: path for path in files}
    code, out, err = cli("compare", *(by_name.get(argument, argument) for argument in arguments))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert named in err
