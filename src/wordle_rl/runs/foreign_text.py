"""Text of others made harmless where it is shown: on a terminal, in Markdown, in a table for spreadsheets.

Replies of models, names and paths are text of others. A terminal obeys what is hidden in them, a page of the hub takes
them as Markdown, and a spreadsheet as formulas.
"""

import re
from contextlib import suppress
from typing import Any

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""C0 and C1 controls but tab and line break, marks that reorder text, and halves of characters."""
_COLOR = re.compile("(\x1b\\[[\\d;]*m)")
_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>|~$&#@]|^[-+]|:(?=//)|(?<=www)\.")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_LIST_WITH_GAPS = re.compile(r"-( [\w.-]+)*")
"""Values of turns, of which the first is missing."""


def visible(text: str, *, keeps_colors: bool = False) -> str:
    """Replace characters that a terminal obeys by their escapes; tabs and line breaks stay.

    `keeps_colors` is for text of libraries that color their own messages.

    Examples:
        >>> visible("\\x1b]52;c;AA\\x1b\\\\ 1\\u202e2\\n")
        '\\\\x1b]52;c;AA\\\\x1b\\\\ 1\\\\u202e2\\n'
    """
    if keeps_colors:
        return "".join(part if _COLOR.fullmatch(part) else visible(part) for part in _COLOR.split(text))
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def visible_json(text: str) -> str:
    """Escape the same characters in JSON, which stays the same value.

    Examples:
        >>> visible_json('"\\x9b31m"')
        '"\\\\u009b31m"'
    """
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def markdown(text: str) -> str:
    """Return Markdown that shows a text in one line as it is: no link, heading, HTML, formula or cell.

    Examples:
        >>> markdown("a | [b](http://c)\\n# <d>")
        'a \\\\| \\\\[b\\\\](http\\\\://c) \\\\# \\\\<d\\\\>'
    """
    escaped = _MARKDOWN.sub(r"\\\g<0>", visible(" ".join(text.split())))
    return re.sub(r"^(\d+)(?=[.)]( |$))", r"\1\\", escaped)  # the number of a list


def spreadsheet_cell(value: object) -> object:
    """Put a quote before a text that a spreadsheet would take as a formula; numbers stay numbers.

    A text that already has a quote there gets another one, so that `without_quote` returns what was written.

    Examples:
        >>> spreadsheet_cell("=1+1"), spreadsheet_cell("-1.5"), spreadsheet_cell("- crane"), spreadsheet_cell(-1.5)
        ("'=1+1", '-1.5', '- crane', -1.5)
    """
    if not isinstance(value, str) or not _FORMULA.match(value) or _LIST_WITH_GAPS.fullmatch(value):
        return value
    with suppress(ValueError):
        float(value)
        return value
    return f"'{value}"


def without_quote(cell: Any) -> Any:
    """Return the text of a cell that `spreadsheet_cell` wrote."""
    return cell[1:] if isinstance(cell, str) and cell[:1] == "'" and _FORMULA.match(cell) else cell
