"""Laws of the site: it builds, a broken link fails, it loads nothing from other hosts, it has every public name."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from browser import chromium, needs_chromium

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("words", "game", "solver", "prompt", "env", "reward", "policy", "rollout", "evaluate")


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this repository."""
    site = tmp_path_factory.mktemp("site")
    done = build(ROOT, site)
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A repository of a few files with the settings and the hook of this one."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    files = {
        "mkdocs.yml": settings[: settings.index("\nnav:")] + "\nnav:\n  - index.md\n",
        "pyproject.toml": '[tool.hatch.metadata.hooks.custom]\nrepository = "https://example.org/somebody/wordle-rl"\n',
        "LICENSE": "free",
        "configs/small.toml": "seed = 1\n",
        "README.md": "# Title\n\n[home](docs/index.md#home), [licence](LICENSE), [self](README.md#title)\n",
        "docs/index.md": "# Home\n\n[settings](../configs/small.toml), [read me](../README.md#title)\n",
    }
    for folder in ("configs", "docs", "scripts", "src"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "scripts" / "site_links.py", tmp_path / "scripts")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_links_that_leave_docs_lead_to_copies(small: Path) -> None:
    done = build(small, small / "site")
    assert done.returncode == 0, done.stderr
    copies = small / "site" / "repository"
    assert (copies / "LICENSE").read_text() == "free"
    assert (copies / "configs" / "small.toml").read_text() == "seed = 1\n"
    assert {"repository/configs/small.toml", "repository/index.html#title"} <= links(small / "site" / "index.html")
    assert {"../index.html#home", "LICENSE", "#title"} <= links(copies / "index.html")
    assert "https://example.org/somebody/wordle-rl" in links(small / "site" / "index.html")


BROKEN = [("docs/index.md", "index.md#gone"), ("docs/index.md", "../gone.toml"), ("README.md", "docs/gone.md")]


@pytest.mark.parametrize(("page", "target"), BROKEN)
def test_a_broken_link_fails(small: Path, page: str, target: str) -> None:
    with (small / page).open("a") as file:
        file.write(f"\n[broken]({target})\n")
    done = build(small, small / "site")
    assert done.returncode == 1
    assert target.split("#")[-1] in done.stderr


def links(page: Path) -> set[str]:
    return set(re.findall(r'href="([^"]+)"', page.read_text(encoding="utf-8")))


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]*\bsrc="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*\bhref="([^"]+)"', text)
        assert [address for address in loaded if re.match(r"\w+:|//", address)] == [], page.name
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\"']+", sheet.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_has_every_public_name_with_its_sections(site: Path, room: str) -> None:
    text = (site / "reference" / f"{room}.html").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "reference" / f"{room}.md").read_text(encoding="utf-8")
    public = set()
    for path in re.findall(r"^::: wordle_rl\.([\w.]+)$", page, re.MULTILINE):
        try:
            module = importlib.import_module(f"wordle_rl.{path}")
        except ModuleNotFoundError:  # a function that is shown alone
            public.add(path)
            continue
        own = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
        public |= {f"{path}.{name}" for name in getattr(module, "__all__", own) if not name.startswith("_")}
    shown = set(re.findall(r'id="wordle_rl\.([\w.]+)"', text))
    # A function that shares its name with the file it is in is shown under that file.
    missing = {name for name in public if not {name, f"{name}.{name.rpartition('.')[2]}"} & shown}
    assert (bool(public), missing) == (True, set())
    assert not re.search(r"<p>(?:Args|Attributes|Examples|Raises|Returns|Yields):", text), "a section is shown as text"


@needs_chromium
def test_search_works_from_the_file_system(site: Path) -> None:
    with chromium() as browser:
        browser.driver.get((site / "index.html").as_uri())
        browser.run("document.querySelector('#__search').click()")
        browser.run(
            "const query = document.querySelector('[data-md-component=search-query]');"
            "query.value = 'hindsight'; query.dispatchEvent(new Event('keyup'))"
        )
        browser.until("return document.querySelector('.md-search-result__item')")
        assert browser.complaints() == []
