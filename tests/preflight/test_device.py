"""Laws of room: what cannot fit the device it is trained on is refused before anything is written, and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env
from rich.console import Console
from training_fixtures import write_config

import wordle_rl.policy.device as device_module
from wordle_rl.config.base import ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import load_config
from wordle_rl.config.run import RunConfig
from wordle_rl.pipeline import Pipeline
from wordle_rl.pipeline.chain import check_before_run
from wordle_rl.policy.loading import load_numbers
from wordle_rl.policy.sizes import Device
from wordle_rl.preflight.checks import Plan
from wordle_rl.preflight.memory import MemoryEstimate, check_memory, training_bytes, weight_bytes
from wordle_rl.runs.distributed import Sharding, sharding

GIB = 1024**3
LAUNCHES = Path(__file__).parents[2] / "scripts" / "launch"
WHOLE = MemoryEstimate(15 * GIB, 45 * GIB, GIB)
EIGHT = Device("card", 24 * GIB, count=8)


def levels(stage: str, needed: MemoryEstimate, device=EIGHT, spread=None, engine="transformers", **more) -> list[str]:
    config = RunConfig.model_validate({"grpo": {"engine": engine}})
    return [finding.level for finding in check_memory(config, {stage: needed}, device, spread, **more)]


def needs(weights: int, activations: int = 0, engine: int = 0) -> MemoryEstimate:
    return MemoryEstimate(weights * GIB, step=activations * GIB, engine_weights=engine * GIB)


def test_eight_devices_that_each_hold_everything_are_no_larger_than_one() -> None:
    for device in (EIGHT, replace(EIGHT, count=1)):
        (finding,) = check_memory(RunConfig(), {"sft": WHOLE}, device)
        assert finding.level == "problem"
        assert ("fsdp2.yaml" in finding.message) is (device is EIGHT)


def test_what_a_launch_shards_is_shared_and_what_it_does_not_is_not() -> None:
    assert levels("sft", WHOLE, spread=Sharding(8)) == [], "7.5 GiB each, and the rough rest"
    assert levels("sft", WHOLE, spread=Sharding(2)) == ["problem"]
    assert levels("sft", WHOLE, spread=Sharding(offloaded=True)) == ["warning"], "main memory may hold it"
    assert levels("eval", needs(30), spread=Sharding(8)) == ["problem"], "one process evaluates"


def test_what_is_counted_must_fit_and_what_is_rough_should() -> None:
    card = Device("the card", 4 * GIB)
    assert levels("sft", needs(1, 1), card) == []
    assert levels("grpo", needs(1, 4), card) == ["warning"]
    assert levels("grpo", needs(1, 8), card) == ["problem"], "half of what is rough is too much"
    assert levels("grpo", needs(1, 8), card, lengths_known=False) == []
    assert levels("sft", needs(5), card) == levels("eval", needs(5), card) == ["problem"]
    assert levels("sft", needs(5), Device("unknown", None)) == []


@pytest.mark.parametrize("checkpoints", [False, True])
def test_what_takes_the_most_is_to_be_lowered_and_nothing_is_advised_that_is_set(checkpoints) -> None:
    config = RunConfig.model_validate({"model": {"gradient_checkpointing": checkpoints}})
    cached = MemoryEstimate(GIB, cache=5 * GIB)
    (cache,), (activations,) = (
        [*check_memory(config, {"grpo": needed}, Device("the card", 4 * GIB))] for needed in (cached, needs(1, 5))
    )
    assert "grpo.group_size" in cache.message
    assert "checkpointing" not in cache.message
    assert "model.micro_batch_size" in activations.message
    assert ("checkpointing" in activations.message) is not checkpoints


def test_an_engine_beside_the_training_takes_its_share() -> None:
    card = Device("the card", 10 * GIB)
    assert levels("grpo", needs(6, 2, engine=1), card) == []
    assert levels("grpo", needs(6, 2, engine=1), card, engine="vllm") == ["warning"]
    assert levels("sft", needs(6, 2, engine=1), card, engine="vllm") == []
    assert levels("grpo", needs(1, engine=3), card, engine="vllm") == ["problem"], "a share below its weights"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("ddp", Sharding()), ("fsdp2", Sharding(2)), ("fsdp2_offload", Sharding(2, offloaded=True))],
)
def test_the_launch_files_say_what_they_shard(name, expected, monkeypatch) -> None:
    arguments = ["--config_file", str(LAUNCHES / f"{name}.yaml"), "train.py"]
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args(arguments))
    for key, value in prepare_multi_gpu_env(args).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("WORLD_SIZE", "2")  # torchrun's part
    assert sharding() == expected


# --- the command ----------------------------------------------------------------------------------------------------


def counted(config) -> int:
    numbers = load_numbers(config.model)
    return weight_bytes(numbers) + training_bytes(numbers)


@pytest.mark.parametrize(("stage", "missing"), [("grpo", 1), ("dpo", 0)])
def test_a_run_that_cannot_fit_is_refused_before_anything_is_written(
    stage, missing, word_directory, tmp_path, monkeypatch
) -> None:
    """DPO has a reference besides what the others hold."""
    config = load_config(write_config(tmp_path / "mini.toml", word_directory, stages=f'["sft", "{stage}"]'))
    monkeypatch.setattr(device_module, "device_memory", lambda: Device("card", counted(config) - missing))
    with pytest.raises(ConfigError, match=stage) as caught:
        Pipeline(config, tmp_path / "run", Console(quiet=True))()
    assert "eval" not in str(caught.value), "weights alone would fit"
    assert not (tmp_path / "run").exists()


def test_what_is_finished_needs_no_room(finished_run, monkeypatch) -> None:
    monkeypatch.setattr(device_module, "device_memory", lambda: Device("card", 1))
    config = load_config(finished_run / "config.json")
    assert Pipeline(config, finished_run, Console(quiet=True))() is not None


def test_a_run_that_may_not_fit_says_so_before_it_trains(word_directory, tmp_path, monkeypatch) -> None:
    config = load_config(write_config(tmp_path / "mini.toml", word_directory))
    context = GameContext.of(config)
    needed = Plan.whole(config, context).memory.values()
    room = max(stage.counted + 3 * (stage.total - stage.counted) // 4 for stage in needed)
    monkeypatch.setattr(device_module, "device_memory", lambda: Device("main memory", 100 * room))
    _, before = check_before_run(config, context, tmp_path / "run", config.chain, overwrite=False)
    monkeypatch.setattr(device_module, "device_memory", lambda: Device("main memory", room))
    _, warnings = check_before_run(config, context, tmp_path / "run", config.chain, overwrite=False)
    assert len(warnings) > len(before)
    monkeypatch.setattr(device_module, "device_memory", lambda: Device("main memory", room // 3))
    with pytest.raises(ConfigError):
        check_before_run(config, context, tmp_path / "run", config.chain, overwrite=False)
