"""Laws of `wordle-rl eval`: which secrets it plays, how often, and which files it leaves alone."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import play_script

from wordle_rl.evaluate.leaderboard import read_board
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.stats import games_needed, smallest_difference, wilson_interval
from wordle_rl.game import Rules
from wordle_rl.report.terminal import power_line
from wordle_rl.train.checkpoints import complete_checkpoint


def test_repeats_of_the_same_game_are_refused_and_of_drawn_ones_played(cli, word_directory: Path) -> None:
    command = ("eval", "--words", word_directory, "--split", "val", "--no-regret", "--json", "--games-per-secret", 3)
    for player in ("solver", "openai:m"):
        code, out, err = cli(*command, "--player", player)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert player in err
    code, out, _ = cli(*command, "--player", "random")
    assert (code, json.loads(out)["num_games"] % 3) == (0, 0)
    assert cli(*command[:-1], 1, "--player", "solver")[0] == 0


@pytest.fixture
def into_file(cli, word_directory: Path, tmp_path: Path):
    """`wordle-rl eval --out x.json` of two games of a player, by default of the solver."""

    def run(*more: object, player: object = "solver") -> tuple[int, str, str]:
        command = ("eval", "--player", player, "--words", word_directory, "--max-games", 2, "--no-regret")
        return cli(*command, "--out", tmp_path / "x.json", *more)

    return run


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"player": "random"}, "player"),
        ({"fingerprint": "0" * 64}, "fingerprint"),
        ({"rules": Rules(max_turns=5)}, "rules"),
        ({"constrain": "words"}, "constrain"),
        (None, "x.json"),
    ],
)
def test_another_evaluation_is_written_over_only_if_asked_for(change, named: str, into_file, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert [into_file()[0] for _ in range(2)] == [0, 0], "the same command goes on working"
    if change is None:
        path.write_text("dear diary")
    else:
        replace(Evaluation.load(path), **change).save(path)
    before = path.read_bytes()
    code, out, err = into_file()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert named in err
    assert path.read_bytes() == before
    assert into_file("--overwrite")[0] == 0
    assert Evaluation.load(path).player == "solver"


def test_games_that_would_not_be_played_again_are_not_written_over(into_file, tmp_path: Path) -> None:
    assert into_file("--max-games", 4)[0] == 0
    before = (tmp_path / "x.json").read_bytes()
    assert into_file("--max-games", 3)[0] == 2
    assert into_file("--max-games", 4, "--split-seed", 5)[0] == 2
    assert (tmp_path / "x.json").read_bytes() == before
    assert into_file("--max-games", 5)[0] == 0, "none of the games is lost"


def test_greedy_games_do_not_replace_drawn_ones(into_file, finished_run, tmp_path: Path) -> None:
    def drawn(*more: object) -> tuple[int, str, str]:
        return into_file("--max-completion-tokens", 12, *more, player=finished_run)

    assert drawn("--temperature", 1, "--seed", 3)[0] == 0
    kept = Evaluation.load(tmp_path / "x.json").conditions
    assert (kept.temperature, kept.max_completion_tokens) == (1.0, 12)
    assert (kept.engine, kept.seed) == ("transformers", 3)
    assert "temperature" in drawn()[2]
    assert "seed" in drawn("--temperature", 1, "--seed", 4)[2]
    assert drawn("--temperature", 1, "--seed", 3)[0] == 0


def test_some_of_all_secrets_have_figures_of_each_part_and_none_of_all(cli, sixty, word_directory, tmp_path) -> None:
    command = ("eval", "--player", "solver", "--words", word_directory, "--split", "all", "--no-regret", "--max-games")
    code, out, _ = cli(*command, 2, "--json", "--out", tmp_path / "x.json")
    found = json.loads(out)
    assert (code, "win_rate" in found) == (0, False)
    parts = {part: figures["num_games"] for part, figures in found["parts"].items()}
    assert parts == {"train": 2, "val": 2, "held_out": 2}
    assert Evaluation.load(tmp_path / "x.json").parts == tuple(parts)
    assert cli(*command, 2, "--out", tmp_path / "x.json")[0] == 0, "the same command again"
    for whole in (0, 1000):
        assert json.loads(cli(*command, whole, "--json")[1])["num_games"] == len(sixty.answers)


def test_a_player_that_draws_by_chance_plays_every_secret_anew(cli, finished_run, word_directory, tmp_path) -> None:
    command = ["eval", "--player", finished_run, "--words", word_directory, "--temperature", 1]
    found = {}
    for name, seed in (("a", 0), ("again", 0), ("b", 1)):
        out = tmp_path / f"{name}.json"
        code, _, err = cli(*command, "--games-per-secret", 3, "--seed", seed, "--out", out)
        assert code == 0, err
        found[name] = Evaluation.load(out).records
    secrets = [game.secret for game in found["a"]]
    assert secrets == [*dict.fromkeys(secrets)] * 3
    assert found["a"] == found["again"] != found["b"]
    third = len(secrets) // 3
    assert found["a"][:third] != found["a"][third : 2 * third]
    code, out, _ = cli("compare", tmp_path / "a.json", tmp_path / "b.json", "--json")
    assert (code, json.loads(out)["num_games"]) == (0, len(secrets))


def test_a_reward_is_measured_in_every_game(cli, word_directory: Path, tmp_path: Path) -> None:
    command = ("eval", "--words", word_directory, "--no-regret", "--json", "--player")
    for player, name in (("solver", "sparse"), ("random", "shaped")):
        code, out, _ = cli(*command, player, "--reward", name, "--out", tmp_path / f"{player}.json")
        told, kept = json.loads(out), Evaluation.load(tmp_path / f"{player}.json")
        found = told["reward"]["held_out"]
        assert (code, found["preset"], found["num_games"]) == (0, name, told["num_games"])
        assert kept.reward_preset == name
        assert found["mean"] == pytest.approx(sum(game.notes.reward for game in kept.records) / len(kept.records))
        assert (found["lowest"] >= 1.0) == (player == "solver"), "which wins every game"
    assert cli(*command, "solver", "--reward", "nosuch")[0] == 2


def test_sampled_games_have_a_regret_if_asked_for(cli, word_directory: Path) -> None:
    command = ("eval", "--words", word_directory, "--max-games", 3, "--json", "--player")

    def regret(*more: object) -> float | None:
        code, out, err = cli(*command, *more)
        assert code == 0, err
        return json.loads(out)["mean_regret"]

    assert regret("solver") == 0.0
    assert regret("solver", "--no-regret") is None
    assert regret("random") is None
    assert regret("random", "--sampled-regret") > 0


def test_two_rates_are_compared_and_an_evaluation_says_what_its_largest_part_can_show(cli) -> None:
    assert json.loads(cli("power", "60", "70", "--json")[1])["games_each"] == games_needed(0.6, 0.7)
    figures = play_script([("crane", ["crane"]), ("grape", ["grape"])]).figures()
    few, many = replace(figures, num_games=20, win_rate=0.6), replace(figures, num_games=200, win_rate=0.6)
    assert f"{100 * smallest_difference(0.4, 200):.1f} points" in power_line({"train": few, "test": many})
    assert "points" not in power_line({"all": figures}), "two games"
    repeated = replace(many, pass_at={"1": (0.5, 0.4, 0.6)})
    assert power_line({"all": repeated}) == "", "games of a secret are no new words"


def test_kept_checkpoints_of_a_stage_are_one_table_and_a_file_each(cli, finished_run, tmp_path: Path) -> None:
    stage = finished_run / "grpo"
    command = ("eval", "--checkpoints", stage, "--max-games", 3, "--split", "train", "--no-regret", "--out", tmp_path)
    code, out, err = cli(*command)
    assert (code, out, "save_total_limit" in err) == (2, "", True), "none was kept"
    # What the stages before it ended with stands in for its checkpoints.
    for number, source in ((1, "sft"), (2, "grpo")):
        kept = stage / "checkpoints" / f"checkpoint-{number}"
        shutil.copytree(finished_run / source, kept, ignore=shutil.ignore_patterns("checkpoints"))
        complete_checkpoint(kept, {}, keep=0)
    code, out, _ = cli(*command, "--json")
    assert code == 0
    found = json.loads(out)["checkpoints"]
    assert [*found] == ["1", "2", "end"]
    games = {name: Evaluation.load(tmp_path / f"{name}.json").records for name in found}
    plain = cli("eval", "--player", finished_run / "sft", *command[3:-1], tmp_path / "sft.json")
    assert plain[0] == 0
    assert games["1"] == Evaluation.load(tmp_path / "sft.json").records
    assert games["2"] == games["end"]
    assert {figures["train"]["num_games"] for figures in found.values()} == {3}
    table = cli(*command)[1]
    assert [line.split()[0] for line in table.splitlines() if line.strip()[:1].isalnum()][-3:] == ["1", "2", "end"]


def test_a_player_that_breaks_the_form_is_read_in_two_ways_in_one_table(cli, word_directory, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    words = (word_directory / "answers.txt").read_text().split()[:2]
    (tmp_path / "two.txt").write_text("\n".join(words))
    (tmp_path / "prose.py").write_text(
        f"def play(boards):\n    return ['I try **{words[0]}** first.' for _ in boards]\n"
    )
    command = ("eval", "--player", "prose:play", "--words", word_directory, "--secrets", tmp_path / "two.txt")
    command = (*command, "--no-regret", "--lenient", "--out", tmp_path / "x.json")
    code, out, err = cli(*command, "--json")
    assert code == 0, err
    found = json.loads(out)["readings"]
    asked_for = {name: next(iter(figures.values())) for name, figures in found.items()}
    rates = {name: (figures["win_rate"], figures["malformed_rate"]) for name, figures in asked_for.items()}
    assert rates == {"strict": (0, 1), "lenient": (0.5, 0)}
    read = [Evaluation.load(tmp_path / name) for name in ("x.json", "x-lenient.json")]
    assert [each.conditions.lenient for each in read] == [False, True]
    table = cli(*command)[1].splitlines()
    assert {"strict", "lenient"} <= {line.split()[0] for line in table if line.strip()}
    assert cli(*command, "--csv", tmp_path / "x.csv")[0] == 2


def test_a_board_takes_a_row_with_its_conditions_and_a_second_time_the_same_one(
    cli, word_directory, tmp_path: Path
) -> None:
    board = tmp_path / "board.json"
    command = ("eval", "--player", "random", "--words", word_directory, "--split", "all", "--seed", 1, "--board", board)
    assert [cli(*command, "--max-games", 2, *more)[0] for more in ((), (), ("--hard-mode",))] == [0, 0, 0]
    rows = read_board(board)
    assert [row["hard_mode"] for row in rows] == [False, True]
    names = ("player", "split", "turns", "dictionary")
    assert [rows[0][name] for name in names] == ["random", "all", 6, "strict"]
    assert (rows[0]["low"], rows[0]["high"]) == wilson_interval(rows[0]["wins"], rows[0]["games"])
    board.write_text('{"rows": [{"player": "me", "win_rate": 1.0}]}')
    assert cli(*command)[0] == 2


def test_given_turns_are_shown_in_the_table_and_not_counted(cli, word_directory: Path, tmp_path: Path) -> None:
    table, file = tmp_path / "games.csv", tmp_path / "games.json"
    asked = ("--words", word_directory, "--prefix-turns", 3, "--csv", table, "--out", file)
    assert cli("eval", "solver", *asked)[0] == 0
    rows = list(csv.DictReader(table.read_text().splitlines()))
    games = Evaluation.load(file).records
    assert {int(row["given_turns"]) for row in rows} > {0}
    for row, game in zip(rows, games, strict=True):
        assert int(row["given_turns"]) == len(game.turns) - len(game.own_turns)
        assert len(row["guesses"].split()) == len(game.turns)
        assert float(row["mean_regret"]) == pytest.approx(0.0, abs=1e-9), "the solver gives nothing away"
