"""Laws of controls: SFT alone with nothing withheld, and the start at equal entropy, beside figures played alike."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rich.console import Console
from training_fixtures import begun, write_config

from wordle_rl.config import load_config
from wordle_rl.evaluate.controls import controlled, controls_at, keep_controls
from wordle_rl.evaluate.records import ControlFacts, Evaluation, EvaluationError
from wordle_rl.pipeline import Pipeline


@pytest.fixture(scope="module")
def sft_alone(finished_run, word_directory, tmp_path_factory) -> Path:
    """The run's SFT alone, whose teacher keeps nothing, on the same games."""
    directory = tmp_path_factory.mktemp("controls") / "alone"
    config = load_config(write_config(directory.with_suffix(".toml"), word_directory, grpo__steps="0"))
    begun(config, directory, finished_run)
    Pipeline(config, directory, Console(quiet=True))()
    return directory


@pytest.fixture
def run(finished_run, tmp_path) -> Path:
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


def sampled(run: Path, name: str, temperature: float, control: ControlFacts | None = None) -> Evaluation:
    greedy = Evaluation.load(run / "eval" / f"{name}.json")
    drawn = replace(greedy.conditions, temperature=temperature, seed=1)
    return replace(greedy, conditions=drawn, control=control)


def changed(run: Path, tmp_path: Path, **settings: dict) -> Path:
    other = Path(shutil.copytree(run, tmp_path / "changed"))
    config = json.loads((other / "config.json").read_text())
    for section, values in settings.items():
        config[section] |= values
    (other / "config.json").write_text(json.dumps(config))
    return other


def test_a_control_run_gives_its_last_models_games_and_what_they_cost(sft_alone: Path) -> None:
    [found] = controls_at(sft_alone)
    assert found.control is not None
    assert (found.control.kind, found.control.of) == ("sft_alone", "alone")
    seconds = json.loads((sft_alone / "timings.json").read_text())["seconds"]
    assert found.control.seconds == pytest.approx(
        sum(s for name, s in seconds.items() if name not in ("eval", "setup"))
    )
    assert found.records == Evaluation.load(sft_alone / "eval" / "sft.json").records


def test_a_run_that_learnt_by_play_or_withheld_words_is_no_control(run: Path, sft_alone: Path, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="grpo"):
        controls_at(run)
    with pytest.raises(EvaluationError, match="keeps words from its teacher"):
        controls_at(changed(sft_alone, tmp_path, traces={"rl_only_fraction": 0.2}))
    with pytest.raises(EvaluationError, match="neither a control run nor a file"):
        controls_at(tmp_path / "nothing")


def test_a_control_of_other_words_is_refused(run: Path, sft_alone: Path, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="holds out other words"):
        keep_controls(run, [changed(sft_alone, tmp_path, words={"strict_fraction": 0.05})])
    other = replace(controls_at(sft_alone)[0], fingerprint="0" * 64)
    other.save(tmp_path / "other.json")
    with pytest.raises(EvaluationError, match="other words or rules"):
        keep_controls(run, [tmp_path / "other.json"])
    assert not (run / "controls").exists()


def test_figures_stand_beside_controls_that_played_alike(run: Path, sft_alone: Path) -> None:
    model = Evaluation.load(run / "eval" / "grpo.json")
    alone = controls_at(sft_alone)[0]
    facts = ControlFacts("equal_entropy", "runs/x/grpo", None, 5.0, 5.01, 1.0)
    drawn, matched = sampled(run, "grpo", 1.0), sampled(run, "sft", 0.9, facts)
    assert controlled(model, [alone, drawn, matched]) == [(alone, model), (matched, drawn)]
    assert controlled(model, [alone, matched]) == [(alone, model)], "nothing is played like the other"
    limited = replace(alone, constrain="words")
    assert controlled(model, [limited]) == []


def test_report_quotes_controls_and_says_which_are_missing(cli, run: Path, sft_alone: Path) -> None:
    code, _, err = cli("report", run)
    assert code == 0, err
    page = (run / "report.html").read_text()
    assert "GRPO and its controls" in page
    assert "compare it with SFT alone for as long and with its start, sampled at equal entropy." in page
    code, _, err = cli("report", run, "--control", sft_alone)
    assert code == 0, err
    page = (run / "report.html").read_text()
    assert "SFT alone, nothing kept, greedy" in page
    assert "compare it with its start, sampled at equal entropy." in page
    facts = ControlFacts("equal_entropy", "runs/x/grpo", None, 5.0, 5.01, 1.0)
    sampled(run, "grpo", 1.0).save(run / "controls" / "grpo-sampled.json")
    sampled(run, "sft", 0.9, facts).save(run / "controls" / "matched.json")
    assert cli("report", run)[0] == 0
    page = (run / "report.html").read_text()
    assert "its start, temperature 0.9: 5.00 nats a game, not 5.01" in page
    assert "GRPO, temperature 1" in page
    assert "To show that a gain of GRPO" not in page
