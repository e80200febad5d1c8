"""Laws of fast kernels that are not here: they are asked for by name, for the model that is trained, before it is."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

import transformers.integrations.liger as liger_module
from rich.console import Console
from training_fixtures import small_model, weights_of, write_config
from transformers import PreTrainedModel

from wordle_rl.config import LoraSettings, ModelSettings, load_config
from wordle_rl.models.loading import load_model, save_model
from wordle_rl.pipeline import Pipeline


class FakeLiger:
    """Stands in for liger-kernel: what it was asked, the weights it saw, and how often its norms were read since."""

    def __init__(self, monkeypatch) -> None:
        self.models: list[PreTrainedModel] = []
        self.options: list[dict[str, object]] = []
        self.weights: list[dict[str, torch.Tensor]] = []
        self.reads = {True: 0, False: 0}
        package, kernels = ModuleType("liger_kernel"), ModuleType("liger_kernel.transformers")
        package.__spec__ = ModuleSpec("liger_kernel", None)
        kernels._apply_liger_kernel_to_instance = self.apply
        monkeypatch.setitem(sys.modules, "liger_kernel", package)
        monkeypatch.setitem(sys.modules, "liger_kernel.transformers", kernels)
        monkeypatch.setattr(liger_module, "is_liger_kernel_available", lambda: True)

    def apply(self, model: PreTrainedModel, **options: object) -> None:
        self.models.append(model)
        self.options.append(options)
        self.weights.append(weights_of(model))
        model.model.norm.register_forward_hook(self.read)

    def read(self, norm: torch.nn.Module, *_: object) -> None:
        self.reads[norm.training] += 1


def test_liger_is_given_the_model_before_it_is_trained_and_the_head_is_left_alone(
    word_directory: Path, tmp_path: Path, monkeypatch
) -> None:
    changes = {"model__liger_kernels": "true", "traces__num_games": "40"}
    config = load_config(write_config(tmp_path / "mini.toml", word_directory, **changes))
    start = weights_of(load_model(config.model.model_copy(update={"liger_kernels": False}), config.seed)[0])
    liger = FakeLiger(monkeypatch)
    Pipeline(config, tmp_path / "run", Console(quiet=True))("sft")
    assert liger.options == [{"fused_linear_cross_entropy": False}]
    assert all(torch.equal(start[name], weight) for name, weight in liger.weights[0].items())
    assert liger.reads[True] > 0, "what was changed is what was trained"
    trained = weights_of(liger.models[0])
    assert not all(torch.equal(start[name], trained[name]) for name in start)


def test_liger_is_given_the_base_model_of_adapters(tokenizer, codec, tmp_path: Path, monkeypatch) -> None:
    save_model(small_model(tokenizer), codec, tmp_path / "base")
    liger = FakeLiger(monkeypatch)
    settings = ModelSettings(path=str(tmp_path / "base"), lora=LoraSettings(rank=2), liger_kernels=True)
    model, _ = load_model(settings, 0)
    (base,) = liger.models
    assert model.get_base_model() is base
    load_model(settings.model_copy(update={"liger_kernels": False}), 0)
    assert len(liger.models) == 1, "only where it is asked for"
