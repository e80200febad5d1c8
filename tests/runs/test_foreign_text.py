"""Laws of text of others: a terminal obeys none of it, Markdown shows it, a spreadsheet computes none of it."""

import csv
import json
import unicodedata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from wordle_rl.evaluate.records import write_rows
from wordle_rl.runs.foreign_text import markdown, spreadsheet_cell, visible, visible_json, without_quote

BIDI = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("1\x1b\x9b\x07\r\u202e\u2066`|[]()<>#*_!&$~=+-@'\\\n")))


def obeyed(text: str) -> list[str]:
    """The characters that Unicode calls controls, lone surrogates, or marks of direction."""
    return [
        c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(c) in BIDI
    ]


@given(TEXTS)
def test_a_terminal_obeys_nothing_but_tabs_and_line_breaks(text: str) -> None:
    assert set(obeyed(visible(text))) <= {"\t", "\n"}
    assert visible(visible(text)) == visible(text)
    assert set(obeyed(visible(f"\x1b[1;31m{text}", keeps_colors=True))) <= {"\t", "\n", "\x1b"}


@given(TEXTS)
def test_json_is_the_same_value(text: str) -> None:
    shown = visible_json(json.dumps({"a": text}, indent=2, ensure_ascii=False))
    assert set(obeyed(shown)) <= {"\n"}
    assert json.loads(shown) == {"a": text}


@given(TEXTS)
def test_markdown_shows_the_text_and_nothing_else(text: str) -> None:
    shown = visible(" ".join(text.split()))
    [opening, inline, closing] = MarkdownIt("gfm-like", {"linkify": False}).parse(f"{markdown(text)} x")
    assert (opening.type, closing.type) == ("paragraph_open", "paragraph_close")
    assert {child.type for child in inline.children} <= {"text", "text_special"}
    assert "".join(child.content for child in inline.children) == f"{shown} x".strip()


@given(st.one_of(TEXTS, st.from_regex(r"'{0,2}[=+\-@\t\r][0-9.a-z ]*", fullmatch=True)))
def test_no_cell_is_a_formula_and_each_reads_back_the_same(text: str) -> None:
    cell = spreadsheet_cell(text)
    assert without_quote(cell) == text
    if cell == text and text[:1] in set("=+-@\t\r") - {""}:
        assert not set(text) & set("=()|!'\"*/<>&@"), "a number, or values of turns"


def test_a_table_holds_no_formula_and_its_numbers_stay(tmp_path: Path) -> None:
    names = ["=HYPERLINK(0)", "+1+1", "-cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "- crane slate", "-1.5", "calm", "a\r=1"]
    write_rows(tmp_path / "a.csv", [{"secret": "crane", "regret": -1.5, "won": True, "name": name} for name in names])
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [*(f"'{name}" for name in names[:5]), *names[5:-1], r"a\r=1"]
    assert {row["regret"] for row in rows} == {"-1.5"}
