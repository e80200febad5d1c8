"""Laws of kept checkpoints: the last of them are models that can be played, and whoever listens hears of each."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from grpo_training import SETTINGS, train_fixture, update  # noqa: F401  # a fixture
from training_fixtures import weights_of

from wordle_rl.config import ModelSettings
from wordle_rl.policy.loading import load_model


def kept(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "grpo" / "steps").iterdir())


@pytest.mark.parametrize(("limit", "names"), [(2, ["step-2", "step-3"]), (-1, ["step-1", "step-2", "step-3"])])
def test_the_last_checkpoints_are_kept_as_models(limit: int, names: list[str], train, tmp_path: Path) -> None:
    trained = train(tmp_path, update(SETTINGS, steps=3, save_steps=1, save_total_limit=limit))
    assert kept(tmp_path) == names
    models = [load_model(ModelSettings(path=str(tmp_path / "grpo" / "steps" / name)), 0)[0] for name in names]
    found = [weights_of(model) for model in models]
    last = weights_of(trained)
    assert all(torch.allclose(found[-1][name], last[name]) for name in last)
    assert any(not torch.equal(found[0][name], last[name]) for name in last)
    assert not (tmp_path / "grpo" / "checkpoints").exists()
