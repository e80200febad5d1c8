"""Laws of the tables of commands: every row says how it is tried and what it needs; a row goes only by a decision.

The rows of `coming-from` and `commands` stand in rows.txt, too, so that one that is removed shows in a diff and fails
here: take it out of that file only if the change says why. test_command_rows_run.py does what the rows say.
"""

from pathlib import Path

import pytest
from command_rows import NEEDS, PAGES, TRIED, Row, rows_of, steps_of

ROWS = [row for page in PAGES for row in rows_of(page)]
KNOWN_ROWS = Path(__file__).with_name("rows.txt")


def test_no_row_is_lost() -> None:
    assert [row.name for row in ROWS] == KNOWN_ROWS.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_how_it_is_tried_and_what_it_needs(row: Row) -> None:
    assert set(row.marks) <= {*TRIED, *NEEDS}
    assert set(row.marks) == row.due


@pytest.mark.parametrize(
    ("typed", "due"),
    [
        ("`wordle-rl play`", {"run"}),
        ("`grpo.beta = 0`, then `wordle-rl power 60 70`", {"run", "preflight"}),
        ("`--grpo.engine vllm`", {"vLLM"}),
        ("`python -m wordle_rl.trainers.verl qwen2.5-0.5b --out RUN --show`", {"run", "verl"}),
        ("see a page", {"read"}),
    ],
)
def test_marks_follow_from_what_a_row_has_to_type(typed: str, due: set[str]) -> None:
    assert Row("page", "wanted", typed, ()).due == due


@pytest.mark.parametrize("code", ["grpo.betas", "wordle play", "--csv DIR", '"turn"', "no_such_file.py"])
def test_code_of_no_known_kind_is_an_error(code: str) -> None:
    with pytest.raises(AssertionError):
        steps_of(Row("page", "wanted", f"`{code}`", ()))


def test_settings_go_together_until_one_is_given_again() -> None:
    typed = '`grpo.credit = "game"` with `grpo.beta = 0`, or `"guess"`'
    steps = steps_of(Row("page", "wanted", typed, ()))
    assert [step.settings[("grpo", "credit")] for step in steps] == ["game", "guess"]
    assert all(step.settings[("grpo", "beta")] == 0 for step in steps)
