"""Laws of validation: greedy and sampled play of the same words, never of test secrets, a loss as one guess more."""

import pytest

torch = pytest.importorskip("torch")

from contexts import context_for
from training_fixtures import compact, make_run, rows, small_model

from wordle_rl.config import ConfigError, SamplingSettings
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.runs.trackers import GameLog
from wordle_rl.solver import Solver
from wordle_rl.train.checkpoint_selection import Validation
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.starts import GameSetup


def test_validation_plays_greedily_and_as_in_training_and_counts_a_loss_as_one_more(
    tokenizer, codec, sixty, split, monkeypatch
) -> None:
    asked = []
    sample = TransformersSampler.sample

    def listen(self, requests):
        asked.append((self.settings.temperature, len(requests)))
        return sample(self, requests)

    monkeypatch.setattr(TransformersSampler, "sample", listen)
    learner = TorchLearner(small_model(tokenizer), codec, precision="fp32")
    setup = GameSetup(context_for(sixty, compact(max_turns=3), Solver(sixty)), split.train, split.val)
    sampling = SamplingSettings(temperature=0.7, max_completion_tokens=5)
    validation = Validation(setup, sampling, learner.policy)
    lost = {"greedy_win_rate": 0.0, "sampled_win_rate": 0.0, "train_win_rate": 0.0}
    lost |= {"cost": 4.0, "validation_cost": 4.0, "greedy_cost": 4.0, "regret_per_turn": 1.0}
    assert validation(0).figures == validation(1).figures == lost, "no reply is readable"
    greedy = len(split.val) + min(4 * len(split.val), len(split.train))
    assert validation(2).won == (False,) * greedy
    assert asked[:6] == [(0.0, greedy)] * 3 + [(0.7, 4 * len(split.val))] * 3
    with pytest.raises(ConfigError, match="validate_every_steps"):
        Validation(GameSetup(setup.context, split.train), sampling, learner.policy)


def test_validation_shows_many_different_words_over_time(tokenizer, codec, small_words, tmp_path) -> None:
    setup = GameSetup(context_for(small_words, compact(max_turns=1), Solver(small_words)), (), small_words.answers)
    run = make_run(tmp_path / "run", small_words)
    greedy = SamplingSettings(temperature=0.0, max_completion_tokens=5)
    validate = Validation(setup, greedy, TorchLearner(small_model(tokenizer), codec).policy, GameLog(run), 4)
    for step in range(0, 100, 10):
        validate(step, number=step // 10)
    shown = rows(run.directory / "games.jsonl")
    assert [(row["stage"], row["step"]) for row in shown] == [
        ("validation", s) for s in range(0, 100, 10) for _ in "four"
    ]
    assert len({row["secret"] for row in shown}) == min(40, len(small_words.answers))
    assert all(len({row["secret"] for row in shown if row["step"] == step}) == 4 for step in range(0, 100, 10))
    assert not any("reward" in row for row in shown), "nobody said what a game earns"
