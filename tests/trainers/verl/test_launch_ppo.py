"""PPO by our command for verl on a CPU: a critic and advantages by GAE."""

import math
from pathlib import Path

import pytest

pytest.importorskip("verl")

from training_fixtures import write_config
from verl_cluster import train
from verl_games import verl_run

from wordle_rl.runs import read_jsonl
from wordle_rl.trainers.verl.launch import last_weights
from wordle_rl.trainers.verl.settings import checkpoints

pytestmark = pytest.mark.slow

STEPS = 3
OPTIONS = (
    "--estimator", "ppo", "--critic-learning-rate", "1e-3", "--max-prompt-tokens", "16",
    "--max-response-tokens", "160", "--validate-every-steps", "3",
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(cluster, tmp_path_factory, word_directory) -> Path:
    """A run of three steps on the embedded list, whose validation secrets are more than fifty."""
    directory = tmp_path_factory.mktemp("ppo")
    changes = {"grpo__steps": str(STEPS), "grpo__groups_per_step": "16", "grpo__save_steps": "2"}
    changes["grpo__group_size"] = "2"
    changes["model__attn_implementation"] = '"eager"'
    changes["words__source"] = '"default"'
    changes["grpo__reward__weights"] = "{ win = 1.0, speed = 0.5, format = 0.5, greens = 0.5 }"
    run = verl_run(directory / "run", word_directory, **changes)
    train(
        write_config(directory / "ppo.toml", word_directory, **changes),
        run,
        cluster,
        "data.val_batch_size=16",
        options=OPTIONS,
    )
    return run


def test_the_critic_is_trained_and_its_loss_is_logged(trained) -> None:
    rows = [row for row in read_jsonl(trained / "metrics.jsonl") if row["stage"] == "grpo"]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(math.isfinite(row["value_loss"]) and row["value_loss"] > 0 for row in rows)
    assert all(math.isfinite(row["loss"]) and row["grad_norm"] > 0 for row in rows)


def test_policy_and_critic_are_in_every_checkpoint(trained) -> None:
    assert last_weights(trained).parents[1].name == f"global_step_{STEPS}"
    for step in (2, STEPS):
        kept = checkpoints(trained) / f"global_step_{step}"
        assert {path.name for path in kept.iterdir()} >= {"actor", "critic", "data.pt"}
        assert list((kept / "critic").glob("optim_*.pt"))
