"""Laws of the report in a real browser: text of models does nothing, and tables stand as tables at any width."""

from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, chromium, needs_chromium
from report_runs import ANSWERS, evaluation, game, make_run, training_game, write_lines

from wordle_rl.report import write_report

pytestmark = [pytest.mark.slow, needs_chromium]

HOSTILE = (
    "</script></pre><img src=x onerror='document.title=1'><script>document.title = 2</script>"
    "<svg onload='document.title=3'><a href='javascript:document.title=4'>x</a>"
    "<style>body{display:none}</style><iframe src='http://127.0.0.1:9/'></iframe>"
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>\u202e\u2066\u200b {{ script }} &lt;b&gt;"
)


def test_hostile_text_is_shown_and_does_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    records = [game(secret, "lymph", secret, reply=HOSTILE) for secret in ANSWERS]
    evaluation("grpo", records).save(run / "eval" / "grpo.json")
    write_lines(run / "games.jsonl", [training_game(step, HOSTILE) for step in (1, 2, 3)])
    page = write_report(run)
    with chromium() as browser:
        browser.driver.get(page.as_uri())
        browser.until("return document.readyState === 'complete'")
        title = browser.run("return document.title")
        browser.run("for (const each of document.querySelectorAll('details')) each.open = true;")
        for button in range(browser.run("return document.querySelectorAll('button').length")):
            browser.run("document.querySelectorAll('button')[arguments[0]]?.click()", button)
        shown = browser.run("return [...document.querySelectorAll('pre, td, p, li')].some("
                            "(each) => each.textContent.includes(arguments[0]))", "<img src=x onerror=")  # fmt: skip
        assert shown, "a reply is there to be read"
        assert browser.run("return document.title") == title
        assert (
            browser.run("return document.querySelectorAll('img, iframe, svg[onload], a[href^=javascript]').length") == 0
        )
        assert browser.run("return getComputedStyle(document.body).display") != "none"
        assert [address for address in browser.requests() if not address.startswith(("file:", "data:", "about:"))] == []
        assert browser.complaints() == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_head_of_every_table_stands_above_its_body_and_no_column_is_out_of_sight(size, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    words = [f"{first}{second}ade" for first in "bfglmw" for second in "aeiou"]
    evaluation("grpo", [game(secret, *words[:6]) for secret in ANSWERS]).save(run / "eval" / "grpo.json")
    page = write_report(run)
    with chromium() as browser:
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.driver.get(page.as_uri())
        browser.until("return document.readyState === 'complete'")
        browser.run("for (const each of document.querySelectorAll('details')) each.open = true;")
        tables = browser.run(
            "return [...document.querySelectorAll('table:has(thead)')].map((table) => ["
            "table.tHead.getBoundingClientRect().bottom <= table.tBodies[0].getBoundingClientRect().top + 1,"
            "Math.abs(table.tHead.getBoundingClientRect().left - table.tBodies[0].getBoundingClientRect().left) < 1])"
        )
        assert len(tables) >= 3
        assert all(map(all, tables))
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_short_and_every_text_of_a_chart_can_be_read(dark, tmp_path: Path) -> None:
    page = write_report(make_run(tmp_path / "run"))
    contrast = """
        const light = (color) => { const [r, g, b] = color.match(/[\\d.]+/g).map((v) => {
          v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const ground = light(getComputedStyle(document.querySelector('.chart')).backgroundColor);
        return [...document.querySelectorAll('.chart text')].map((text) => {
          const ink = light(getComputedStyle(text).fill);
          return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05); });
    """
    with chromium() as browser:
        for width, height in (DESKTOP, PHONE):
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            browser.driver.get(page.as_uri())
            browser.until("return document.readyState === 'complete'")
            assert browser.run("return document.documentElement.scrollWidth") <= width
            if width > 500:
                assert browser.run("return document.documentElement.scrollHeight") <= 6000
            sizes = browser.run("return [...document.querySelectorAll('#training .chart text')].map("
                                "(text) => text.getBoundingClientRect().height)")  # fmt: skip
            assert len(sizes) > 5
            assert min(sizes) >= 8
            assert min(browser.run(contrast)) >= 4.5, "text stands out from its ground"
        assert browser.complaints() == []
