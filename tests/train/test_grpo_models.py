"""Laws of kept checkpoints: the last of them are models that can be played, and whoever listens hears of each."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from grpo_training import SETTINGS, train_fixture, update  # noqa: F401  # a fixture
from training_fixtures import weights_of

from wordle_rl.cli.eval import checkpoints_of
from wordle_rl.config import ConfigError, ModelSettings
from wordle_rl.models.loading import load_model
from wordle_rl.runs import write_json


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


def test_none_is_kept_unless_asked_for(train, tmp_path: Path) -> None:
    train(tmp_path, update(SETTINGS, save_steps=1))
    assert not (tmp_path / "grpo" / "steps").exists()


def test_the_models_of_a_run_are_named_in_the_order_of_their_training(tmp_path: Path) -> None:
    for name in ("config.json", "manifest.json"):
        write_json(tmp_path / name, {})
    for name in ("sft", "grpo/steps/step-10", "grpo/steps/step-9", "grpo"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "model.safetensors").touch()
    assert [*checkpoints_of(tmp_path)] == ["start", "step-9", "step-10", "end"]
    (tmp_path / "sft" / "model.safetensors").unlink()
    assert [*checkpoints_of(tmp_path)] == ["step-9", "step-10", "end"]
    with pytest.raises(ConfigError, match="save"):
        checkpoints_of(tmp_path / "grpo")
