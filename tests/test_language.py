"""Laws of the words: the glossary's terms are used, their synonyms are not, and docstrings name the thing."""

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")])
TOOLS = sorted(path for room in ("benchmarks", "environments", "scripts") for path in (ROOT / room).rglob("*.py"))
QUESTIONS = re.compile(r"(What|Whether|How|Where|Which|Who|When|Why|That|The same)\b")
BANNED_NAMES = {
    "book", "standings", "Standings", "Asked", "Conditions", "Running", "SampleGames", "scout", "worth", "is_settled",
    "feedback_matrix", "start_anew", "learnt_mask",
}  # fmt: skip
"""Earlier names of things that the glossary calls otherwise."""
BANNED_PHRASES = {
    "again from the start": r"anew",
    "resume, continue": r"go(?:es|ing)? on|went on",
    "report, print, log": r"told|telling|tells?(?!(?: \w+){0,4} apart)",
    "a completion, its text": r"said|speaks?|speaking|spoken",
    "trained on": r"learnt|unlearnt",
    "this many": r"so (?:many|often)",
    "value, priority": r"worth",
    "probe": r"scout\w*",
    "std": r"(?<!evenly )spread",
    "thinking": r"speechless|thinks? aloud",
    "prefix guesses": r"given (?:turns?|guess(?:es)?|starts?|boards?)",
    "initial state": r"start (?:boards?|states?)",
    "marks, observation, completion": r"answers (?:to|of) (?:guesses|the (?:policy|model|game))|user's answer",
}
"""What a docstring or an error says instead -> the words it leaves out."""
ALLOWED_PHRASES = {
    "chat/templates.py": {"a completion, its text"},  # a template's own variables, and what variants say they changed
    "prompt/prompter.py": {"report, print, log"},  # the rules, as a model reads them
    "data/external.py": {"initial state"},  # rows of `_rl_start_states.jsonl`
    "integrations/trl_environment.py": {"report, print, log"},  # the rules, as a model reads them
    "report/card.py": {"again from the start"},  # the name of an argument
}
"""File -> the entries of BANNED_PHRASES that it may use, where the word is the right one."""


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


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings, error texts and other strings of several words, with the numbers of their first lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, " ".join(node.value.split())


def banned(path: Path, allowed: Collection[str] = ()) -> list[str]:
    """Words that a file's sentences should leave out, each with what to say instead."""
    return [
        f"{path.name}:{line}: {found[0]!r}, say {instead!r}"
        for line, text in sentences(path)
        for instead, words in BANNED_PHRASES.items()
        if instead not in allowed and (found := re.search(rf"\b(?:{words})\b", text, re.IGNORECASE))
    ]


def names(path: Path) -> Iterator[str]:
    """Names that a file defines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


@pytest.mark.parametrize("path", [*SOURCES, *TOOLS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_docstring_begins_with_a_noun_or_a_verb(path: Path) -> None:
    assert [f"{path.name}:{line}: {text}" for line, text in docstrings(path) if QUESTIONS.match(text)] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_name_is_a_banned_synonym(path: Path) -> None:
    assert set(names(path)) & BANNED_NAMES == set()
    assert path.stem not in ("utils", "helpers", "common")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_docstrings_and_errors_use_the_field_s_words(path: Path) -> None:
    name = "/".join(path.relative_to(ROOT).parts[2:])
    assert banned(path, ALLOWED_PHRASES.get(name, ())) == []


@pytest.mark.parametrize("name", ALLOWED_PHRASES)
def test_every_allowed_phrase_is_used(name: str) -> None:
    path = ROOT / "src" / "wordle_rl" / name
    assert all(banned(path, ALLOWED_PHRASES[name] - {instead}) for instead in ALLOWED_PHRASES[name])


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


def test_the_scan_sees_a_banned_word_and_passes_an_allowed_one(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        'def resume():\n    """Resume.\n\n    It goes\n    on.\n    """\n    raise ValueError(f"start {1} anew")\n'
    )
    assert banned(path) == [
        "module.py:2: 'goes on', say 'resume, continue'",
        "module.py:7: 'anew', say 'again from the start'",
    ]
    assert banned(path, {"resume, continue", "again from the start"}) == []
