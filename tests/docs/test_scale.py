"""Laws of the page about many machines: its tables are computed, and its numbers are those of the models."""

import importlib
import json
import runpy
import shlex
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from transformers import AutoModelForCausalLM

from wordle_rl.config import RunConfig
from wordle_rl.pipeline.token_costs import GameTokens, TokenCosts
from wordle_rl.preflight.memory import cache_bytes

ROOT = Path(__file__).resolve().parents[2]
RATES_OF_ONE = ["--prefill-tokens-per-s", "1", "--decode-tokens-per-s", "1", "--training-tokens-per-s", "1"]


@pytest.fixture(scope="module")
def script() -> dict:
    return runpy.run_path(str(ROOT / "scripts" / "scale_table.py"))


def test_the_tables_are_those_the_script_prints(script) -> None:
    assert "\n".join(script["tables"]()) in (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["Qwen3-1.7B", "Qwen3-4B"])
def test_parameters_and_cache_are_those_of_the_model(script, name) -> None:
    memory = runpy.run_path(str(ROOT / "scripts" / "memory_table.py"))
    config, counted = memory["MODELS"][name], script["MODELS"][name]
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert counted.parameters == sum(weights.numel() for weights in model.parameters())
    [_, numbers, _] = memory["_numbers"](config)
    assert counted.cache_bytes == cache_bytes(numbers, 1, 1)


