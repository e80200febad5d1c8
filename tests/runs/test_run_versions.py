"""Laws of runs of an older version: they are read as they were, and not resumed."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from training_fixtures import TINY, write_config
from version_1 import version_1

from wordle_rl.config import RunConfig
from wordle_rl.runs import Run, RunError, check_version, read_object
from wordle_rl.words.split import Split


@pytest.fixture
def older(finished_run: Path, word_directory: Path, tmp_path: Path) -> Path:
    """The run in miniature as version 1 left it: with its config.json, and with `share` for `alpha`."""
    directory = tmp_path / "older"
    shutil.copytree(finished_run, directory)
    play = {"group_size": 4, "precision": "fp32", "sampling": {"max_completion_tokens": 12}}
    values = version_1(
        words={"source": str(word_directory)},
        game={"style": "compact", "thinking": "off"},
        traces={"num_games": 200},
        model={**TINY, "max_length": 128},
        sft={"batch_size": 32, "precision": "fp32"},
        grpo={"steps": 2, "groups_per_step": 2, **play},
        eval={"max_completion_tokens": 12},
    )
    (directory / "config.json").write_text(json.dumps(values))
    return directory


def kept(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_run_of_version_1_is_read_by_every_command_that_reads(older: Path, finished_run: Path, cli) -> None:
    page, card = older / "report.html", older / "grpo" / "README.md"
    page.unlink()
    assert cli("report", older)[0] == 0
    assert page.stat().st_size > 10_000
    assert cli("card", older)[0] == 0
    line = next(line for line in card.read_text().splitlines() if "Games of the model itself" in line)
    assert line.endswith("GRPO: 2 steps, each of 2 groups of 4 games per process; reward: preset `sparse`")
    assert line in (finished_run / "grpo" / "README.md").read_text(), "as the card of the run of today says"
    assert cli("audit", older)[0] == 0
    assert cli("compare", older / "eval" / "sft.json", older / "eval" / "grpo.json")[0] == 0
    out = older.parent / "again.json"
    assert cli("eval", "--player", older, "--max-games", 3, "--no-regret", "--out", out)[0] == 0
    assert read_object(out)["conditions"]["max_completion_tokens"] == 12, "the budget of the run"


@pytest.mark.parametrize(("name", "told"), [("selected.json", "alpha"), ("selected.json", "share")])
def test_the_weights_that_were_kept_are_on_the_card_of_either_version(name, told, older: Path, cli) -> None:
    (older / "grpo" / name).write_text(json.dumps({"step": 2, told: 0.5, "greedy_cost": 4.0, "cost": 4.0}))
    assert cli("card", older)[0] == 0
    assert "50 % of the way" in (older / "grpo" / "README.md").read_text()


def test_a_run_of_version_1_is_not_resumed_and_left_as_it_is(older: Path, word_directory: Path, cli) -> None:
    config, before = write_config(older.parent / "mini.toml", word_directory), kept(older)
    code, _, error = cli("run", config, "--out", older)
    assert (code, error.count("\n")) == (2, 1)
    assert f"{older} holds a run with settings of version 1, this is version 2: it can be read, not resumed" in error
    assert "--overwrite" in error
    assert kept(older) == before
    code, _, error = cli("run", older / "config.json", "--out", older.parent / "other")
    assert (code, error.count("\n")) == (2, 1)
    assert "was stored by an older wordle-rl; write its settings into a TOML file" in error


def test_a_run_of_another_version_is_refused_by_whoever_opens_it(tmp_path: Path, split: Split) -> None:
    run = Run.create(tmp_path / "run", RunConfig(), split)
    check_version(run.directory)
    for version in (None, 1, 3):
        values = {**RunConfig().stored(), "config_version": version}
        if version is None:
            del values["config_version"]
        (run.directory / "config.json").write_text(json.dumps(values))
        for refuse in (lambda: check_version(run.directory), lambda: Run.create(run.directory, RunConfig(), split)):
            with pytest.raises(RunError, match=rf"settings of version {version or 1}, this is version 2"):
                refuse()


def test_a_later_version_is_not_guessed_at(older: Path, cli) -> None:
    (older / "config.json").write_text(json.dumps(RunConfig().stored() | {"config_version": 9}))
    code, _, error = cli("card", older)
    assert (code, error.count("\n")) == (2, 1)
    assert "config_version 9 is not known here" in error
