import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import Page
from report_runs import ANSWERS, GRPO, evaluation, game, make_run, read_page, training_game, write_lines

from wordle_rl.report.page import json_for_script

HOSTILE = "</script><script>document.title='x'</script><img src=x onerror=alert(1)><!--<script> {{ script }} & \u2028"


def test_nothing_a_model_wrote_becomes_markup(tmp_path: Path) -> None:
    calm = make_run(tmp_path / "run")
    expected = [tag for tag, _ in read_page(calm).tags]
    hostile = make_run(tmp_path / "hostile" / "run")
    evaluation("grpo", [game(secret, "lymph", secret, reply=HOSTILE) for secret in ANSWERS]).save(
        hostile / "eval" / "grpo.json"
    )
    write_lines(hostile / "games.jsonl", [training_game(step, HOSTILE) for step in (1, 2, 3)])
    page = read_page(hostile)
    assert [tag for tag, _ in page.tags] == expected
    assert page.games["sources"][1]["games"][0]["turns"][0]["reply"] == HOSTILE
    assert page.games["sources"][2]["games"][0]["turns"][0]["reply"] == HOSTILE


def named_run(run_dir: Path, name: str) -> Path:
    """A run that says `name` wherever a run may say something of its own."""
    make_run(run_dir)
    manifest = {"command": name, "words": name, "git_commit": name, "hardware": {"processor": name}, "python": name}
    (run_dir / "manifest.json").write_text(json.dumps(manifest))
    (run_dir / "config.json").write_text(json.dumps({"model": {"path": name}}))
    metrics = {name: 1.0, f"reward/{name}": 2.0, f"reward/b{name}": 2.0, f"seconds/{name}": 3.0, "stage": name}
    write_lines(run_dir / "metrics.jsonl", [{**metrics, "step": step} for step in (1, 2)])
    results = json.loads((run_dir / "results.json").read_text())
    results["sft"]["held_out"]["guess_distribution"] = {name: 1, "loss": 1}
    (run_dir / "results.json").write_text(json.dumps(results | {name: results["sft"], "seconds": {name: 1.0}}))
    evaluation(name, list(GRPO.records)).save(run_dir / "eval" / "grpo.json")
    return run_dir


def structure(page: Page) -> list[tuple[str, list[str]]]:
    return [(tag, list(attrs)) for tag, attrs in page.tags]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return read_page(named_run(tmp_path_factory.mktemp("calm") / "run", "calm"))


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        '" onmouseover="alert(1)',
        "&lt;b&gt;",
    ],
)
def test_names_and_settings_become_text(tmp_path: Path, calm: Page, name: str) -> None:
    page = read_page(named_run(tmp_path / "run", name))
    assert structure(page) == structure(calm)
    assert page.text.count("calm") == 0
    assert page.text.count(name) >= 8


def test_only_the_pages_own_script_may_run(tmp_path: Path) -> None:
    page = read_page(make_run(tmp_path / "run"))
    assert len(page.scripts) == 2
    policy = next(attrs["content"] or "" for _, attrs in page.tags if "http-equiv" in attrs)
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_the_page_asks_the_network_for_nothing(tmp_path: Path) -> None:
    page = read_page(make_run(tmp_path / "run"))
    loading = {"src", "href", "srcset", "action", "data", "poster", "background"}
    assert not [attrs for _, attrs in page.tags if loading & attrs.keys()]
    assert not [tag for tag, _ in page.tags if tag in {"link", "img", "iframe", "object", "embed", "base"}]
    html = (tmp_path / "run" / "report.html").read_text()
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest", html)


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_json_in_a_script_element_says_the_same_and_cannot_end_it(value: Any) -> None:
    text = json_for_script(value)
    assert json.loads(text) == value
    assert "<" not in text
