"""Laws of the page: one file that asks nobody, in which only its own script runs, and an export that holds a run."""

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pages import parse_page
from report_runs import make_run

from wordle_rl.serve.watch import review, watch_page
from wordle_rl.serve.watch.watch_page import export_run, render_page
from wordle_rl.solver import Solver


def test_the_policy_allows_this_script_and_no_other() -> None:
    page = render_page()
    digest = base64.b64encode(hashlib.sha256(parse_page(page.html).scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page.policy
    assert "'unsafe-eval'" not in page.policy
    assert "connect-src 'self'" in page.policy
    assert "connect-src 'none'" in render_page({}).policy


def unpacked(html: str) -> dict:
    (data,) = re.findall(r'id="data">([^<]*)</script>', html)
    return json.loads(gzip.decompress(base64.b64decode(data)))


@pytest.fixture
def run(tmp_path: Path, word_directory: Path) -> Path:
    made = make_run(tmp_path / "run")
    config = {"words": {"source": str(word_directory)}, "game": {"max_turns": 6}}
    (made / "config.json").write_text(json.dumps(config))
    return made


def test_an_export_holds_every_game_and_the_review_of_its_boards(run: Path, tmp_path: Path) -> None:
    found = unpacked(export_run(run, tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [len(found["games"][name]["games"]) for name in ("games", "eval/sft", "eval/grpo")] == [3, 5, 5]
    for source in found["games"].values():
        for game in source["games"]:
            played = [f"{turn['guess']}.{turn['marks']}" for turn in game["turns"]]
            for count in range(1, len(played) + 1):
                assert len(found["reviews"][",".join(played[:count])]) == 5
    assert len(found["words"]["answers"]) == 60


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[int, ...], int | None]]:
    """What the solver of an export searches: candidates and turns left."""
    found = []

    class RecordingSolver(Solver):
        def best_guess(self, candidates: Any, turns_left: int | None = None) -> str:
            found.append((tuple(candidates), turns_left))
            return super().best_guess(candidates, turns_left)

    monkeypatch.setattr(watch_page, "Solver", RecordingSolver)
    return found


def test_an_export_asks_the_solver_once_for_each_set_of_candidates(run: Path, tmp_path: Path, searched) -> None:
    export_run(run, tmp_path / "page.html")
    assert searched
    assert len(searched) == len(set(searched))


def test_an_export_searches_a_large_board_only_if_several_games_reached_it(
    run: Path, tmp_path: Path, searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = unpacked(export_run(run, tmp_path / "page.html").read_text(encoding="utf-8"))
    num_searched = len(searched)
    searched.clear()
    monkeypatch.setattr(review, "MANY", 0)
    quick = unpacked(export_run(run, tmp_path / "page.html").read_text(encoding="utf-8"))
    games = [game["turns"] for source in whole["games"].values() for game in source["games"]]
    boards = Counter(
        tuple((turn["guess"], turn["marks"]) for turn in turns[:count])
        for turns in games
        for count in range(len(turns))
    )
    assert 0 < len(searched) <= sum(number > 1 for number in boards.values()) < num_searched
    assert quick["reviews"].keys() == whole["reviews"].keys()
    assert [each[:3] for each in quick["reviews"].values()] == [each[:3] for each in whole["reviews"].values()]


def test_the_command_writes_the_page(run: Path, tmp_path: Path, cli) -> None:
    path = tmp_path / "page.html"
    code, out, _ = cli("watch", run, "--export", path, "--json")
    assert (code, json.loads(out)) == (0, {"page": str(path)})
    assert unpacked(path.read_text(encoding="utf-8"))["run"]["name"] == "run"


@pytest.mark.parametrize("export", [False, True])
def test_a_missing_run_directory_is_refused_before_anything_is_served(export: bool, tmp_path: Path, cli) -> None:
    code, _, err = cli("watch", tmp_path / "nothing", *(["--export", tmp_path / "page.html"] if export else []))
    assert code == 2
    assert "nothing" in err
    assert not (tmp_path / "page.html").exists()
