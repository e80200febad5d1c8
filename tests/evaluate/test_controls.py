"""Laws of controls: SFT alone with nothing withheld, and the start at equal entropy, beside figures played alike."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from training_fixtures import begun, write_config

from wordle_rl.chat.masks import Segment
from wordle_rl.config.files import load_config
from wordle_rl.env import StopReason, Transcript
from wordle_rl.evaluate.entropy import MAX_TEMPERATURE, match_temperature, nats_of, nats_per_game
from wordle_rl.evaluate.records import ControlFacts, Evaluation, EvaluationError
from wordle_rl.game import Rules
from wordle_rl.pipeline import Pipeline
from wordle_rl.report.controls import controlled, controls_at, keep_controls
from wordle_rl.rollout import Trajectory
from wordle_rl.runs import read_object, write_json


@pytest.fixture(scope="module")
def sft_alone(finished_run, word_directory, tmp_path_factory) -> Path:
    """The run's SFT alone, whose teacher keeps nothing, on the same games."""
    directory = tmp_path_factory.mktemp("controls") / "alone"
    config = load_config(write_config(directory.with_suffix(".toml"), word_directory, stages='["sft"]'))
    Pipeline(config, begun(config, directory, finished_run), Console(quiet=True))()
    return directory


@pytest.fixture
def run(finished_run, tmp_path) -> Path:
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


def sampled(run: Path, name: str, temperature: float, control: ControlFacts | None = None) -> Evaluation:
    greedy = Evaluation.load(run / "eval" / f"{name}.json")
    drawn = replace(greedy.conditions, temperature=temperature, seed=1)
    return replace(greedy, conditions=drawn, control=control)


def changed(run: Path, other: Path, section: str, **settings: object) -> Path:
    shutil.copytree(run, other)
    config = read_object(other / "config.json")
    config[section] |= settings
    write_json(other / "config.json", config)
    return other


def test_a_control_run_gives_its_last_models_games_and_what_they_cost(sft_alone: Path) -> None:
    [found] = controls_at(sft_alone)
    assert (found.control.kind, found.control.of) == ("sft_alone", "alone")
    seconds = read_object(sft_alone / "timings.json")["seconds"]
    trained = [s for name, s in seconds.items() if name not in ("eval", "setup")]
    assert found.control.seconds == pytest.approx(sum(trained))
    assert found.records == Evaluation.load(sft_alone / "eval" / "sft.json").records


def test_what_is_no_control_of_the_run_is_refused(run: Path, sft_alone: Path, tmp_path: Path) -> None:
    withholding = changed(sft_alone, tmp_path / "withheld", "traces", rl_only_fraction=0.2)
    for place in (run, withholding, tmp_path / "nothing"):
        with pytest.raises(EvaluationError, match=str(place)):
            controls_at(place)
    other = tmp_path / "other.json"
    replace(controls_at(sft_alone)[0], fingerprint="0" * 64).save(other)
    for control in (changed(sft_alone, tmp_path / "strict", "words", strict_fraction=0.05), other):
        with pytest.raises(EvaluationError, match=str(control)):
            keep_controls(run, [control])
    assert not (run / "controls").exists()


MATCHED = ControlFacts("equal_entropy", "runs/x/grpo", None, 5.0, 5.01, 1.0)


def test_figures_stand_beside_controls_that_played_alike(run: Path, sft_alone: Path) -> None:
    model, [alone] = Evaluation.load(run / "eval" / "grpo.json"), controls_at(sft_alone)
    drawn, matched = sampled(run, "grpo", 1.0), sampled(run, "sft", 0.9, MATCHED)
    assert controlled(model, [alone, drawn, matched]) == [(alone, model), (matched, drawn)]
    assert controlled(model, [alone, matched]) == [(alone, model)], "nothing is played like the other"
    assert controlled(model, [replace(alone, constrain="words")]) == []
    of_another_stage = replace(matched, control=replace(MATCHED, of="runs/x/expert_iteration"))
    assert controlled(model, [of_another_stage, drawn]) == []


def test_each_way_in_which_a_control_was_played_is_kept(run: Path, sft_alone: Path, tmp_path: Path) -> None:
    several = Path(shutil.copytree(sft_alone, tmp_path / "several"))
    greedy = Evaluation.load(several / "eval" / "sft.json")
    sampled(several, "sft", 1.0).save(several / "eval" / "sft-sampled.json")
    replace(greedy, constrain="words").save(several / "eval" / "sft-constrained.json")
    keep_controls(run, [several])
    kept = {path.stem: Evaluation.load(path) for path in (run / "controls").iterdir()}
    assert {name: (each.constrain, each.conditions.temperature) for name, each in kept.items()} == {
        "several": ("none", 0.0), "several-sampled": ("none", 1.0), "several-constrained": ("words", 0.0),
    }  # fmt: skip
    again = Path(shutil.copytree(several, tmp_path / "elsewhere" / "several"))
    with pytest.raises(EvaluationError, match="two controls have the name several"):
        keep_controls(run, [several, again])


