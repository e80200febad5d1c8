"""A real browser for tests of pages: headless Chromium, driven over WebDriver."""

import importlib.util
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
PHONE, DESKTOP = (390, 844), (1280, 900)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None or importlib.util.find_spec("selenium") is None,
    reason="needs Chromium: apt-get install chromium chromium-driver, and selenium of the extra dev",
)


class Browser:
    """One window, and what its pages asked for and complained about."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str, size: tuple[int, int] = DESKTOP, dark: bool = False) -> None:
        """Load a page afresh in a window of a size."""
        self.driver.get("about:blank")
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get(address)
        self.until("return document.body.dataset.ready === '1' || document.readyState === 'complete' && !window.fetch")

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page; its `return` value."""
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, timeout_s: float = 120.0) -> Any:
        """Wait for a script to return something true; what it returned."""
        deadline = time.monotonic() + timeout_s
        while not (found := self.run(script)):
            assert time.monotonic() < deadline, f"never true: {script}; the page reads: {self.text('body')[:600]}"
            time.sleep(0.05)
        return found

    def text(self, selector: str) -> str:
        """The visible text of the first element; empty if there is none."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def texts(self, selector: str) -> list[str]:
        """The visible texts of all elements."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText)", selector)

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def click(self, selector: str) -> None:
        """Click the first element."""
        self.driver.find_element("css selector", selector).click()

    def choose(self, selector: str, value: str) -> None:
        """Set a field as a user would, with the events that follow."""
        self.run(
            "const field = document.querySelector(arguments[0]); field.value = arguments[1];"
            "field.dispatchEvent(new Event('input', {bubbles: true}));"
            "field.dispatchEvent(new Event('change', {bubbles: true}));",
            selector,
            value,
        )

    def complaints(self) -> list[str]:
        """Errors of the console since the last call: exceptions, refused resources, broken policy."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def requests(self) -> list[str]:
        """Addresses asked for since the last call."""
        messages = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]

    def violations(self) -> list[str]:
        """Faults that axe finds in the page as it stands, each with the element."""
        found = self.driver.execute_async_script(f"{_axe()}; const done = arguments[0]; axe.run().then(done);")
        return [
            f"{violation['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
            for violation in found["violations"]
            for node in violation["nodes"]
        ]


def _axe() -> str:
    spec = importlib.util.find_spec("axe_playwright_python")  # wanted for its script alone, so it is not imported
    assert spec is not None, "axe is missing: pip install --no-deps axe-playwright-python"
    assert spec.submodule_search_locations
    return (Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a profile, without a network but loopback."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(60)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
