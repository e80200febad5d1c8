"""Laws of equal entropy: a game's nats are counted from its sampled tokens, and bisection finds their temperature."""

import math
from pathlib import Path

import pytest

from wordle_rl.env import StopReason, Transcript
from wordle_rl.evaluate.entropy import MAX_TEMPERATURE, match_temperature, nats_per_game
from wordle_rl.evaluate.records import EvaluationError
from wordle_rl.game import Rules
from wordle_rl.rollout import Segment, Trajectory


def played(*segments: tuple[float, ...]) -> Trajectory:
    transcript = Transcript("crane", Rules(), (), StopReason.OUT_OF_TURNS)
    made = (Segment((1,), (2,) * len(s), (1,) * len(s), s, ((0, 0, len(s)),)) for s in segments)
    return Trajectory(transcript, tuple(made))


def test_nats_of_a_game_are_those_of_all_its_tokens() -> None:
    half = math.log(0.5)
    assert nats_per_game([played((half, 0.0, half))]) == pytest.approx(2 * math.log(2))
    assert nats_per_game([played((half,), (half,)), played((0.0,))]) == pytest.approx(math.log(2))
    with pytest.raises(EvaluationError, match="no tokens were sampled"):
        nats_per_game([played()])


def coin_entropy(temperature: float) -> float:
    """Entropy in nats of one token of two, of logits 2 and 0, at a temperature."""
    p = 1 / (1 + math.exp(-2 / temperature))
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


@pytest.mark.parametrize("wanted", [0.3, 0.9, 1.0, 2.7])
def test_bisection_finds_the_temperature_of_an_entropy(wanted: float) -> None:
    found = match_temperature(coin_entropy, coin_entropy(wanted), tolerance=1e-6, max_steps=60)
    assert found.temperature == pytest.approx(wanted, rel=1e-4)
    assert found.nats == pytest.approx(found.target, rel=1e-6)


def test_an_entropy_that_no_temperature_has_is_refused() -> None:
    with pytest.raises(EvaluationError, match="sharper than the other at any temperature"):
        match_temperature(coin_entropy, coin_entropy(MAX_TEMPERATURE) + 0.01)
    with pytest.raises(EvaluationError, match="needs a temperature above 0"):
        match_temperature(coin_entropy, 0.0)


@pytest.fixture
def few_games(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few that a temperature takes a tenth of a second."""
    pytest.importorskip("torch")
    monkeypatch.setattr("wordle_rl.evaluate.entropy._GAMES", 96)


def test_eval_draws_at_equal_entropy_and_says_so(cli, finished_run, few_games, tmp_path: Path) -> None:
    from wordle_rl.evaluate.records import Evaluation

    out = tmp_path / "matched.json"
    code, _, err = cli(
        "eval", "--player", finished_run / "sft", "--match-entropy-of", finished_run / "grpo", "--out", out,
        "--no-regret", "--max-games", 2,
    )  # fmt: skip
    assert code == 0, err
    found = Evaluation.load(out)
    assert found.control is not None
    assert (found.control.kind, found.control.temperature_of) == ("equal_entropy", 1.0)
    assert found.control.nats == pytest.approx(found.control.nats_of, rel=0.05)
    assert 0.0 < found.conditions.temperature <= 4.0
    assert f"temperature {found.conditions.temperature:.3g}: {found.control.nats:.2f} nats a game" in err
