"""Laws of the page: one file that asks nobody, in which only its own script runs, and an export that holds a run."""

import base64
import gzip
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from pages import parse_page
from report_runs import make_run, training_game, write_lines

from wordle_rl.config import ConfigError
from wordle_rl.report import write_report
from wordle_rl.serve.watch.export import export_run, exported_run
from wordle_rl.serve.watch.page import SCRIPTS, render_page

HOSTILE = "</script><script>document.title='x'</script><img src=x onerror=alert(1)><!-- {{script}} \u2028"


def script_of(html: str) -> str:
    return parse_page(html).scripts[1]


def test_the_policy_allows_this_script_and_no_other() -> None:
    page = render_page()
    digest = base64.b64encode(hashlib.sha256(script_of(page.html).encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page.policy
    assert "'unsafe-eval'" not in page.policy
    assert "connect-src 'self'" in page.policy
    assert "connect-src 'none'" in render_page({}).policy


def test_every_script_is_in_the_page_once() -> None:
    names = {
        path.name.removesuffix(".js")
        for path in (files("wordle_rl.serve.watch") / "static").iterdir()
        if path.name.endswith(".js")
    }
    assert names == set(SCRIPTS)
    assert len(SCRIPTS) == len(names)


def test_the_script_builds_no_markup_from_strings() -> None:
    script = script_of(render_page().html)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setHTML"):
        assert word not in script


def test_nothing_is_loaded_from_elsewhere() -> None:
    html = render_page().html
    assert set(re.findall(r"https?://[^\s\"')]+", html)) <= {"http://www.w3.org/2000/svg"}
    loading = {"src", "srcset", "poster", "data", "action"}
    assert [(tag, name) for tag, attributes in parse_page(html).tags for name in attributes if name in loading] == []


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
            board = ""
            for turn in game["turns"]:
                board += ("," if board else "") + f"{turn['guess']}.{turn['marks']}"
                assert len(found["reviews"][board]) == 5
    assert len(found["words"]["answers"]) == 60


def test_what_a_model_wrote_is_data_in_the_export(run: Path, tmp_path: Path) -> None:
    calm = parse_page(export_run(run, tmp_path / "calm.html").read_text(encoding="utf-8")).tags
    write_lines(run / "games.jsonl", [training_game(1, HOSTILE)])
    html = export_run(run, tmp_path / "page.html").read_text(encoding="utf-8")
    assert [tag for tag, _ in parse_page(html).tags] == [tag for tag, _ in calm]
    assert unpacked(html)["games"]["games"]["games"][0]["turns"][0]["reply"] == HOSTILE


def test_the_same_run_is_the_same_file(run: Path, tmp_path: Path) -> None:
    pages = [export_run(run, tmp_path / name).read_bytes() for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]


def test_a_report_links_to_the_page_that_is_exported_beside_it(run: Path, tmp_path: Path) -> None:
    before = write_report(run).read_text(encoding="utf-8")
    assert 'data-watch=""' in before
    assert "wordle-rl watch run" in before
    export_run(run, tmp_path / "elsewhere.html")
    assert (run / "report.html").read_text(encoding="utf-8") == before
    export_run(run, run / "watch.html")
    assert 'data-watch="watch.html#"' in (run / "report.html").read_text(encoding="utf-8")


def test_what_is_no_run_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        exported_run(tmp_path)


def test_the_command_writes_the_page(run: Path, tmp_path: Path, capsys) -> None:
    from wordle_rl.cli import main

    path = tmp_path / "page.html"
    assert main(["watch", str(run), "--export", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"page": str(path)}
    assert unpacked(path.read_text(encoding="utf-8"))["run"]["name"] == "run"
    assert main(["watch", str(tmp_path / "nothing"), "--export", str(path)]) == 2
