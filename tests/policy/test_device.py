"""Laws of the device: a GPU, else the GPU of a Mac, else the processor; nothing is asked of Metal that it has not.

No Mac is here: torch is told that it is on one, and what would run there is looked at, or run on the processor.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from training_fixtures import write_config

import wordle_rl.train.learner as learner_module
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.policy.device import check_bf16, device_kind, device_memory, device_of_process, release_memory
from wordle_rl.policy.loading import attention_of, check_packages
from wordle_rl.preflight.memory import unified_memory
from wordle_rl.runs.provenance import hardware, resident_memory_gib
from wordle_rl.train.optimizer import wants_bf16


@pytest.fixture
def mac(monkeypatch):
    """A Mac, as far as torch is asked; called with False, one whose system is too old for bfloat16."""

    def be(has_bf16: bool = True) -> None:
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
        monkeypatch.setattr(torch.backends.mps, "is_macos_or_newer", lambda major, minor: has_bf16 or major < 14)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    be()
    return be


def wants_processor(monkeypatch) -> bool:
    """True if a learner asks accelerate for the processor; else accelerate takes the GPU by itself."""

    class Asked(Exception):
        pass

    def accelerator(*, cpu: bool, **_: object) -> None:
        raise Asked(cpu)

    monkeypatch.setattr(learner_module, "Accelerator", accelerator)
    with pytest.raises(Asked) as asked:
        learner_module.TorchLearner(None, None)
    return asked.value.args[0]


def test_a_mac_plays_and_trains_on_its_gpu(mac, monkeypatch) -> None:
    assert device_kind() == "mps"
    assert device_of_process() == torch.device("mps")
    assert not wants_processor(monkeypatch)
    assert attention_of(ModelSettings()) == "eager", "as on a processor, which tests run"
    assert hardware()["accelerator"] == "Apple GPU (Metal)"
    assert device_memory().name == "main memory"


def test_a_gpu_of_its_own_comes_first_and_a_processor_last(mac, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert device_of_process() == torch.device("cuda", 1)
    assert not wants_processor(monkeypatch)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert device_of_process() == torch.device("cpu")
    assert wants_processor(monkeypatch)


def test_a_mac_trains_in_float32_unless_bfloat16_is_asked_for(mac) -> None:
    assert [wants_bf16(precision) for precision in ("auto", "fp32", "bf16")] == [False, False, True]


@pytest.mark.parametrize(("generation", "bf16"), [(7, False), (8, True), (9, True)])
def test_a_gpu_that_only_emulates_bfloat16_trains_in_float32(monkeypatch, generation: int, bf16: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(major=generation))
    assert wants_bf16("auto") is bf16


def test_a_processor_held_to_older_instructions_trains_in_float32() -> None:
    held = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "CUDA_VISIBLE_DEVICES": ""}
    code = "from wordle_rl.policy.device import autocasts_to_bf16; print(autocasts_to_bf16())"
    found = subprocess.run([sys.executable, "-c", code], env=held, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_bfloat16_is_refused_before_macos_14(mac, cli, tmp_path, word_directory) -> None:
    check_bf16("x")
    check_packages(ModelSettings(dtype="bfloat16"))
    config = write_config(tmp_path / "mini.toml", word_directory)
    mac(has_bf16=False)
    check_packages(ModelSettings())
    with pytest.raises(ConfigError, match=r"model\.dtype"):
        check_packages(ModelSettings(dtype="bfloat16"))
    code, _, err = cli("run", config, "--out", tmp_path / "out", "--model.precision", "bf16")
    assert code == 2
    assert "model.precision" in err
    assert not (tmp_path / "out").exists()


def test_a_run_that_would_swap_is_refused_before_it_begins(mac, monkeypatch, tmp_path, word_directory, cli) -> None:
    path = write_config(tmp_path / "mini.toml", word_directory)
    tiny = unified_memory(0.001)
    monkeypatch.setattr("wordle_rl.preflight.memory.unified_memory", lambda _: tiny)
    code, *_ = cli("run", path, "--out", tmp_path / "out")
    assert code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators give memory back by themselves")
def test_freed_memory_below_what_is_in_use_goes_back_to_the_system() -> None:
    blocks = [bytearray(100_000) for _ in range(3000)]  # small enough for the heap, 0.28 GiB
    del blocks[:-1]
    before = resident_memory_gib()
    release_memory()
    assert before - resident_memory_gib() > 0.15


ADVISED = """
import re
from wordle_rl.cli import main
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
import torch
large = torch.ones(50_000_000)
regions = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", open("/proc/self/smaps").read())[1:]
starts = [[int(bound, 16) for bound in region.split(" ", 1)[0].split("-")] for region in regions]
(region,) = [region for region, (low, high) in zip(regions, starts) if low <= large.data_ptr() < high]
print(" hg" in region.split("VmFlags:")[1])
"""
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(not THP.exists(), reason="this system has no huge pages")
def test_large_tensors_of_a_run_ask_for_huge_pages_unless_the_user_wants_none(tmp_path, word_directory) -> None:
    # What the kernel then gives depends on the free memory of the machine; that the region asks for them does not.
    config = write_config(tmp_path / "mini.toml", word_directory, traces__num_games="40")
    found = {}
    for wanted in ("by default", "0"):
        env = {name: value for name, value in os.environ.items() if name != "THP_MEM_ALLOC_ENABLE"}
        env |= {"CUDA_VISIBLE_DEVICES": ""} | ({} if wanted == "by default" else {"THP_MEM_ALLOC_ENABLE": wanted})
        options = ["--stages", "sft", "--out", str(tmp_path / wanted)]
        command = [sys.executable, "-c", ADVISED, "run", str(config), *options]
        found[wanted] = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.split()[-1]
    assert found == {"by default": "True", "0": "False"}