@pytest.fixture
def times(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("time_table")


def test_the_table_of_seconds_is_the_one_the_script_prints(times, capsys) -> None:
    times.main([])
    assert capsys.readouterr().out.strip() in (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")


def test_costs_that_are_given_make_the_table(times, capsys) -> None:
    rates = ("--prefill-tokens-per-s", "60000", "--decode-tokens-per-s", "5000", "--training-tokens-per-s", "16000")
    times.main(["--model", "Qwen3-4B", *rates])
    *_, of_eight, _ = capsys.readouterr().out.splitlines()
    cells = [cell.strip() for cell in of_eight.strip("|").split("|")]
    read, sampled, games = 704 * 512 + 5 * 64 * 4096, 6 * 512 * 4096, 4096
    assert cells[:2] == ["Qwen3-4B", "8"]
    assert cells[3] == f"{(read / 60000 + sampled / 5000) / 8:,.0f}"
    assert cells[4] == f"{games * 4096 / 60000 / 8:,.0f}"
    assert cells[5] == f"{games * 4096 / 16000 / 8:,.0f}"
    assert cells[7] == f"{10_000 * 4096 / 16000 / 8:,.0f}"


def recorded_run(directory: Path) -> Path:
    """A run with two steps of a real one of the embedded model, 16 groups of 8."""
    directory.mkdir()
    config = RunConfig.model_validate(
        {
            "rl": {"group_size": 8},
            "grpo": {"groups_per_step": 16, "max_refills": 1},
        }
    )
    (directory / "config.json").write_text(json.dumps(config.stored()))
    by_turn = (
        (0.0, 0.0, 0.041666666666666664, 0.06666666666666667, 0.075, 0.08333333333333333),
        (0.0, 0.0, 0.020833333333333332, 0.052083333333333336, 0.052083333333333336, 0.0625),
    )
    times = (
        {"rollout": 8.03827715600005, "logprobs": 0.376619, "forward": 8.5546, "backward": 5.5997, "update": 0.0507},
        {"rollout": 9.415867359000003, "logprobs": 0.319999, "forward": 7.0914, "backward": 6.5330, "update": 0.0820},
    )
    rows = [
        {
            "stage": "grpo",
            "step": 2 + number,
            "reply_tokens": (8.002680965147453, 8.025245441795231)[number],
            "zero_variance_share": (0.0625, 0.1875)[number],
            **{f"win_rate_by_turn/{turn}": rate for turn, rate in enumerate(by_turn[number], start=1)},
            **{f"seconds/{part}": seconds for part, seconds in times[number].items()},
        }
        for number in range(2)
    ]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return directory


def test_the_prediction_for_a_recorded_run_is_that_of_the_formula(times, tmp_path, capsys) -> None:
    rates = ("--prefill-tokens-per-s", "500", "--decode-tokens-per-s", "200", "--training-tokens-per-s", "700")
    tokens = ("--prompt-tokens", "4", "--feedback-tokens", "4.11")
    run = recorded_run(tmp_path / "run")
    times.main(["--check", str(run), *rates, *tokens])
    lines = [line.strip("|").split("|") for line in capsys.readouterr().out.splitlines()[2:]]
    found = {name.strip(): [float(number) for number in numbers] for name, *numbers in lines}
    turns = (6 - 0.18333333333333332, 6 - 0.125)
    replies, redrawn = (8.002680965147453, 8.025245441795231), (0.0625, 0.1875)
    rollout, training = [], []
    for t, reply, again in zip(turns, replies, redrawn, strict=True):
        fed_back, sampled = (t - 1) * 4.11, t * reply
        rollout.append(16 * (1 + again) * (4 / 500 + 8 * (fed_back / 500 + sampled / 200)))
        training.append((4 + fed_back + sampled) * (16 * 8 / 700 + 64 / 500))
    assert list(found) == ["rollout", "training", "update", "step"]
    assert found["rollout"][:2] == pytest.approx(
        [sum(rollout) / 2, (8.03827715600005 + 9.415867359000003) / 2], abs=1e-3
    )
    assert found["training"][:2] == pytest.approx([sum(training) / 2, (14.1543 + 13.6244) / 2], abs=1e-3)
    for predicted, measured, ratio in (found["rollout"], found["training"], found["step"]):
        assert ratio == pytest.approx(predicted / measured, abs=6e-3)


def test_a_config_is_predicted_from_measured_costs(times, capsys, monkeypatch) -> None:
    costs = TokenCosts(prefill_s=0.001, decode_s=0.01, training_s=0.003, sft_s=0.002, update_s=0.5)
    monkeypatch.setattr(times, "measured_here", lambda *_: (costs, GameTokens(4, 6, 12, 5), 50.0))
    times.main([str(ROOT / "configs" / "quickstart.toml"), "--turns", "4", "--reply-tokens", "8"])
    rates, game, step, epoch = capsys.readouterr().out.splitlines()
    assert "read 1,000, sampled 100" in rates
    assert "4.00 turns, 8.00 tokens a reply" in game
    rollout = 32 * (4 * 0.001 + 16 * (3 * 5 * 0.001 + 32 * 0.01))
    training = 32 * 16 * (4 + 15 + 32) * 0.003 + 64 * (4 + 15 + 32) * 0.001
    assert step.startswith(f"GRPO step: {rollout + training + 0.5:.2f} s (rollout {rollout:.2f} s, ")
    assert step.endswith("40 of them")
    assert epoch.startswith(f"SFT epoch: {120_000 * 50 * 0.002:.1f} s")


@pytest.mark.parametrize(("line", "message"), [
    ('algorithm = "dagger"\n', "take a config with grpo"),
    ('[grpo]\nturn_candidates = 2\ncredit = "guess"\n', "set it to 1"),
])  # fmt: skip
def test_what_the_formula_does_not_cover_is_refused(times, tmp_path, line, message) -> None:
    path = tmp_path / "config.toml"
    path.write_text(line)
    with pytest.raises(SystemExit, match=message):
        times.main([str(path)])


@pytest.mark.parametrize(("arguments", "message"), [
    (["--model", "Qwen3-4B", "--decode-tokens-per-s", "5"], "belong together"),
    (["--check", "run", *RATES_OF_ONE], "--prompt-tokens"),
    (RATES_OF_ONE, "name it by --model"),
])  # fmt: skip
def test_costs_that_are_incomplete_are_refused(times, arguments, message) -> None:
    with pytest.raises(SystemExit, match=message):
        times.main(arguments)


def test_options_of_the_launch_scripts_exist(capsys) -> None:
    from wordle_rl.__main__ import main

    with pytest.raises(SystemExit):
        main(["verl", "--help"])
    described = capsys.readouterr().out
    scripts = sorted((ROOT / "scripts" / "verl").glob("*.sh"))
    assert len(scripts) == 3
    for path in scripts:
        command = path.read_text(encoding="utf-8").replace("\\\n", " ").rsplit("wordle-rl verl", 1)[1]
        options = [word for word in shlex.split(command) if word.startswith("--")]
        assert options
        assert [option for option in options if option not in described] == []
