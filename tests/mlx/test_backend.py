"""Laws of `run --backend mlx`: the directory of every run, played by either library, resumed by the same command."""

import json

import pytest

pytest.importorskip("mlx")

from training_fixtures import rows, write_config

from wordle_rl.config.files import load_config
from wordle_rl.mlx import check_settings


@pytest.fixture(scope="module")
def run(word_directory, tmp_path_factory):
    """A whole run in miniature, from words to report."""
    from wordle_rl.cli import main

    place = tmp_path_factory.mktemp("mlx")
    config = write_config(
        place / "mini.toml", word_directory, backend='"mlx"', sft__epochs="4", sft__optimizer="{ learning_rate = 0.01 }"
    )
    assert main(["run", str(config), "--out", str(place / "run")]) == 0
    return place / "run"


def test_a_run_leaves_what_every_run_leaves(run) -> None:
    of_run = ["report.html", "results.json", "eval/sft.json", "eval/grpo.json", "sft/wordle_rl.json"]
    of_model = ["grpo/model.safetensors", "grpo/config.json", "grpo/generation_config.json", "grpo/README.md"]
    assert [name for name in of_run + of_model if not (run / name).is_file()] == []
    assert {row["stage"] for row in rows(run / "metrics.jsonl")} == {"sft", "grpo"}
    assert json.loads((run / "config.json").read_text())["backend"] == "mlx"
    assert json.loads((run / "eval/grpo.json").read_text())["conditions"]["engine"] == "mlx"


@pytest.mark.parametrize("engine", ["transformers", "mlx"])
def test_either_library_evaluates_it(run, cli, engine, tmp_path) -> None:
    out = tmp_path / "eval.json"
    code, *_ = cli("eval", "--player", run, "--engine", engine, "--max-games", 4, "--out", out)
    assert code == 0
    assert json.loads(out.read_text())["conditions"]["engine"] == engine


def test_the_quickstart_can_be_trained_on_mlx() -> None:
    check_settings(load_config("quickstart", {("backend",): "mlx"}))


def test_what_mlx_cannot_do_is_refused_before_anything_is_written(run, cli, tmp_path) -> None:
    code, _, err = cli("run", run.parent / "mini.toml", "--out", tmp_path / "other", "--grpo.engine", "vllm")
    assert code == 2
    assert "grpo.engine" in err
    assert not (tmp_path / "other").exists()
