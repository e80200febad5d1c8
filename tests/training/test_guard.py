"""Laws of steps that are not finite: they change nothing, they are counted, and too many of them end the training."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from grpo_training import SETTINGS as GRPO
from grpo_training import Training
from training_fixtures import compact, fast, make_run, rows, small_model, weights_of

from wordle_rl.config import ModelSettings, SFTSettings
from wordle_rl.data.dataset import encode_traces
from wordle_rl.models.loading import load_model
from wordle_rl.report.html.stage_curves import curves_section
from wordle_rl.runs import RunError
from wordle_rl.training import guard
from wordle_rl.training.checkpoints import last_checkpoint
from wordle_rl.training.guard import StepGuard
from wordle_rl.training.sft import GameSFTTrainer, train_sft

SFT = SFTSettings(batch_size=16, epochs=1, optimizer=fast(), precision="fp32", logging_steps=1)
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

    def __call__(self, stage: str, directory: Path, bad: set[int], limit: int = 5, save_steps: int = 0) -> None:
        calls = [0]

        def poison(gradient):
            calls[0] += 1
            return torch.full_like(gradient, float("nan")) if calls[0] in bad else gradient

        self.model.model.layers[0].mlp.up_proj.weight.register_hook(poison)
        self.patch.setattr(guard, "MAX_BAD_STEPS", limit)
        changes = {"optimizer": fast(), "save_steps": save_steps}
        if stage == "sft":
            settings = SFT.model_copy(update=changes)
            run = make_run(directory, self.words)
            train_sft(self.model, self.codec, self.examples, settings, run, progress=self.keep)
        else:
            settings = GRPO.model_copy(update={**changes, "steps": 4})
            self.grpo(directory, settings, model=self.model, progress=self.keep)

    def keep(self, done: int, _total: int, _note: str) -> None:
        self.after[done] = weights_of(self.model)


@pytest.fixture
def poisoned(plain_traces, tokenizer, codec, sixty, monkeypatch) -> Poisoned:
    return Poisoned(plain_traces, tokenizer, codec, sixty, monkeypatch)


def same(a: dict, b: dict) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def finite(weights: dict) -> bool:
    return all(bool(weight.isfinite().all()) for weight in weights.values())


@pytest.mark.parametrize("stage", STAGES)
def test_a_bad_step_changes_no_weight_and_is_counted(stage, poisoned, tmp_path) -> None:
    poisoned(stage, tmp_path, bad={2})
    after = poisoned.after
    assert not same(after[0], after[1])
    assert same(after[1], after[2])
    assert not same(after[2], after[3])
    assert finite(after[4])
    found = rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    assert [row.get("skipped_steps", 0) for row in found] == [0, 1, 0, 0]
    assert "grad_norm" in found[1]["not_finite"]
    assert "grad_norm" not in found[1]
    assert "not_finite" not in found[2]
    assert "<b>1 skipped</b>" in curves_section(stage, found)
    assert " skipped</b>" not in curves_section(stage, found[2:])
    saved, _ = load_model(ModelSettings(path=str(tmp_path / stage)), 0)
    assert finite(weights_of(saved))


@pytest.mark.parametrize("stage", STAGES)
def test_without_the_guard_the_weights_are_lost(stage, poisoned, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(StepGuard, "on_pre_optimizer_step", lambda *_args, **_kwargs: None)
    if stage == "grpo":
        with pytest.raises(RuntimeError, match="probability tensor"):  # nothing can be sampled any more
            poisoned(stage, tmp_path, bad={2})
    else:
        poisoned(stage, tmp_path, bad={2})
        assert not finite(poisoned.after[4])
    assert finite(poisoned.after[1])
    assert not finite(poisoned.after[2])


@pytest.mark.parametrize("stage", STAGES)
def test_too_many_in_a_row_stop_training_and_keep_the_last_good_checkpoint(stage, poisoned, tmp_path) -> None:
    message = rf"{stage} stopped at step 3: .* 2 steps in a row; the last good weights are in .*checkpoint-1; lower"
    with pytest.raises(RunError, match=message):
        poisoned(stage, tmp_path, bad={2, 3, 4}, limit=2, save_steps=1)
    [kept] = (tmp_path / stage / "checkpoints").glob("checkpoint-*")
    saved, _ = load_model(ModelSettings(path=str(kept)), 0)
    assert same(weights_of(saved), poisoned.after[1])
    assert not (tmp_path / stage / "model.safetensors").exists()
    assert sum(row.get("skipped_steps", 0) for row in rows(tmp_path / "metrics.jsonl")) == 2


def test_without_a_checkpoint_yet_the_good_weights_are_saved_before_the_end(poisoned, tmp_path) -> None:
    with pytest.raises(RunError, match="checkpoint-3"):
        poisoned("sft", tmp_path, bad={2, 3, 4}, limit=2)
    saved, _ = load_model(ModelSettings(path=last_checkpoint(tmp_path / "sft" / "checkpoints")), 0)
    assert same(weights_of(saved), poisoned.after[1])


def test_good_steps_between_bad_ones_begin_the_count_anew(poisoned, tmp_path) -> None:
    poisoned("sft", tmp_path, bad={1, 3}, limit=2)
    assert same(poisoned.after[0], poisoned.after[1])
    assert (tmp_path / "sft" / "model.safetensors").is_file()


def test_a_loss_that_is_not_finite_is_bad_though_its_gradient_is_finite(poisoned, tmp_path, monkeypatch) -> None:
    compute, calls = GameSFTTrainer.compute_loss, [0]

    def infinite_once(self, *args, **kwargs):
        calls[0] += 1
        return compute(self, *args, **kwargs) + (float("inf") if calls[0] == 2 else 0.0)

    monkeypatch.setattr(GameSFTTrainer, "compute_loss", infinite_once)
    poisoned("sft", tmp_path, bad=set())
    assert same(poisoned.after[1], poisoned.after[2])
    found = rows(tmp_path / "metrics.jsonl")
    assert found[1]["skipped_steps"] == 1
    assert "loss" in found[1]["not_finite"]
    assert "loss" not in found[1], "no other step's loss is written in its place"
    assert json.dumps(found, allow_nan=False)
