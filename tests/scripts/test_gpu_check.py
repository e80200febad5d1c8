"""Laws of the check of a GPU: every stage really runs, and what cannot run is said in one line."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
from transformers import Qwen3Config

from wordle_rl.policy.tiny import make_tokenizer

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "gpu_check.py"


@pytest.fixture
def script() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def call(*options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, options)]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


@pytest.mark.slow
def test_every_stage_runs_with_small_models_and_leaves_a_record(tmp_path: Path) -> None:
    done = call("--small", "--out", tmp_path / "check", "--seconds", 3000)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "check" / "record.json").read_text())
    stages = {stage["stage"]: stage for stage in record["stages"]}
    assert [(name, stage["outcome"]) for name, stage in stages.items()] == [
        ("embedded", "done"), ("weights", "done"), ("play", "done"), ("sft", "done"),
    ]  # fmt: skip
    assert record["small"] is True
    assert record["libraries"]["torch"] == torch.__version__
    assert {"processor", "cores", "memory_gib"} <= record["hardware"].keys()
    assert "git_commit" in record
    trained = stages["embedded"]["figures"]
    assert trained["seconds"].keys() >= {"traces", "sft", "grpo", "eval"}
    assert trained["memory"].keys() == {"sft", "grpo"}
    assert trained["sft held_out"]["games"] == trained["grpo held_out"]["games"] == 4
    played = stages["play"]["figures"]
    assert (played["engine"], played["games"]) == ("transformers", 8)
    assert len(played["tokens_per_s"]) == 3
    assert min(played["tokens_per_s"]) > 0
    assert played["peak_gib"] > 0
    learnt = stages["sft"]["figures"]
    assert learnt["preflight_total_gib"] > learnt["preflight_counted_gib"] > 0
    assert learnt["memory"]["sft"]["peak_gib"] > 0
    again = call("--small", "--out", tmp_path / "check")
    assert again.returncode == 2
    assert "is not empty" in again.stderr


def test_the_settings_of_its_sft_suit_a_pretrained_model(script, tmp_path, cli) -> None:
    """In full size, without the weights: what fails is memory alone, if this machine has too little."""
    weights, settings = tmp_path / "weights", tmp_path / "sft.toml"
    make_tokenizer().save_pretrained(weights)
    Qwen3Config(**script.QWEN_1_7B, tie_word_embeddings=True, architectures=["Qwen3ForCausalLM"]).save_pretrained(
        weights
    )
    settings.write_text(script.QWEN_SFT.format(games=240, rows=16))
    _, out, _ = cli("preflight", settings, "--model.path", weights, "--model.dtype", "bfloat16")
    problems = [line for line in out.splitlines() if line.startswith("problem: ")]
    assert "1,720,574,976" in out
    assert [line for line in problems if "may need about" not in line] == []


def test_a_check_in_which_nothing_was_begun_has_not_passed(tmp_path: Path) -> None:
    done = call("--small", "--out", tmp_path / "check", "--seconds", 0)
    assert done.returncode == 2, done.stderr
    assert done.stdout.count("skipped") == 4


def stage(script: SimpleNamespace, code: str, **changes: object):
    settings = {"least_s": 1.0, "most_s": 60.0, "figures": lambda: {"read": True}}
    return script.Stage("one", ("-c", code), **{**settings, **changes})


def test_a_stage_without_time_is_skipped_with_the_reason(script) -> None:
    result = script.run_stage(stage(script, "raise SystemExit(1)", least_s=30.0), left=12.4)
    assert (result.outcome, result.reason, result.figures) == ("skipped", "12 s left, it needs 30", {})


def test_a_stage_over_its_time_is_interrupted_as_on_ctrl_c_and_its_figures_are_read(script, tmp_path) -> None:
    saved = tmp_path / "saved"
    code = f"""
import pathlib, time
try:
    time.sleep(60)
except KeyboardInterrupt:
    pathlib.Path({str(saved)!r}).touch()
"""
    result = script.run_stage(stage(script, code, most_s=5.0), left=50.0)
    assert (result.outcome, result.reason) == ("interrupted", "not finished after 5 s")
    assert result.figures == {"read": True}
    assert saved.exists()
    assert result.seconds < 50


def test_what_needs_a_stage_that_did_not_finish_is_not_begun(script, tmp_path, monkeypatch) -> None:
    plan = (stage(script, "raise SystemExit(3)"), stage(script, "", after="one"), stage(script, ""))
    monkeypatch.setitem(script.check.__globals__, "stages", lambda *_: plan)
    results = script.check(tmp_path, small=True, seconds=100.0)
    assert [result.outcome for result in results] == ["failed", "skipped", "done"]
    assert results[1].reason == "it needs one, which did not finish"
    assert len(json.loads((tmp_path / "record.json").read_text())["stages"]) == 3
