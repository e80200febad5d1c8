"""Laws of publishing: a data set of games has their counts and no held-out secret; a Space brings its wheel."""

import json
import runpy
import shutil
from pathlib import Path

import pytest
import yaml
from fake_hub import open_hub
from huggingface_hub import HfApi

from wordle_rl import __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def publish():
    return runpy.run_path(str(ROOT / "scripts" / "publish.py"))["main"]


def test_the_card_of_a_runs_games_counts_them(finished_run, publish, capsys) -> None:
    assert publish(["games", str(finished_run), "--repo", "somebody/games", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-3:-1] == ["README.md", "games.jsonl"]
    matter = yaml.safe_load(shown.split("---\n", 2)[1])
    assert matter["configs"] == [{"config_name": "default", "data_files": "games.jsonl"}]
    games = [json.loads(line) for line in (finished_run / "traces.jsonl").read_text().splitlines()]
    assert f"\n{len(games):,} games of Wordle" in shown
    assert f" {len({game['secret'] for game in games}):,} secrets; " in shown
    assert "{" not in shown.split("---\n", 2)[2], "a fact that nobody filled in"


def test_games_of_a_held_out_secret_are_not_sent(finished_run, publish, tmp_path, capsys) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "mini"))
    held_out = json.loads((run / "manifest.json").read_text())["split"]["test"][0]
    with (run / "traces.jsonl").open("a") as file:
        row = {"secret": held_out, "turns": [{"guess": held_out, "marks": "GGGGG"}], "teacher": "solver"}
        file.write(json.dumps(row) + "\n")
    assert publish(["games", str(run), "--repo", "somebody/games", "--dry-run"]) == 2
    assert held_out in capsys.readouterr().err


def test_a_space_is_sent_with_the_wheel_that_its_image_installs(publish, tmp_path, capsys) -> None:
    wheel = tmp_path / f"wordle_rl-{__version__}-py3-none-any.whl"
    asked = ["space", "--repo", "somebody/wordle", "--dry-run", "--wheel", str(wheel)]
    assert publish(asked) == 2, "no such file"
    wheel.write_bytes(b"")
    capsys.readouterr()
    assert publish(asked) == 0
    assert capsys.readouterr().out.splitlines()[-4:-1] == ["Dockerfile", "README.md", wheel.name]
    assert publish(["space", "--repo", "nobody", "--dry-run"]) == 2, "no name of a repository"


def test_a_space_arrives_as_one_commit(publish, monkeypatch) -> None:
    with open_hub() as hub:
        api = HfApi(endpoint=hub.url, token="hf_" + "secret" * 5)
        monkeypatch.setattr("wordle_rl.report.hub._logged_in", lambda: api)
        assert publish(["space", "--repo", "somebody/wordle"]) == 0
    assert set(hub.repos["somebody/wordle"]) == {"README.md", "Dockerfile"}
    assert hub.commits == [("somebody/wordle", "Add the space of wordle-rl")]
