"""Laws of the page about many machines: its tables are computed, and its numbers are those of the models."""

import runpy
import shlex
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from transformers import AutoModelForCausalLM

from wordle_rl.preflight.memory import cache_bytes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> dict:
    return runpy.run_path(str(ROOT / "scripts" / "scale_table.py"))


@pytest.mark.parametrize("name", ["Qwen3-1.7B", "Qwen3-4B"])
def test_parameters_and_cache_are_those_of_the_model(script, name) -> None:
    memory = runpy.run_path(str(ROOT / "scripts" / "memory_table.py"))
    config, counted = memory["MODELS"][name], script["MODELS"][name]
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert counted.parameters == sum(weights.numel() for weights in model.parameters())
    [_, numbers, _] = memory["_numbers"](config)
    assert counted.cache_bytes == cache_bytes(numbers, 1, 1)


def test_options_of_the_launch_scripts_exist(capsys) -> None:
    from wordle_rl.integrations.verl.__main__ import main

    with pytest.raises(SystemExit):
        main(["--help-all"])
    described = capsys.readouterr().out
    scripts = sorted((ROOT / "scripts" / "verl").glob("*.sh"))
    assert len(scripts) == 3
    for path in scripts:
        command = (
            path.read_text(encoding="utf-8").replace("\\\n", " ").rsplit("python -m wordle_rl.integrations.verl", 1)[1]
        )
        options = [word for word in shlex.split(command) if word.startswith("--")]
        assert options
        assert [option for option in options if option not in described] == []
