"""Laws of the words: the glossary's terms are used, their synonyms are not, and docstrings name the thing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")])
QUESTIONS = re.compile(r"(What|Whether|How|Where|Which|Who|When|Why|That)\b")
BANNED_NAMES = {
    "book", "standings", "Standings", "Asked", "Conditions", "Running", "SampleGames", "scout", "worth", "is_settled",
    "feedback_matrix", "start_anew", "learnt_mask",
}  # fmt: skip
"""Earlier names of things that the glossary calls otherwise."""


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """First lines of docstrings, of attributes too, with their line numbers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for child in ast.iter_child_nodes(node):
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                yield child.lineno, child.value.value.split("\n")[0]


def names(path: Path) -> Iterator[str]:
    """Names that a file defines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_docstring_begins_with_a_noun_or_a_verb(path: Path) -> None:
    assert [f"{path.name}:{line}: {text}" for line, text in docstrings(path) if QUESTIONS.match(text)] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_name_is_a_banned_synonym(path: Path) -> None:
    assert set(names(path)) & BANNED_NAMES == set()
    assert path.stem not in ("utils", "helpers", "common")


def glossary() -> list[str]:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| **")]
    return [term for row in rows for term in re.findall(r"\*\*(.+?)\*\*", row)]


def test_the_glossary_has_about_twenty_terms() -> None:
    assert 20 <= len(glossary()) <= 36


@pytest.mark.parametrize("term", glossary())
def test_each_term_of_the_glossary_is_used_in_code(term: str) -> None:
    spelled = re.compile("[ _-]".join(map(re.escape, re.split(r"[ _-]", term))), re.IGNORECASE)
    assert any(spelled.search(path.read_text(encoding="utf-8")) for path in SOURCES), term


def test_the_scan_sees_a_question_and_a_banned_name(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('def scout():\n    """What it does."""\n')
    assert [text for _, text in docstrings(path) if QUESTIONS.match(text)] == ["What it does."]
    assert set(names(path)) & BANNED_NAMES == {"scout"}
