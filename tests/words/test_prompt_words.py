"""Laws of the words that prompts use: all of them are known, and none is a strict word."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from wordle_rl.words import PROMPT_WORDS, WordList
from wordle_rl.words.prompt_words import EXAMPLE_WORDS
from wordle_rl.words.split import split_secrets, words_of_text

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "wordle_rl"
SOURCES = (
    "prompt/prompter.py", "prompt/english.py", "prompt/symbols.py", "prompt/textarena_style.py", "prompt/compact.py",
    "prompt/spelled.py", "prompt/knowledge.py", "prompt/reply.py", "teachers/games.py",
)  # fmt: skip


def texts(tree: ast.AST) -> Iterator[str]:
    """Strings in code, apart from docstrings and from keys of dictionaries, such as the role of a message."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    docstrings |= {id(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
    # Errors reach the person at the keyboard, and `_checked` is given the name of a method for them.
    checked = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "self._checked"]
    docstrings |= {id(node.args[0]) for node in checked}
    to_the_user = ("fault_in", "name_of", "find_style")
    raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    raised += [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in to_the_user]
    docstrings |= {id(part) for node in raised for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def told(source: str) -> set[str]:
    """Words of a file that may reach a learner; of the teacher's games its thoughts alone."""
    tree: ast.AST = ast.parse((PACKAGE / source).read_text(encoding="utf-8"))
    if source == "teachers/games.py":
        tree = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "narration")
    return {word for text in texts(tree) for word in words_of_text(text) if 3 <= len(word) <= 10}


@pytest.mark.parametrize("source", SOURCES)
def test_every_word_of_a_prompt_is_known(source: str) -> None:
    assert told(source) or source == "prompt/compact.py"  # signs alone
    assert told(source) <= PROMPT_WORDS


def test_the_example_of_every_length_is_known() -> None:
    assert [len(word) for word in EXAMPLE_WORDS] == list(range(3, 11))
    assert set(EXAMPLE_WORDS) <= PROMPT_WORDS


def test_no_word_of_a_prompt_is_strict_however_many_are() -> None:
    answers = ("guess", "think", "after", "crane", "abide", "babes", "civic", "drape")
    split = split_secrets(WordList("eight", answers, answers), strict_fraction=0.75)
    assert len(split.test) == 6
    assert set(split.strict) == set(split.test) - PROMPT_WORDS
    assert set(split.strict) < set(split.test)
