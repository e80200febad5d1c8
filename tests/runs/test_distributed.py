"""Laws of two processes: they really train together, two times four is one times eight, and one of them writes."""

import json
import signal
import time
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
import two_processes
from grpo_training import Training
from torchrun import torchrun
from training_fixtures import compact, fast, rows, small_model, write_config
from two_processes import BATCH, GROUP_SIZE, GROUPS, LAST_BATCH, STEPS, train_both

import wordle_rl.train.grpo as grpo_module
from wordle_rl.config.base import LARGEST_SEED, ConfigError
from wordle_rl.config.refusals import check_launch
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.runs import write_json
from wordle_rl.runs.distributed import launch
from wordle_rl.runs.lineage import audit
from wordle_rl.train.example import encode_traces
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets


@pytest.fixture(scope="module")
def trained(plain_traces, tokenizer, codec, sixty, word_directory, tmp_path_factory) -> dict[int, Path]:
    """The same three steps of SFT and GRPO in one process and in two; number of processes -> run directory."""
    out = tmp_path_factory.mktemp("together")
    settings = GRPOSettings(steps=STEPS, groups_per_step=GROUPS, group_size=GROUP_SIZE, optimizer=fast())
    with pytest.MonkeyPatch.context() as patch:
        training = Training(tokenizer, codec, sixty, patch)
        training(out / "played", settings, model=small_model(tokenizer, 1))
    examples = [asdict(example) for example in encode_traces(plain_traces, compact(), codec, 1000).examples]
    taught = (STEPS - 1) * BATCH + LAST_BATCH
    games = {"examples": examples[:taught], "validation": examples[taught:][: BATCH + LAST_BATCH]}
    games["rows"] = [[asdict(row) for item in played.items(codec) for row in item] for played in training.played]
    write_json(out / "games.json", games)
    started = torchrun(Path(two_processes.__file__), word_directory, out / "games.json", out / "two")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpo_module, "GroupRollouts", grpo_module.GroupRollouts)  # put back afterwards
        one = train_both(str(word_directory), out / "games.json", out / "one")
    torch.save([model.state_dict() for model in one], out / "one" / "rank0.pt")
    said, _ = started.communicate(timeout=300)
    assert started.returncode == 0, said
    return {1: out / "one", 2: out / "two"}


def logged(run: Path, stage: str, name: str = "loss") -> list[dict[str, object]]:
    """The rows of a stage's metrics that have one of a name."""
    return [row for row in rows(run / "metrics.jsonl") if row["stage"] == stage and name in row]


@pytest.mark.slow
def test_two_processes_really_ran_and_metrics_are_those_of_both(trained) -> None:
    for rank in (0, 1):
        facts = json.loads((trained[2] / f"rank{rank}.json").read_text())
        assert facts["world_size"] == 2
        state = facts["state"]
        assert state["compliance"] == [0.25] * STEPS  # of all replies, none and half of them well formed
        assert state["cumulative_wins"] == 2 * STEPS
        assert list(state["priorities"].values()) == [1.5], "the mean of what both processes found"
    assert len(logged(trained[2], "grpo", "gradient/cosine")) == STEPS
    assert not logged(trained[1], "grpo", "gradient/cosine")
    found = [row for row in rows(trained[2] / "secrets.jsonl") if row["stage"] == "grpo"]
    assert {(row["step"], row["process"]) for row in found} == {(s, p) for s in range(STEPS) for p in (0, 1)}
    assert {row["process"]: row["secrets"] for row in found} == {0: ["rank0"], 1: ["rank1"]}
    grpo = logged(trained[2], "grpo")
    assert {row["win_rate"] for row in grpo} == {0.75}, "one process won all three, the other lost its one"
    assert {row["skipped_groups"] for row in grpo} == {2.0}
    assert [row["cumulative_wins"] for row in grpo] == [2.0, 4.0, 6.0]


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "place"), [("sft", 0), ("grpo", 1)])
def test_twice_half_a_batch_trains_as_a_whole_one(stage, place, trained) -> None:
    one, two = (logged(trained[n], stage) for n in (1, 2))
    assert [row["step"] for row in one] == [row["step"] for row in two] == list(range(1, STEPS + 1))
    for name in ("loss", "grad_norm", *(("entropy", "kl", "sampler_kl") if stage == "grpo" else ())):
        assert [row[name] for row in two] == pytest.approx([row[name] for row in one], rel=1e-4, abs=1e-6)
    # The validation loss is of 21 games, which two processes share unevenly.
    [one], [two] = (logged(trained[n], "sft", "validation_loss") for n in (1, 2))
    for name in ("validation_loss", "validation_mean_token_accuracy"):
        assert two[name] == pytest.approx(one[name], rel=1e-3)
    weights = [torch.load(trained[n] / f"rank{rank}.pt")[place] for n, rank in ((1, 0), (2, 0), (2, 1))]
    start = small_model(make_tokenizer(), place).state_dict()
    for name, weight in weights[0].items():
        assert torch.allclose(weight, weights[1][name], atol=2e-4), name
        assert torch.equal(weights[1][name], weights[2][name]), "both processes hold the same weights"
    assert max(float((weights[0][name] - start[name]).abs().max()) for name in start) > 5e-3


