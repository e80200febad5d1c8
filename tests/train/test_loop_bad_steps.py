"""Laws of steps that are not finite: they change nothing, they are counted, and too many of them end the training."""

import itertools
import json
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from grpo_training import SETTINGS as GRPO
from grpo_training import Training
from sft_training import fine_tune
from training_fixtures import StopAt, compact, fast, make_run, rows, same_bits, small_model, weights_of

from wordle_rl.config import ModelSettings, SFTTraining
from wordle_rl.data.dataset import encode_traces
from wordle_rl.policy.loading import load_model
from wordle_rl.report.curves import stage_curves
from wordle_rl.runs import RunError
from wordle_rl.train import loop
from wordle_rl.train.loss import CrossEntropy

SFT = SFTTraining(batch_size=16, epochs=1, optimizer=fast(), precision="fp32", logging_steps=1)
STAGES = ("sft", "grpo")


class Poisoned:
    """Trains a model whose gradient is not a number in given steps, and keeps its weights after each step."""

    def __init__(self, plain_traces, tokenizer, codec, words, monkeypatch) -> None:
        self.examples = encode_traces(plain_traces, compact(), codec, 1000).examples
        self.codec, self.words = codec, words
        self.model = small_model(tokenizer)
        self.grpo = Training(tokenizer, codec, words, monkeypatch)
        self.after: dict[int, dict] = {0: weights_of(self.model)}
        self.patch = monkeypatch

    def __call__(self, stage, directory: Path, bad: set[int], limit=5, save_steps=0, stop_at=0) -> None:
        calls, stop = itertools.count(1), StopAt(stop_at)

        def poison(gradient):
            return torch.full_like(gradient, float("nan")) if next(calls) in bad else gradient

        def keep(done: int, total: int, note: str) -> None:
            self.after[done] = weights_of(self.model)
            stop(done, total, note)

        self.model.model.layers[0].mlp.up_proj.weight.register_hook(poison)
        self.patch.setattr(loop, "MAX_BAD_STEPS", limit)
        changes = {"optimizer": fast(), "save_steps": save_steps}
        if stage == "sft":
            settings = SFT.model_copy(update=changes)
            fine_tune(self.model, self.codec, self.examples, settings, make_run(directory, self.words), progress=keep)
        else:
            settings = GRPO.model_copy(update={**changes, "steps": 4})
            self.grpo(directory, settings, model=self.model, progress=keep)


@pytest.fixture
def poisoned(plain_traces, tokenizer, codec, sixty, monkeypatch) -> Poisoned:
    return Poisoned(plain_traces, tokenizer, codec, sixty, monkeypatch)


def finite(weights: dict) -> bool:
    return all(bool(weight.isfinite().all()) for weight in weights.values())


def saved_weights(directory: Path) -> dict:
    return weights_of(load_model(ModelSettings(path=str(directory)), 0)[0])


@pytest.mark.parametrize("stage", STAGES)
def test_a_bad_step_changes_no_weight_and_is_counted(stage, poisoned, tmp_path) -> None:
    poisoned(stage, tmp_path, bad={2})
    after = poisoned.after
    assert not same_bits(after[0], after[1])
    assert same_bits(after[1], after[2])
    assert not same_bits(after[2], after[3])
    assert finite(after[4])
    found = rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    assert [row.get("skipped_steps", 0) for row in found] == [0, 1, 0, 0]
    assert "grad_norm" in found[1]["not_finite"]
    assert "grad_norm" not in found[1]
    assert "not_finite" not in found[2]
    assert [stage_curves({stage: some}, stage).num_skipped for some in (found, found[2:])] == [1, 0]
    assert finite(saved_weights(tmp_path / stage))


@pytest.mark.parametrize("stage", STAGES)
def test_too_many_in_a_row_stop_training_and_keep_the_last_good_checkpoint(stage, poisoned, tmp_path) -> None:
    with pytest.raises(RunError, match=rf"{stage} stopped at step 3: .*checkpoint-1;"):
        poisoned(stage, tmp_path, bad={2, 3, 4}, limit=2, save_steps=1)
    [kept] = (tmp_path / stage / "checkpoints").glob("checkpoint-*")
    assert kept.name == "checkpoint-1"
    assert same_bits(saved_weights(kept), poisoned.after[1])
    assert not (tmp_path / stage / "model.safetensors").exists()
    assert sum(row.get("skipped_steps", 0) for row in rows(tmp_path / "metrics.jsonl")) == 2


def test_good_steps_between_bad_ones_begin_the_count_anew(poisoned, tmp_path) -> None:
    poisoned("sft", tmp_path, bad={1, 3}, limit=2)
    assert same_bits(poisoned.after[0], poisoned.after[1])
    assert (tmp_path / "sft" / "model.safetensors").is_file()


def test_a_loss_that_is_not_finite_is_bad_though_its_gradient_is_finite(poisoned, tmp_path, monkeypatch) -> None:
    compute, calls = CrossEntropy.__call__, itertools.count(1)

    def infinite_once(self, *args):
        loss, figures = compute(self, *args)
        return loss + (float("inf") if next(calls) == 2 else 0.0), figures

    monkeypatch.setattr(CrossEntropy, "__call__", infinite_once)
    poisoned("sft", tmp_path, bad=set())
    assert same_bits(poisoned.after[1], poisoned.after[2])
    found = rows(tmp_path / "metrics.jsonl")
    assert found[1]["skipped_steps"] == 1
    assert "loss" in found[1]["not_finite"]
    assert "loss" not in found[1], "no other step's loss is written in its place"
    assert json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("amount", [math.inf, -math.inf, math.nan])
def test_a_game_whose_reward_is_not_finite_is_no_sample(amount, tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    training, model, calls = Training(tokenizer, codec, sixty, monkeypatch), small_model(tokenizer), itertools.count()
    training.pay = lambda *_: amount if (call := next(calls)) == 20 else call % 3 / 2
    training(tmp_path, GRPO.model_copy(update={"optimizer": fast(), "max_refills": 0}), model=model)
    found = rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in found] == [1, 2]
    assert sum(row.get("failed_games", 0) for row in found) == 1
    assert not any(row.get("skipped_steps") or row.get("not_finite") for row in found)
    assert finite(weights_of(model))
