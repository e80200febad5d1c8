"""Laws of a vLLM server that plays for the trainer: it has the weights of the step, and nobody waits in vain."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import served_training
from fake_vllm import fake_vllm
from fake_vllm_server import INFO, FakeVLLMServer, without_nccl
from grpo_training import SETTINGS, Training, train_fixture  # noqa: F401  # a fixture
from rich.console import Console
from served_training import STEPS, TURNS
from torchrun import torchrun
from training_fixtures import rows, small_model, weights_of, write_config
from trl.scripts.vllm_serve import ScriptArguments, build_command

import wordle_rl.train.weight_sync as server_module
from wordle_rl.config import ConfigError, GRPOTraining, load_config
from wordle_rl.pipeline import Pipeline
from wordle_rl.policy.adapters import is_adapter
from wordle_rl.policy.loading import save_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.runs import RunError
from wordle_rl.runs.audit import audit
from wordle_rl.train.grpo_rollouts import GroupRollouts
from wordle_rl.words.split import split_secrets


@pytest.fixture
def server(train: Training, monkeypatch):
    """A server whose weights are not the policy's, and a trainer that finds a vllm to send them with."""
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm())
    monkeypatch.setattr(server_module, "_WAIT_S", 0.0)
    without_nccl(monkeypatch)
    model = small_model(train.tokenizer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    started = FakeVLLMServer(model)
    yield started
    started.close()


def on(server: FakeVLLMServer, **changes) -> GRPOTraining:
    return SETTINGS.model_copy(update={"engine": server.url, **changes})


def test_each_step_is_played_by_the_weights_it_trains(server, train, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(TransformersSampler, "sample", None)  # nobody else plays
    model = train(tmp_path / "run", on(server, steps=3))
    written = rows(tmp_path / "run" / "metrics.jsonl")
    assert [row["importance_ratio/mean"] for row in written] == pytest.approx([1.0] * 3, abs=1e-3)
    assert [row["importance_ratio/max"] for row in written] == pytest.approx([1.0] * 3, abs=1e-2)
    assert {"seconds/weights", "seconds/rollout"} <= set(written[0])
    start = weights_of(small_model(train.tokenizer))
    assert any(not torch.equal(start[name], weight) for name, weight in weights_of(model).items())


def test_weights_are_announced_by_name_type_and_shape_and_no_old_prefix_is_kept(server, train, tmp_path) -> None:
    model = train(tmp_path / "run", on(server, steps=2))
    parameters = dict(model.named_parameters())
    for told in server.announced:
        assert told["names"] == list(parameters)
        assert told["shapes"] == [list(parameter.shape) for parameter in parameters.values()]
        assert set(told["dtype_names"]) == {"float32"}
    calls = [event for event in server.events if event != "complete"]
    update_of_a_step = ["start_weight_update", "update_weights", "broadcast", "finish_weight_update"]
    sorted_calls = [sorted(calls[first : first + 5]) for first in (1, 6)]
    assert calls[0] == "init_weight_transfer_engine"
    assert sorted_calls == [sorted([*update_of_a_step, "reset_prefix_cache"])] * 2, "once for each step"
    assert len(calls) == 11
    assert server.events.index("complete") > server.events.index("reset_prefix_cache")


def test_games_that_outgrow_the_server_are_truncated_as_those_that_outgrow_the_model(
    server, train, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(server_module, "longest_game", lambda *_: 0)
    server.max_model_len = 20
    train(tmp_path / "run", on(server, steps=1))
    stops = {game.trajectory.transcript.stop_reason.value for game in train.games[0]}
    assert "token_budget" in stops
    assert all(game.trajectory.error is None for game in train.games[0])


# --- games ahead ----------------------------------------------------------------------------------------------------


def test_games_are_played_ahead_with_the_weights_before_the_update(server, train, tmp_path, monkeypatch) -> None:
    """Ratios are to the sampler: 1 in the first step, whose games the start played, and no more in the later ones."""
    monkeypatch.setattr(TransformersSampler, "sample", None)
    train(tmp_path / "run", on(server, steps=3, batches_ahead=1))
    first, *later = rows(tmp_path / "run" / "metrics.jsonl")
    assert first["importance_ratio/max"] == pytest.approx(1.0, abs=1e-3)
    assert all(row["importance_ratio/max"] > 1.001 for row in later)
    # The start plays the games of steps 1 and 2, the weights after step 1 those of step 3.
    assert server.events.count("update_weights") == 2


def test_an_error_in_games_ahead_ends_the_training(server, train, tmp_path, monkeypatch) -> None:
    play = GroupRollouts._play

    def fails(self, *given):
        if len(train.played) == 1:
            raise RunError("the games stopped")
        return play(self, *given)

    monkeypatch.setattr(GroupRollouts, "_play", fails)
    with pytest.raises(RunError, match="the games stopped"):
        train(tmp_path / "run", on(server, steps=3, batches_ahead=1))


def test_adapters_a_secrets_file_a_curriculum_and_turn_credit_go_with_games_ahead(
    server, train, word_directory, sixty, tmp_path
) -> None:
    save_model(small_model(train.tokenizer), train.codec, tmp_path / "base")
    server.max_model_len = server.llm.llm_engine.model_config.max_model_len = 256
    wanted = split_secrets(sixty).train[:6]
    (tmp_path / "train.txt").write_text("\n".join(wanted))
    settings = {
        "model__path": f"'{tmp_path / 'base'}'", "model.lora__rank": "4", "sft__epochs": "0", "eval__max_games": "1",
        "rl.starts__file": f"'{tmp_path / 'train.txt'}'", "rl.reward__preset": "'shaped_curriculum'",
        "grpo__engine": f"'{server.url}'", "grpo__batches_ahead": "1", "grpo__credit": "'turn'", "grpo__steps": "3",
    }  # fmt: skip
    config = load_config(write_config(tmp_path / "mini.toml", word_directory, **settings))
    run = tmp_path / "run"
    Pipeline(config, run, Console(quiet=True))()
    first, *later = (row for row in rows(run / "metrics.jsonl") if row["stage"] == "grpo")
    assert first["importance_ratio/mean"] == pytest.approx(1.0, abs=1e-3), "the merged weights are what the server has"
    assert len(later) == 2
    assert {secret for row in rows(run / "secrets.jsonl") for secret in row["secrets"]} <= {*wanted}
    assert server.events.count("update_weights") == 2
    assert is_adapter(run / "grpo")
    assert audit(run).clean


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "length", "named"),
    [
        (None, 128, "VLLM_SERVER_DEV_MODE=1"),
        ({**INFO, "weight_transfer_config": None}, 128, "--weight-transfer-config"),
        ({**INFO, "model_config": {"logprobs_mode": "raw_logprobs"}}, 128, r"raw_logprobs.*--logprobs-mode"),
        (INFO, 12, "max_completion_tokens 6.*--max-model-len"),
    ],
)
def test_a_server_that_cannot_serve_a_training_is_refused(info, length, named, server, train, tmp_path) -> None:
    server.info, server.max_model_len = info, length
    with pytest.raises(ConfigError, match=named):
        train(tmp_path / "run", on(server))
    assert server.events == []


def test_a_server_is_weighed_as_an_engine() -> None:
    served, here, own = (GRPOTraining(engine=name) for name in ("http://box:8000", "vllm", "transformers"))
    assert [settings.importance_cap for settings in (served, here, own)] == [2, 2, 0]
    assert GRPOTraining(engine="vllm", max_importance_ratio=0).importance_cap == 0
    assert [settings.server for settings in (served, here, own)] == ["http://box:8000", "", ""]


# --- two processes --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_whose_games_end_at_different_turns_train_together(server, word_directory, tmp_path) -> None:
    """One asks once a step, the other three times. With a gather for each call the second would wait for ever."""
    out = tmp_path / "run"
    started = torchrun(Path(served_training.__file__), word_directory, server.url, out)
    try:
        said, _ = started.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        started.kill()
        raise
    assert started.returncode == 0, said
    asked = [json.loads((out / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    assert asked == [[4] * STEPS, [4] * TURNS * STEPS]
    assert server.events.count("complete") == sum(map(sum, asked)), "nothing failed, and nothing was asked twice"
    assert server.events.count("update_weights") == STEPS, "the first process alone sends them"
    weights = [torch.load(out / f"rank{rank}.pt") for rank in (0, 1)]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    written = [row for row in rows(out / "metrics.jsonl") if row["stage"] == "grpo"]
    assert [row["importance_ratio/mean"] for row in written] == pytest.approx([1.0] * STEPS, abs=1e-3)
    assert [row["importance_ratio/max"] for row in written] == pytest.approx([1.0] * STEPS, abs=1e-2)
    assert all(row["grad_norm"] > 0 for row in written)


# --- the launch script ----------------------------------------------------------------------------------------------

SCRIPT = Path(__file__).parents[2] / "scripts" / "vllm_server.sh"


@pytest.fixture
def launch(tmp_path):
    """Run the script with a `vllm` that says how it was called: its arguments, then what its environment says."""
    command = tmp_path / "bin" / "vllm"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "dev mode: $VLLM_SERVER_DEV_MODE"\n')
    command.chmod(0o755)

    def run(*arguments: str) -> subprocess.CompletedProcess:
        environment = {"PATH": f"{command.parent}:/usr/bin:/bin"}
        return subprocess.run([SCRIPT, *arguments], env=environment, capture_output=True, text=True, timeout=20)

    return run


def test_the_script_starts_a_server_as_trl_wants_it(launch) -> None:
    """Against TRL's own command, without what this product does not ask for: the best of several log-probabilities."""
    *said, mode = launch("a model/sft").stdout.splitlines()
    assert said[:2] == ["serve", "a model/sft"]
    options = dict(zip(said[2::2], said[3::2], strict=True))
    wanted = build_command(ScriptArguments("a model/sft"))
    imposed = {name: wanted[wanted.index(name) + 1] for name in ("--weight-transfer-config", "--logprobs-mode")}
    assert options == {**imposed, "--host": "127.0.0.1", "--port": "8000"}
    assert mode == "dev mode: 1"
