"""A whole training by our command for verl on a CPU: two processes on two Ray nodes, resumed where an epoch ends."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("verl")

from training_fixtures import write_config
from verl_cluster import train
from verl_games import verl_run

from wordle_rl.cli import main
from wordle_rl.env import WordleEnv
from wordle_rl.runs import read_jsonl
from wordle_rl.trainers.verl.launch import last_weights
from wordle_rl.trainers.verl.play import run_games

pytestmark = pytest.mark.slow

GROUPS, EPOCH = 24, 2
"""Secrets a step, and steps in which all training secrets of the small list have been played."""
OPTIONS = (
    "--nodes", "2", "--max-prompt-tokens", "16", "--max-response-tokens", "160",
    "--validate-every-steps", "2", "--epochs", "2",
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(cluster, tmp_path_factory, word_directory) -> Path:
    """A run of two epochs of two steps each, stopped where the first one ends."""
    directory = tmp_path_factory.mktemp("verl")
    changes = {"grpo__groups_per_step": str(GROUPS), "grpo__save_steps": "2"}
    changes["model__attn_implementation"] = '"eager"'
    changes["grpo__reward__weights"] = "{ win = 1.0, speed = 0.5, format = 0.5 }"
    run = verl_run(directory / "run", word_directory, **changes)
    config = write_config(directory / "mini.toml", word_directory, **changes)
    train(config, run, cluster, "data.val_batch_size=1", "trainer.total_training_steps=2", options=OPTIONS)
    assert last_weights(run).parents[1].name == "global_step_2"
    shutil.copytree(run / "grpo", directory / "after_two")
    shutil.rmtree(run / "grpo")
    train(config, run, cluster, "data.val_batch_size=1", options=OPTIONS)
    return run


def test_a_run_resumed_at_the_end_of_an_epoch_trains_on(trained) -> None:
    assert last_weights(trained).parents[1].name == "global_step_4"
    steps = [row["step"] for row in read_jsonl(trained / "metrics.jsonl") if row["stage"] == "grpo"]
    assert steps == [1, 2, 3, 4]
    validated = [row["step"] for row in read_jsonl(trained / "metrics.jsonl") if row["stage"] == "grpo/validation"]
    assert validated == [0, 2, 4], "that of the checkpoint comes again, in place of the first"
    before = (trained.parent / "after_two" / "model.safetensors").read_bytes()
    assert before != (trained / "grpo" / "model.safetensors").read_bytes()


def test_every_epoch_plays_each_training_secret_once(trained) -> None:
    manifest = json.loads((trained / "manifest.json").read_text())
    rows = [row["secrets"] for row in read_jsonl(trained / "secrets.jsonl")]
    for epoch in (rows[:EPOCH], rows[EPOCH:]):
        played = [secret for secrets in epoch for secret in secrets]
        assert len(played) == len(set(played)) == EPOCH * GROUPS
        assert set(played) <= set(manifest["split"]["train"])


def test_each_validation_shows_every_validation_secret_with_its_board_and_reward(trained) -> None:
    manifest = json.loads((trained / "manifest.json").read_text())
    games = [row for row in read_jsonl(trained / "games.jsonl") if row["stage"] == "grpo/validation"]
    for step in {row["step"] for row in games}:
        shown = {row["secret"] for row in games if row["step"] == step}
        assert shown == set(manifest["split"]["val"])
        # verl's own dump of a validation has the same games.
        dumped = list(read_jsonl(trained / "verl" / "validation" / f"{step}.jsonl"))
        assert sorted(row["secret"] for row in dumped) == sorted(shown)
        assert all(row["score"] == pytest.approx(json.loads(row["game"])["reward"], abs=1e-3) for row in dumped)
    assert {0, 2, 4} <= {row["step"] for row in games}


def test_rewards_made_on_ray_are_those_of_the_rubric(trained) -> None:
    games = run_games(trained, str(trained / "sft"))
    rows = [row for row in read_jsonl(trained / "games.jsonl") if not any(turn.get("given") for turn in row["turns"])]
    assert {row["stage"] for row in rows} == {"grpo", "grpo/validation"}
    for row in rows:
        env = WordleEnv(row["secret"], games.context.words, games.context.prompter)
        for turn in row["turns"]:
            env.step(turn.get("reply", ""))
        reward = games.rubric.score(env.transcript(), games.context.solver)
        assert row["reward"] == pytest.approx(reward.total, abs=1e-3)
        assert [turn["reward"] for turn in row["turns"]] == pytest.approx(reward.turn_rewards, abs=1e-3)


def test_every_component_of_the_reward_is_logged_each_step(trained) -> None:
    rows = [row for row in read_jsonl(trained / "metrics.jsonl") if row["stage"] == "grpo"]
    needed = {"loss", "grad_norm", "reward", "win_rate", "reward/win", "reward/format", "format_compliance"}
    assert all(needed <= set(row) for row in rows)
    assert [row["cumulative_wins"] for row in rows] == sorted(row["cumulative_wins"] for row in rows)


def test_our_commands_play_and_show_the_result(trained, tmp_path, capsys) -> None:
    out = tmp_path / "games.json"
    assert main(["eval", "--model", str(trained / "grpo"), "--max-games", "5", "--out", str(out)]) == 0
    assert len(json.loads(out.read_text())["records"]) == 5
    assert main(["report", str(trained)]) == 0
    assert "validation" in (trained / "report.html").read_text()
