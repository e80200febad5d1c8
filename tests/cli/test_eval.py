"""Laws of `wordle-rl eval`: which secrets it plays, how often, and which files it leaves alone."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_evaluations import play_script

from wordle_rl.cli.eval import power_line
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.stats import games_needed, smallest_difference
from wordle_rl.game import Rules
from wordle_rl.words import load_words


def test_repeats_of_the_same_game_are_refused_and_of_drawn_ones_played(cli, word_directory: Path) -> None:
    command = ("eval", "--words", word_directory, "--split", "val", "--no-regret", "--json", "--games-per-secret", 3)
    for player in ("solver", "openai:m"):
        code, out, err = cli(*command, "--player", player)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{player} plays the same game again" in err
    code, out, _ = cli(*command, "--player", "random")
    assert (code, json.loads(out)["num_games"] % 3) == (0, 0)
    assert cli(*command[:-1], 1, "--player", "solver")[0] == 0


def test_a_time_limit_is_for_endpoints(cli, word_directory: Path) -> None:
    command = ("eval", "--words", word_directory, "--player", "random", "--max-games", 1, "--no-regret")
    assert cli(*command)[0] == 0
    code, out, err = cli(*command, "--max-minutes", 1)
    assert (code, out) == (2, "")
    assert "--max-minutes" in err


@pytest.fixture
def into_file(cli, word_directory: Path, tmp_path: Path):
    """`wordle-rl eval --out x.json` of two games of a player."""

    def run(player: str, *more: object) -> tuple[int, str, str]:
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
    ],
)
def test_an_evaluation_under_other_conditions_is_written_over_only_if_asked_for(
    change: dict[str, object], named: str, into_file, tmp_path: Path
) -> None:
    assert into_file("solver")[0] == 0
    assert into_file("solver")[0] == 0, "the same command goes on working"
    replace(Evaluation.load(tmp_path / "x.json"), **change).save(tmp_path / "x.json")  # type: ignore[arg-type]
    before = (tmp_path / "x.json").read_bytes()
    code, out, err = into_file("solver")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert named in err
    assert (tmp_path / "x.json").read_bytes() == before
    assert into_file("solver", "--overwrite")[0] == 0
    assert Evaluation.load(tmp_path / "x.json").player == "solver"


def test_games_that_would_not_be_played_again_are_not_written_over(into_file, tmp_path: Path) -> None:
    assert into_file("solver", "--max-games", 4)[0] == 0
    before = (tmp_path / "x.json").read_bytes()
    for fewer in (("--max-games", 3), ("--max-games", 4, "--split-seed", 5)):
        code, _, err = into_file("solver", *fewer)
        assert code == 2
        assert "of its games" in err
    assert (tmp_path / "x.json").read_bytes() == before
    assert into_file("solver", "--max-games", 5)[0] == 0, "none of the games is lost"


def test_greedy_games_do_not_replace_drawn_ones(cli, finished_run, word_directory, tmp_path: Path) -> None:
    command = ["eval", "--player", finished_run, "--words", word_directory, "--no-regret", "--max-games", 2]
    command += ["--out", tmp_path / "x.json", "--max-completion-tokens", 12]
    assert cli(*command, "--temperature", 1, "--seed", 3)[0] == 0
    kept = Evaluation.load(tmp_path / "x.json").conditions
    assert (kept.temperature, kept.max_completion_tokens) == (1.0, 12)
    assert (kept.engine, kept.seed) == ("transformers", 3)
    assert "temperature 0 instead of 1" in cli(*command)[2]
    assert "seed 4 instead of 3" in cli(*command, "--temperature", 1, "--seed", 4)[2]
    assert cli(*command, "--temperature", 1, "--seed", 3)[0] == 0


def test_some_of_all_secrets_have_figures_of_each_part_and_none_of_all(cli, word_directory, tmp_path: Path) -> None:
    command = ("eval", "--player", "solver", "--words", word_directory, "--split", "all", "--no-regret")
    code, out, _ = cli(*command, "--max-games", 2, "--json", "--out", tmp_path / "x.json")
    found = json.loads(out)
    assert (code, "win_rate" in found) == (0, False)
    assert {part: figures["num_games"] for part, figures in found["parts"].items()} == {
        "train": 2, "val": 2, "held_out": 2,
    }  # fmt: skip
    assert Evaluation.load(tmp_path / "x.json").parts == ("train", "val", "held_out")
    assert cli(*command, "--max-games", 2, "--out", tmp_path / "x.json")[0] == 0, "the same command again"
    heading = next(line for line in cli(*command, "--max-games", 2)[1].splitlines() if "held out" in line)
    assert heading.split() == ["held", "out", "train", "val"]
    for whole in (0, 1000):
        found = json.loads(cli(*command, "--max-games", whole, "--json")[1])
        assert found["num_games"] == len(load_words(str(word_directory)).answers)


def test_a_file_that_holds_no_evaluation_is_left_alone_before_any_game(into_file, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("dear diary")
    code, out, err = into_file("solver")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "x.json" in err
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    assert (tmp_path / "x.json").read_text() == "dear diary"
    assert into_file("solver", "--overwrite")[0] == 0


def test_a_player_that_draws_by_chance_plays_every_secret_anew(
    cli, finished_run, word_directory, tmp_path: Path
) -> None:
    command = ["eval", "--player", finished_run, "--words", word_directory, "--temperature", 1]
    found = {}
    for name, seed in (("a", 0), ("again", 0), ("b", 1)):
        code, _, err = cli(*command, "--games-per-secret", 3, "--seed", seed, "--out", tmp_path / f"{name}.json")
        assert code == 0, err
        found[name] = json.loads((tmp_path / f"{name}.json").read_text())["records"]
    secrets = [game["secret"] for game in found["a"]]
    assert secrets == [*dict.fromkeys(secrets)] * 3
    assert found["a"] == found["again"] != found["b"]
    third = len(secrets) // 3
    assert found["a"][:third] != found["a"][third : 2 * third]
    code, out, _ = cli("compare", tmp_path / "a.json", tmp_path / "b.json", "--json")
    assert code == 0
    assert json.loads(out)["num_games"] == len(secrets)


def test_two_rates_are_compared_and_an_evaluation_says_what_its_largest_part_can_show(cli) -> None:
    assert json.loads(cli("power", "60", "70", "--json")[1])["games_each"] == games_needed(0.6, 0.7)
    figures = play_script([("crane", ["crane"]), ("grape", ["grape"])]).figures()
    few, many = replace(figures, num_games=20, win_rate=0.6), replace(figures, num_games=200, win_rate=0.6)
    assert f"{100 * smallest_difference(0.4, 200):.1f} points" in power_line({"train": few, "test": many})
    assert "no difference" in power_line({"all": figures}), "two games"
    repeated = replace(many, pass_at={"1": (0.5, 0.4, 0.6)})
    assert power_line({"all": repeated}) == "", "games of a secret are no new words"