def test_a_control_stands_beside_evaluations_played_alike(cli, run: Path, sft_alone: Path) -> None:
    played, other = sampled(run, "grpo", 1.0), run / "eval" / "other.json"
    played.save(other)
    matched = run / "matched.json"
    sampled(run, "sft", 0.9, MATCHED).save(matched)
    beside = (run / "eval" / "sft.json", "--names", "played", "before", "--control", matched)
    code, _, err = cli("compare", other, *beside)
    assert code == 0, err
    code, _, err = cli("compare", run, *beside)
    assert (code, str(matched) in err) == (2, True)


def test_report_keeps_controls_and_quotes_them(cli, run: Path, sft_alone: Path) -> None:
    def page(*more: object) -> str:
        code, _, err = cli("report", run, *more)
        assert code == 0, err
        return (run / "report.html").read_text()

    assert "SFT alone, nothing kept" not in page()
    assert "SFT alone, nothing kept" in page("--control", sft_alone)
    sampled(run, "grpo", 1.0).save(run / "controls" / "grpo-sampled.json")
    sampled(run, "sft", 0.9, MATCHED).save(run / "controls" / "matched.json")
    shown = page()
    assert "SFT alone, nothing kept" in shown
    assert "temperature 0.9: 5.00 nats a game" in shown


def trajectory(*segments: tuple[float, ...]) -> Trajectory:
    transcript = Transcript("crane", Rules(), (), StopReason.OUT_OF_TURNS)
    made = (Segment((1,), (2,) * len(s), (1,) * len(s), s, ((0, 0, len(s)),)) for s in segments)
    return Trajectory(transcript, tuple(made))


def test_nats_of_a_game_are_those_of_all_its_tokens() -> None:
    half = math.log(0.5)
    assert nats_per_game([nats_of(trajectory((half, 0.0, half)))]) == pytest.approx(2 * math.log(2))
    assert nats_per_game([*map(nats_of, (trajectory((half,), (half,)), trajectory((0.0,))))]) == pytest.approx(
        math.log(2)
    )
    with pytest.raises(EvaluationError):
        nats_per_game([nats_of(trajectory())])


def coin_entropy(temperature: float) -> float:
    """Entropy in nats of one token of two, of logits 2 and 0, at a temperature."""
    q = 1 / (1 + math.exp(2 / temperature))  # the rarer one
    return -(1 - q) * math.log1p(-q) - q * math.log(q)


@pytest.mark.parametrize("wanted", [0.3, 0.9, 1.0, 2.7])
def test_the_temperature_of_an_entropy_is_found(wanted: float) -> None:
    temperature, nats = match_temperature(coin_entropy, coin_entropy(wanted), tolerance=1e-6, max_steps=60)
    assert temperature == pytest.approx(wanted, rel=1e-4)
    assert nats == pytest.approx(coin_entropy(wanted), rel=1e-6)


@pytest.mark.parametrize("wanted", [0.6, 0.9, 2.7])
def test_within_one_percent_five_temperatures_are_enough(wanted: float) -> None:
    tried: list[float] = []
    match_temperature(lambda at: (tried.append(at), coin_entropy(at))[1], coin_entropy(wanted))
    assert len(tried) <= 5


@pytest.mark.parametrize("target", [0.0, coin_entropy(MAX_TEMPERATURE) + 0.01])
def test_an_entropy_that_no_temperature_has_is_refused(target: float) -> None:
    with pytest.raises(EvaluationError):
        match_temperature(coin_entropy, target)


def test_eval_draws_at_equal_entropy(cli, finished_run, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr("wordle_rl.evaluate.entropy._GAMES", 96)  # so few that a temperature takes a tenth of a second
    command = ("eval", "--player", finished_run / "sft", "--match-entropy-of", finished_run / "grpo", "--no-regret")
    code, _, err = cli(*command, "--max-games", 2, "--out", tmp_path / "matched.json")
    assert code == 0, err
    found = Evaluation.load(tmp_path / "matched.json")
    assert found.control is not None
    assert (found.control.kind, found.control.temperature_of) == ("equal_entropy", 1.0)
    assert found.control.nats == pytest.approx(found.control.nats_of, rel=0.05)
    assert 0.0 < found.conditions.temperature <= 4.0


def test_a_model_is_as_random_as_itself_at_its_own_temperature(cli, finished_run, monkeypatch, tmp_path: Path) -> None:
    """To the last digit: both play with the same seed, and 2 is the second temperature that is tried."""
    monkeypatch.setattr("wordle_rl.evaluate.entropy._GAMES", 32)
    command = ("eval", "--player", finished_run / "sft", "--match-entropy-of", finished_run / "sft", "--no-regret")
    code, _, err = cli(*command, "--temperature", 2.0, "--max-games", 2, "--out", tmp_path / "matched.json")
    assert code == 0, err
    found = Evaluation.load(tmp_path / "matched.json")
    assert found.control is not None
    assert (found.control.temperature_of, found.conditions.temperature) == (2.0, 2.0)
    assert found.control.nats == found.control.nats_of