@pytest.mark.slow
def test_a_run_on_two_processes_is_interrupted_and_goes_on(word_directory, tmp_path: Path) -> None:
    """Ctrl-C reaches both at the same step; the same command finishes, and the first process alone has written."""
    config = write_config(
        tmp_path / "mini.toml", word_directory, sft__epochs="12", sft__batch_size="16",
        eval__max_games="4", grpo__groups_per_step="1", grpo__probe_every_steps="2",
    )  # fmt: skip
    directory = tmp_path / "run"
    metrics, checkpoints = directory / "metrics.jsonl", directory / "sft" / "checkpoints"
    command = ("-m", "wordle_rl", "run", config, "--out", directory, "--seed", LARGEST_SEED)
    first = torchrun(*command)
    deadline = time.monotonic() + 200
    while not metrics.is_file() and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    said, _ = first.communicate(timeout=120)
    assert first.returncode != 0, said
    [stopped_at] = [int(path.name.removeprefix("checkpoint-")) for path in checkpoints.glob("checkpoint-*")]
    assert [row["step"] for row in rows(metrics) if "loss" in row] == [*range(10, stopped_at + 1, 10)]
    assert not (directory / "sft" / "model.safetensors").exists()
    again = torchrun(*command)
    said, _ = again.communicate(timeout=300)
    assert again.returncode == 0, said
    num_steps = 12 * -(-200 // 32)
    assert 0 < stopped_at < num_steps
    epochs = [row["step"] for row in rows(metrics) if "validation_loss" in row]
    assert epochs == list(range(num_steps // 12, num_steps + 1, num_steps // 12))
    found = [(row["stage"], row["step"]) for row in rows(metrics) if "validation_loss" not in row]
    steps = sorted({*range(10, num_steps, 10), num_steps})  # every tenth, as if it had not been stopped
    assert found == [("sft", step) for step in steps] + [("grpo", 1), ("grpo", 2)]
    played = rows(directory / "secrets.jsonl")
    drawn = {(row["step"], row["process"]): row["secrets"] for row in played if row["stage"] == "grpo"}
    assert set(drawn) == {(step, process) for step in (0, 1) for process in (0, 1)}
    assert drawn[0, 0] != drawn[0, 1]
    probed = {(row["step"], row["process"]): row["secrets"] for row in played if row["stage"] == "grpo/probe"}
    assert set(probed) == {(0, 0), (0, 1)}
    assert sorted(probed[0, 0] + probed[0, 1]) == sorted(split_secrets(load_words(str(word_directory))).train)
    assert ["probe_win_rate" in row for row in rows(metrics)[-2:]] == [True, False]
    assert audit(directory).clean
    assert set(json.loads((directory / "results.json").read_text())) >= {"sft", "grpo", "seconds"}
    assert not [path for path in directory.rglob("*") if "partial" in path.name or path.name == "checkpoints"]


FSDP = {"ACCELERATE_USE_FSDP": "true"}


@pytest.mark.parametrize(
    ("environment", "settings", "named"),
    [
        (FSDP, {}, "grpo.engine"),
        ({"WORLD_SIZE": "2"}, {"stages": ["sft", "distill"]}, "distill"),
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, {}, "DeepSpeed"),
        (FSDP, {"grpo": {"engine": "vllm"}, "model": {"path": "x", "lora": {"rank": 2}}}, "adapters"),
        (FSDP, {"sft": {"optimizer": {"muon_learning_rate": 0.02}}}, "muon"),
    ],
)
def test_what_a_launch_says_is_held_against_the_stages_to_come(environment, settings, named, monkeypatch) -> None:
    config = RunConfig.model_validate(settings)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=named):
        check_launch(config, config.stages, launch())
