"""Laws of room: what cannot fit the device it is trained on is refused before anything is written, and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env
from rich.console import Console
from training_fixtures import write_config

import wordle_rl.policy.device as device_module
from wordle_rl.chat.codec import longest_game
from wordle_rl.config import ConfigError, load_config
from wordle_rl.config.context import GameContext
from wordle_rl.pipeline import Pipeline
from wordle_rl.policy.loading import load_numbers
from wordle_rl.policy.numbers import Device
from wordle_rl.preflight.before_run import check_before_run
from wordle_rl.preflight.checks import Plan
from wordle_rl.preflight.memory import MemoryEstimate, Work, check_memory, estimate, stage_memory
from wordle_rl.runs.distributed import Sharding, sharding

GIB = 1024**3
LAUNCHES = Path(__file__).parents[2] / "scripts" / "launch"
WHOLE = MemoryEstimate(15 * GIB, 0, 15 * GIB, 30 * GIB, GIB, 0, 0, 0)
EIGHT = Device("card", 24 * GIB, count=8)


def levels(sharded: Sharding, needed: MemoryEstimate = WHOLE, device: Device = EIGHT) -> list[str]:
    return [finding.level for finding in check_memory({"sft": needed}, device, None, sharded)]


def test_eight_devices_that_each_hold_everything_are_no_larger_than_one() -> None:
    (finding,) = check_memory({"sft": WHOLE}, EIGHT)
    assert finding.level == "problem"
    assert all(part in finding.message for part in ("sft", "60.0 GiB", "card has 24.0 GiB"))
    assert "model.lora.rank" in finding.message
    assert "fsdp2.yaml" in finding.message
    (alone,) = check_memory({"sft": WHOLE}, replace(EIGHT, count=1))
    assert "fsdp2.yaml" not in alone.message


def test_what_a_launch_shards_is_shared_and_what_it_does_not_is_not() -> None:
    assert levels(Sharding(8)) == ["warning"], "7.5 GiB each fit; the rough total is for one device"
    assert levels(Sharding(2)) == ["problem"]
    assert levels(Sharding(offloaded=True)) == ["warning"], "main memory may hold it"
    evaluation = {"eval": MemoryEstimate(30 * GIB, 0, 0, 0, 0, 0, 0, 0)}
    (finding,) = check_memory(evaluation, EIGHT, None, Sharding(8))
    assert finding.level == "problem", "one process evaluates"
    assert all(part in finding.message for part in ("eval", "30.0 GiB"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ddp", Sharding()),
        ("fsdp2", Sharding(2)),
        ("fsdp2_offload", Sharding(2, offloaded=True)),
    ],
)
def test_the_launch_files_say_what_they_shard(name: str, expected: Sharding, monkeypatch) -> None:
    launch(name, monkeypatch)
    assert sharding() == expected


def launch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment that `accelerate launch` with a file leaves to its processes."""
    arguments = ["--config_file", str(LAUNCHES / f"{name}.yaml"), "train.py"]
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args(arguments))
    for key, value in prepare_multi_gpu_env(args).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("WORLD_SIZE", "2")  # torchrun's part


def needs(weights: int, activations: int) -> MemoryEstimate:
    return MemoryEstimate(weights, 0, 0, 0, activations, 0, 0, 0)


def test_what_is_counted_must_fit_and_what_is_rough_should() -> None:
    gib = 1024**3
    device = Device("the card", 4 * gib)
    assert check_memory({"sft": needs(gib, gib)}, device) == []
    (rough,) = check_memory({"grpo": needs(gib, 4 * gib)}, device)
    assert rough.level == "warning"
    assert all(part in rough.message for part in ("grpo", "5.0 GiB", "the card has 4.0 GiB", "model.micro_batch_size"))
    (hopeless,) = check_memory({"grpo": needs(gib, 8 * gib)}, device)
    assert hopeless.level == "problem", "half of what is rough is too much"
    (unknown,) = check_memory({"grpo": needs(gib, 8 * gib)}, device, rough_refuses=False)
    assert unknown.level == "warning"
    findings = check_memory({"sft": needs(5 * gib, 0), "eval": needs(5 * gib, 0)}, device)
    assert [finding.level for finding in findings] == ["problem", "problem"]
    assert check_memory({"sft": needs(5 * gib, 0)}, Device("unknown", None)) == []


