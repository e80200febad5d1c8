"""Consoles of the commands: results go to standard output, progress, notes and advice to standard error.

`--quiet`, which every command has, silences the second. Errors are written past it.

Everything is printed as plain text, because names of files, players and words may contain square brackets. What a
terminal would obey in them is shown as an escape.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from wordle_rl.runs.foreign_text import visible, visible_json


class PlainConsole(Console):
    """A console on which text never moves the cursor, sets a title or writes to the clipboard; only its own styles do.

    Everything that rich shows passes through `render`, tables and progress bars too. Strings pass through `render_str`
    first, where rich would drop some controls without a trace.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a string with its controls as escapes."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything with its controls as escapes; segments with `control` are rich's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


class PlainLogRecord(logging.LogRecord):
    """A log record with the controls of others in its message as escapes."""

    def getMessage(self) -> str:
        """Return the message with its arguments."""
        return visible(super().getMessage(), keeps_colors=True)


# A terminal's lines break between words; in a pipe a line stays whole, so that scripts find it.
out = PlainConsole(soft_wrap=not sys.stdout.isatty(), markup=False, highlight=False)
messages = PlainConsole(stderr=True, markup=False, highlight=False)


def print_json(value: Any) -> None:
    """Print JSON and nothing else on standard output."""
    # Escapes keep every character where the encoding of the output has not all of them.
    in_unicode = str(sys.stdout.encoding).lower().startswith("utf")
    sys.stdout.write(visible_json(json.dumps(value, indent=2, ensure_ascii=not in_unicode)) + "\n")


def show(value: Any, lines: Iterable[object], as_json: bool) -> None:
    """Print a result: the value as JSON, or the lines and tables that tell it."""
    if as_json:
        print_json(value)
        return
    for line in lines:
        out.print(line)
