"""The temperature of play is that of a policy gradient; labels are learnt at temperature 1."""

import pytest

pytest.importorskip("torch")

from wordle_rl.config import RunConfig
from wordle_rl.data.dataset import Example
from wordle_rl.pipeline.stages import load_learner
from wordle_rl.train.loss import CrossEntropy

ROWS = [[Example([5, 6, 7, 8], [0, 1, 1, 1])]]


@pytest.mark.parametrize("algorithm", ["grpo", "expert_iteration", "dpo", "distill"])
def test_only_grpo_divides_logits_by_the_temperature_of_play(algorithm: str) -> None:
    small = {"hidden_size": 32, "num_layers": 1}
    config = RunConfig.model_validate({"algorithm": algorithm, "model": small, "rl": {"temperature": 0.25}})
    plain, found = (
        load_learner(config, config.model, stage).evaluate(ROWS, CrossEntropy())["loss"]
        for stage in (config.sft_training, config.training)
    )
    assert (found == pytest.approx(plain, rel=1e-6)) == (algorithm != "grpo")
