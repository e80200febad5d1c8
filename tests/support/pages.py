"""A page as a browser takes it apart, and the code blocks of Markdown files."""

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


@dataclass
class Page(HTMLParser):
    """A page as a browser takes it apart: its elements, its text, the content of its scripts."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data
        elif self.cdata_elem is None:
            self.text += data

    @property
    def games(self) -> dict[str, Any]:
        payload: dict[str, Any] = json.loads(self.scripts[0])
        return payload


def parse_page(html: str) -> Page:
    page = Page()
    page.feed(html)
    return page


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
