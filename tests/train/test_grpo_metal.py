"""Laws of GRPO on the GPU of a Mac, as far as a processor can show them: no float64 is made."""

import pytest

torch = pytest.importorskip("torch")

from grpo_training import SETTINGS, Training, train_fixture, update  # noqa: F401  # a fixture
from torch.utils._python_dispatch import TorchDispatchMode

import wordle_rl.policy.drawing as drawing_module
from wordle_rl.config import SamplingSettings


class NoFloat64(TorchDispatchMode):
    """Refuses every tensor of float64 that is made, as Metal does."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(each, torch.Tensor) and each.dtype == torch.float64:
                raise TypeError(f"{func} makes float64, which Metal has not")
        return made


def test_training_and_play_make_no_float64(train: Training, tmp_path, monkeypatch) -> None:
    """Play draws by `multinomial` off the processor; that branch is forced here."""
    monkeypatch.setattr(drawing_module, "pick", lambda p, generator: torch.multinomial(p, 1, generator=generator)[:, 0])
    with NoFloat64():
        with pytest.raises(TypeError, match="float64"):
            torch.zeros(1, dtype=torch.float64)
        sampling = SamplingSettings(max_completion_tokens=6)
        train(tmp_path / "run", update(SETTINGS, steps=2, sampling=sampling, max_importance_ratio=2.0))
