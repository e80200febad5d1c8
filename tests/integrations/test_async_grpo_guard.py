"""Laws of the asynchronous trainer's steps that are not finite: they change nothing, and too many end the training."""

import queue
import shutil
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from async_training import Unsent, train_without_gpu
from training_fixtures import rows, weights_of, write_config

from wordle_rl.config import ModelSettings, load_config
from wordle_rl.integrations import async_grpo as module
from wordle_rl.integrations.async_settings import AsyncSettings
from wordle_rl.models.loading import load_model
from wordle_rl.runs import RunError
from wordle_rl.training import guard
from wordle_rl.training.guard import StepGuard

GAMES_PER_STEP = 8
STEPS = 3


class Given:
    """In place of the process that plays: games that are there from the start, some of them worth no number."""

    def __init__(self, bad_steps: set[int]) -> None:
        self.rollout_buffer, self.metrics_queue = queue.Queue(), queue.Queue()
        for step in range(1, STEPS + 2):  # the loader takes a batch ahead
            for game in range(GAMES_PER_STEP):
                advantage = float("nan") if step in bad_steps else (-1.0) ** game
                self.rollout_buffer.put(self._sample(game, advantage))

    def _sample(self, game: int, advantage: float):
        from trl.experimental.async_grpo.async_rollout_worker import RolloutSample  # silenced by our import of it

        ids = np.arange(8) + 10 + game
        mask = np.array([0] * 4 + [1] * 4)
        return RolloutSample([], [], ids, mask, np.full(8, -5.0), advantage, STEPS, game // 4, {})

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def update_model_version(self, model_version: int) -> None:
        pass

    def check_health(self, stale_after_s: float) -> None:
        raise AssertionError("no games are left")


@pytest.fixture
def train(finished_run, word_directory, tmp_path, monkeypatch):
    """Train on given games; the weights after each step."""

    def run(bad_steps: set[int], max_bad_steps: int = 5) -> list[dict]:
        from trl.experimental.async_grpo import async_grpo_trainer

        train_without_gpu(monkeypatch)
        monkeypatch.setattr(async_grpo_trainer, "VLLMClient", lambda *_: None)  # no server is asked for anything
        monkeypatch.setattr(module, "check_vllm", lambda _: None)
        monkeypatch.setattr(module, "server_length", lambda *_: 128)
        monkeypatch.setattr(module, "WordleRolloutWorker", lambda **_: Given(bad_steps))
        shutil.copytree(finished_run / "sft", tmp_path / "run" / "sft", dirs_exist_ok=True)
        changes = {
            "grpo__credit": '"game"', "grpo__scale_advantages": "true", "grpo__steps": str(STEPS),
            "grpo__save_steps": "1", "grpo.optimizer__learning_rate": "1e-3",
        }  # fmt: skip
        monkeypatch.setattr(guard, "MAX_BAD_STEPS", max_bad_steps)
        config = load_config(write_config(tmp_path / "mini.toml", word_directory, **changes))
        module.train(config, tmp_path / "run", AsyncSettings(server="http://localhost:9"), sent := Sent())
        return sent.weights

    return run


class Sent(Unsent):
    """The weights that TRL sends: those of the start, then those after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[dict] = []

    def send_weights(self, iterator) -> None:
        self.weights.append({name: weight.clone() for name, weight in iterator})


def same(a: dict, b: dict) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def trained(directory: Path) -> dict:
    return weights_of(load_model(ModelSettings(path=str(directory)), 0)[0])


def test_a_bad_step_of_the_asynchronous_trainer_changes_no_weight_and_is_counted(train, tmp_path) -> None:
    start, first, second, third = train(bad_steps={2})
    assert not same(start, first)
    assert same(first, second)
    assert not same(second, third)
    assert all(bool(weight.isfinite().all()) for weight in trained(tmp_path / "run" / "grpo").values())
    assert sum(row.get("skipped_steps", 0) for row in rows(tmp_path / "run" / "metrics.jsonl")) == 1


def test_without_the_guard_the_asynchronous_trainer_loses_its_weights(train, monkeypatch) -> None:
    monkeypatch.setattr(StepGuard, "on_pre_optimizer_step", lambda *_args, **_kwargs: None)
    *_, last = train(bad_steps={2})
    assert not all(bool(weight.isfinite().all()) for weight in last.values())


def test_too_many_bad_steps_in_a_row_stop_the_asynchronous_trainer(train, tmp_path) -> None:
    with pytest.raises(RunError, match=r"grpo stopped at step 3: .* 2 steps in a row; .*checkpoint-1; lower"):
        train(bad_steps={2, 3}, max_bad_steps=2)
    assert not (tmp_path / "run" / "grpo" / "model.safetensors").exists()


def test_an_asynchronous_training_stopped_after_its_last_step_is_only_saved(train, tmp_path) -> None:
    *_, last = train(bad_steps=set())
    model, metrics = tmp_path / "run" / "grpo", tmp_path / "run" / "metrics.jsonl"
    for file in [path for path in model.iterdir() if path.is_file()]:
        file.unlink()
    logged = rows(metrics)
    assert [row["step"] for row in logged] == [1, 2, 3]
    assert train(bad_steps=set()) == [], "no weights are sent to the server, and no games are asked for"
    assert rows(metrics) == logged
    assert same(trained(model), last)
