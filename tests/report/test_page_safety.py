"""Laws of text of models on the report's page: it does nothing there, also in a real browser, where all can be read."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import DESKTOP, PHONE, Browser, chromium, needs_chromium
from hypothesis import given
from hypothesis import strategies as st
from pages import Page
from report_runs import ANSWERS, GRPO, evaluation, game, make_run, read_page, training_game, write_lines

from wordle_rl.report import write_report
from wordle_rl.report.page import json_for_script

HOSTILE = (
    "</script></pre><img src=x onerror='document.title=1'><script>document.title = 2</script>"
    "<svg onload='document.title=3'><a href='javascript:document.title=4'>x</a>"
    "<style>body{display:none}</style><iframe src='http://127.0.0.1:9/'></iframe>"
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>\u202e\u2066\u200b {{ script }} &lt;b&gt;"
)


def test_nothing_a_model_wrote_becomes_markup(tmp_path: Path) -> None:
    expected = [tag for tag, _ in read_page(make_run(tmp_path / "calm")).tags]
    hostile = make_run(tmp_path / "hostile")
    records = [game(secret, "lymph", secret, reply=HOSTILE) for secret in ANSWERS]
    evaluation("grpo", records).save(hostile / "eval" / "grpo.json")
    write_lines(hostile / "games.jsonl", [training_game(step, HOSTILE) for step in (1, 2, 3)])
    page = read_page(hostile)
    assert [tag for tag, _ in page.tags] == expected
    for source in page.games["sources"][1:3]:
        assert source["games"][0]["turns"][0]["reply"] == HOSTILE


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


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return read_page(named_run(tmp_path_factory.mktemp("calm") / "run", "calm"))


@pytest.mark.parametrize("name", [HOSTILE, '" onmouseover="alert(1)', "&lt;b&gt;"])
def test_names_and_settings_become_text(tmp_path: Path, calm: Page, name: str) -> None:
    page = read_page(named_run(tmp_path / "run", name))
    assert [(tag, [*attrs]) for tag, attrs in page.tags] == [(tag, [*attrs]) for tag, attrs in calm.tags]
    assert page.text.count("calm") == 0
    assert page.text.count(name) >= 8


def test_only_the_pages_own_script_may_run_and_nothing_is_loaded(tmp_path: Path) -> None:
    page = read_page(make_run(tmp_path / "run"))
    assert len(page.scripts) == 2
    policy = next(attrs["content"] or "" for _, attrs in page.tags if "http-equiv" in attrs)
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    loading = {"src", "href", "srcset", "action", "data", "poster", "background"}
    assert not [attrs for _, attrs in page.tags if loading & attrs.keys()]
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttpRequest", (tmp_path / "run" / "report.html").read_text())


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_json_in_a_script_element_says_the_same_and_cannot_end_it(value: Any) -> None:
    text = json_for_script(value)
    assert json.loads(text) == value
    assert "<" not in text


@contextmanager
def opened(page: Path, size: tuple[int, int] = DESKTOP, dark: bool = False) -> Iterator[Browser]:
    """A browser with the page loaded, everything in it unfolded."""
    with chromium() as browser:
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.driver.get(page.as_uri())
        browser.until("return document.readyState === 'complete'")
        yield browser


UNFOLD = "for (const each of document.querySelectorAll('details')) each.open = true;"


@pytest.mark.slow
@needs_chromium
def test_hostile_text_is_shown_and_does_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    records = [game(secret, "lymph", secret, reply=HOSTILE) for secret in ANSWERS]
    evaluation("grpo", records).save(run / "eval" / "grpo.json")
    write_lines(run / "games.jsonl", [training_game(step, HOSTILE) for step in (1, 2, 3)])
    with opened(write_report(run)) as browser:
        title = browser.run("return document.title")
        browser.run(UNFOLD)
        for button in range(browser.run("return document.querySelectorAll('button').length")):
            browser.run("document.querySelectorAll('button')[arguments[0]]?.click()", button)
        shown = browser.run("return [...document.querySelectorAll('pre, td, p, li')].some("
                            "(each) => each.textContent.includes(arguments[0]))", "<img src=x onerror=")  # fmt: skip
        assert shown, "a reply is there to be read"
        assert browser.run("return document.title") == title
        active = "return document.querySelectorAll('img, iframe, svg[onload], a[href^=javascript]').length"
        assert browser.run(active) == 0
        assert browser.run("return getComputedStyle(document.body).display") != "none"
        assert [address for address in browser.requests() if not address.startswith(("file:", "data:", "about:"))] == []
        assert browser.complaints() == []


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_head_of_every_table_stands_above_its_body_and_no_column_is_out_of_sight(size, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    words = [f"{first}{second}ade" for first in "bfglmw" for second in "aeiou"]
    evaluation("grpo", [game(secret, *words[:6]) for secret in ANSWERS]).save(run / "eval" / "grpo.json")
    with opened(write_report(run), size) as browser:
        browser.run(UNFOLD)
        tables = browser.run(
            "return [...document.querySelectorAll('table:has(thead)')].map((table) => ["
            "table.tHead.getBoundingClientRect().bottom <= table.tBodies[0].getBoundingClientRect().top + 1,"
            "Math.abs(table.tHead.getBoundingClientRect().left - table.tBodies[0].getBoundingClientRect().left) < 1])"
        )
        assert len(tables) >= 3
        assert all(map(all, tables))
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_page_is_short_and_every_text_of_a_chart_can_be_read(size, dark, tmp_path: Path) -> None:
    contrast = """
        const light = (color) => { const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((v) => {
          v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const ground = light(getComputedStyle(document.querySelector('.chart')).backgroundColor);
        return [...document.querySelectorAll(arguments[0])].map((each) => {
          const ink = light(getComputedStyle(each)[arguments[1]]);
          return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05); });
    """
    with opened(write_report(make_run(tmp_path / "run")), size, dark) as browser:
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        assert size == PHONE or browser.run("return document.documentElement.scrollHeight") <= 6000
        sizes = browser.run("return [...document.querySelectorAll('#training .chart text')].map("
                            "(text) => text.getBoundingClientRect().height)")  # fmt: skip
        assert len(sizes) > 5
        assert min(sizes) >= 8
        assert min(browser.run(contrast, ".chart text", "fill")) >= 4.5, "text stands out from its ground"
        assert min(browser.run(contrast, ".drawing path[style*=stroke]", "stroke")) >= 1.25, "so does every line"
        assert browser.complaints() == []