def test_an_engine_beside_the_training_takes_its_share() -> None:
    gib, device = 1024**3, Device("the card", 10 * 1024**3)
    engine = 0.3
    training = replace(needs(6 * gib, 2 * gib), engine_weights=gib)
    assert check_memory({"grpo": training}, device) == []
    (rough,) = check_memory({"grpo": training}, device, engine)
    assert rough.level == "warning"
    assert "30% of it vLLM's" in rough.message
    assert check_memory({"sft": training}, device, engine) == []
    (small,) = check_memory({"grpo": replace(needs(gib, 0), engine_weights=3 * gib)}, device, engine)
    assert small.level == "problem"
    assert "grpo.gpu_memory_utilization 0.3" in small.message


# --- the command ----------------------------------------------------------------------------------------------------


def counted(config, rows: int) -> int:
    return estimate(load_numbers(config.model), Work(rows=rows, length=1, compute_bytes=4)).counted


@pytest.mark.parametrize("name", ["main memory", "NVIDIA card"])
def test_a_run_that_cannot_fit_is_refused_before_anything_is_written(
    name: str, word_directory: Path, tmp_path: Path, monkeypatch
) -> None:
    config = load_config(write_config(tmp_path / "mini.toml", word_directory))
    device = Device(name, counted(config, rows=1) - 1)
    monkeypatch.setattr(device_module, "device_memory", lambda: device)
    with pytest.raises(ConfigError, match=rf"sft needs 0\.0 GiB .*{name} has .*grpo needs") as caught:
        Pipeline(config, tmp_path / "run", Console(quiet=True))()
    assert "\n" not in str(caught.value)
    assert "eval" not in str(caught.value), "weights alone would fit"
    assert not (tmp_path / "run").exists()


def test_a_round_that_has_no_room_for_its_reference_is_refused(
    word_directory: Path, tmp_path: Path, monkeypatch
) -> None:
    config = load_config(write_config(tmp_path / "mini.toml", word_directory, algorithm='"dpo"'))
    monkeypatch.setattr(device_module, "device_memory", lambda: Device("card", counted(config, rows=1)))
    with pytest.raises(ConfigError, match=r"dpo needs 0\.0 GiB .*reference weights"):
        Pipeline(config, tmp_path / "run", Console(quiet=True))()
    assert not (tmp_path / "run").exists()


def test_a_run_that_may_fit_is_not_refused(word_directory: Path, tmp_path: Path, monkeypatch) -> None:
    config = load_config(write_config(tmp_path / "mini.toml", word_directory, traces__num_games="20"))
    numbers = load_numbers(config.model)
    needed = estimate(numbers, Work(rows=config.sft.batch_size, length=config.model.max_length, compute_bytes=4))
    just = Device("card", needed.counted + needed.activations + needed.logits)
    monkeypatch.setattr(device_module, "device_memory", lambda: just)
    Pipeline(config, tmp_path / "run", Console(quiet=True))("sft")
    assert (tmp_path / "run" / "sft" / "model.safetensors").is_file()
    less = replace(just, num_bytes=counted(config, rows=1) - 1)
    monkeypatch.setattr(device_module, "device_memory", lambda: less)
    with pytest.raises(ConfigError, match=r"^grpo needs"):  # of what is still ahead
        Pipeline(config, tmp_path / "run", Console(quiet=True))()


def test_what_is_finished_needs_no_room(finished_run: Path, monkeypatch) -> None:
    monkeypatch.setattr(device_module, "device_memory", lambda: Device("card", 1))
    config = load_config(finished_run / "config.json")
    assert Pipeline(config, finished_run, Console(quiet=True))() is not None


def test_a_run_that_may_not_fit_says_so_before_it_trains(word_directory: Path, tmp_path: Path, monkeypatch) -> None:
    config = load_config(write_config(tmp_path / "mini.toml", word_directory))
    context = GameContext.of(config)
    plan = Plan.whole(config, context)
    teacher = max(len(example.token_ids) for example in plan.taught)
    game = longest_game(context.words, context.prompter, plan.model.codec, config.max_completion_tokens)
    needed = stage_memory(config, plan.model.numbers, teacher, game, num_secrets=1).values()
    room = max(stage.counted + 3 * (stage.total - stage.counted) // 4 for stage in needed)
    for num_bytes, warns in ((room, True), (100 * room, False)):
        monkeypatch.setattr(device_module, "device_memory", lambda size=num_bytes: Device("main memory", size))
        todo = check_before_run(config, context, tmp_path / "run", config.chain, overwrite=False)
        assert any("may need about" in warning for warning in todo.warnings) == warns
    monkeypatch.setattr(device_module, "device_memory", lambda: Device("main memory", room // 3))
    with pytest.raises(ConfigError):
        check_before_run(config, context, tmp_path / "run", config.chain, overwrite=False)
