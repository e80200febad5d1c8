"""Laws of the notebook `learn.ipynb`: its committed outputs are those of its cells, and show a run that learns."""

import hashlib
import json
import re
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "learn.ipynb"
EXECUTED = "3a465c2a27e196a26e8a79b5a71bad80409cc9174bf3b936c87dcac88aa28969"
"""Digest of the cells whose outputs are committed. If you change one, run them all: `jupyter execute --inplace`."""

SMALLER = {
    "num_words, num_rounds = 256, 12": "num_words, num_rounds = 8, 1",
    '"expert_iteration.rounds": num_rounds,': (
        '"expert_iteration.rounds": num_rounds, "traces.num_games": 64, "sft.epochs": 1,'
    ),
}
"""Numbers of the notebook that a test has no time for."""


def code_cells() -> list[dict]:
    return [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_its_committed_outputs_are_those_of_its_cells_and_show_that_it_learns() -> None:
    cells = code_cells()
    assert hashlib.sha256("\n".join("".join(cell["source"]) for cell in cells).encode()).hexdigest() == EXECUTED
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"stream"}, "no error, no bar, no picture"
    said = "".join("".join(output["text"]) for output in outputs)
    assert not re.search(r"/(root|home|work|tmp|usr|content)/|\r|\d%\||Warning", said)
    rounds = [int(percent) for percent in re.findall(r"^ +\d+ +(\d+)%", said, flags=re.MULTILINE)]
    assert len(rounds) == 12
    assert rounds[-1] >= rounds[0] + 50
    exams = re.findall(r"^(\w+): wins (\d+)% .* words played", said, flags=re.MULTILINE)
    wins = {stage: int(percent) for stage, percent in exams}
    assert wins["expert_iteration"] >= wins["sft"] + 50


@pytest.mark.slow
def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    (tmp_path / "examples").mkdir()
    monkeypatch.chdir(tmp_path / "examples")
    names: dict = {}
    unused = set(SMALLER)
    for cell in code_cells():
        source = "".join(line for line in cell["source"] if not line.startswith("%pip"))
        for line, other in SMALLER.items():
            unused -= {line} if line in source else set()
            source = source.replace(line, other)
        exec(compile(source, "cell", "exec"), names)
    assert unused == set(), "lines that the notebook does not have"
    assert (tmp_path / "runs" / "learn" / "expert_iteration").is_dir()
    said = capsys.readouterr().out
    assert "words not played" in said
    assert "secret:" in said
