"""The page: one HTML file with style and script, with or without the games of a run.

It loads nothing from elsewhere, and its policy lets only its own script run. A page without games asks its server.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from wordle_rl.report.page import from_template

SCRIPTS = ("dom", "board", "rules", "store", "play", "watch", "filters", "replay", "groups", "compare", "main")
"""The files of the script, in order of dependency."""


@dataclass(frozen=True)
class Page:
    """A page, and its content security policy."""

    html: str
    policy: str


def render_page(exported: dict[str, Any] | None = None, title: str = "Watch and play") -> Page:
    """Render the page.

    Args:
        exported: Games and words, see `export.exported_run`. None: the page asks its server.
        title: Heading.
    """
    script = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    style = (files("wordle_rl.report") / "static" / "page.css").read_text(encoding="utf-8") + _asset("watch.css")
    policy = _policy(script, connects=exported is None)
    html = from_template(
        _asset("page.html"),
        policy=policy,
        title=title,
        style=style,
        script=script,
        data="" if exported is None else _packed(exported),
    )
    return Page(html, policy)


def page_headers(page: Page) -> dict[str, str]:
    """Return the HTTP headers of a page."""
    return {
        "Content-Security-Policy": page.policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


def _policy(script: str, *, connects: bool) -> str:
    # Only this script can run, and only the page's own server can be contacted.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    server = "'self'" if connects else "'none'"
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'sha256-{digest}'",
            "style-src 'unsafe-inline'",
            "img-src data:",
            f"connect-src {server}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _packed(value: dict[str, Any]) -> str:
    # Base64 has no characters that are special in HTML; mtime=0 makes the result deterministic.
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _asset(name: str) -> str:
    return (files("wordle_rl.serve.watch") / "static" / name).read_text(encoding="utf-8")
