"""Laws of vLLM beside the trainer: it plays with the weights of the step, awake for a rollout; nobody waits in vain."""

import inspect
import json
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import served_training
import torch
from fake_vllm import FakeLLM, fake_vllm
from fake_vllm_server import INFO, FakeVLLMServer, without_nccl
from grpo_training import SETTINGS, TOKENS, Training, update
from rich.console import Console
from round_training import setup_for
from served_training import STEPS, TURNS
from torchrun import torchrun
from training_fixtures import compact, rows, same_bits, small_model, weights_of, write_config
from transformers import AutoModelForCausalLM
from trl.generation.vllm_generation import VLLMGeneration
from trl.scripts.vllm_serve import ScriptArguments, build_command

import wordle_rl.train.weight_sync as module
from wordle_rl.chat.codec import longest_game
from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.refusals import Launch, check_launch
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.pipeline import Pipeline
from wordle_rl.policy.adapters import is_adapter
from wordle_rl.policy.loading import load_model, save_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.runs import RunError
from wordle_rl.runs.lineage import audit
from wordle_rl.train.grpo_rollouts import GroupRollouts
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.weight_sync import engine_length, open_engine
from wordle_rl.words.split import split_secrets

VLLM = update(SETTINGS, engine="vllm")


class FakeGeneration:
    """What TRL keeps its engine in: the same names, over a stand-in for the engine."""

    last: "FakeGeneration"

    def __init__(self, model, accelerator, processing_class, **given) -> None:
        self.model, self.given = model, given
        self.llm = FakeLLM(AutoModelForCausalLM.from_pretrained(model.name_or_path), given["max_model_length"])
        with torch.no_grad():
            for parameter in self.llm.model.parameters():  # whoever plays with these has not got the policy's weights
                parameter.normal_()
        FakeGeneration.last = self

    def sync_weights(self) -> None:
        self.llm.load(self.model)


@pytest.fixture
def engine(train: Training, monkeypatch, tmp_path):
    """Train with the stand-in; what it kept."""
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm())
    monkeypatch.setattr(module, "VLLMGeneration", FakeGeneration)
    for name in ("VLLM_LOGGING_LEVEL", "VLLM_LOGGING_STREAM"):
        monkeypatch.setenv(name, "ERROR")
    save_model(small_model(train.tokenizer), train.codec, tmp_path / "start")

    def run(setup=None, **changes) -> FakeGeneration:
        model, _ = load_model(ModelSettings(path=str(tmp_path / "start")), 0)
        train(tmp_path / "run", update(VLLM, **changes), model=model, setup=setup)
        return FakeGeneration.last

    return run


def check_on_policy(run: Path, steps: int) -> None:
    """Each step trained on games of its own weights: ratios of the policy to the sampler are 1."""
    written = [row for row in rows(run / "metrics.jsonl") if row["stage"] == "grpo"]
    assert [row["importance_ratio/mean"] for row in written] == pytest.approx([1.0] * steps, abs=1e-3)
    assert [row["importance_ratio/max"] for row in written] == pytest.approx([1.0] * steps, abs=1e-2)


def test_each_step_and_validation_is_played_by_the_engine_with_the_weights_of_its_time(
    engine, train, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(TransformersSampler, "sample", None)  # nobody else plays
    setup = train.setup(validation=train.words.answers[:3])
    found = engine(setup=setup, steps=3, validate_every_steps=1)
    check_on_policy(tmp_path / "run", 3)
    assert found.llm.events.count("weights") == 4, "before the first step and after each, once"
    assert found.llm.events[-1] == "shutdown"
    assert not same_bits(weights_of(small_model(train.tokenizer)), weights_of(found.model))


def test_an_engine_plays_the_interpolated_weights_that_are_judged(engine, train, tmp_path) -> None:
    setup = train.setup(validation=train.words.answers[:3])
    found = engine(setup=setup, steps=2, validate_every_steps=1, interpolation_alphas=(0.5,))
    stages = [row["stage"] for row in rows(tmp_path / "run" / "metrics.jsonl")]
    assert "grpo/blend" in stages
    assert found.llm.events.count("weights") == 4, "before the first step, after each, and half way"


def test_the_engine_takes_the_longest_game_and_no_more_than_the_model(sixty, codec, engine) -> None:
    setup = replace(setup_for(sixty, compact()), sampling=TOKENS)
    expected = longest_game(sixty, setup.prompter, codec, TOKENS.max_completion_tokens)
    assert expected < engine_length(setup, codec, None) < 2 * expected
    assert engine_length(setup, codec, 50) == 50


def test_an_engine_is_made_as_the_settings_say_and_kept_where_other_processes_wait(engine, monkeypatch) -> None:
    monkeypatch.setattr(module, "num_processes", lambda: 2)
    found = engine(steps=1, gpu_memory_utilization=0.5)
    assert found.given.pop("max_model_length")
    places = VLLM.groups_per_step * VLLM.group_size
    assert found.given == {
        "mode": "colocate", "tensor_parallel_size": 1, "gpu_memory_utilization": 0.5, "max_num_seqs": places,
        "enable_sleep_mode": False,
    }  # fmt: skip
    assert "shutdown" not in found.llm.events


# --- what is refused ---


def test_a_run_is_refused_before_its_teacher_plays(word_directory, tmp_path, cli, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    config = write_config(tmp_path / "mini.toml", word_directory)
    for setting in ("grpo", "eval"):
        code, _, err = cli("run", config, "--out", tmp_path / "out", f"--{setting}.engine", "vllm")
        assert (code, f"{setting}.engine" in err) == (2, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("is_packed", [True, False])
def test_an_engine_that_has_packed_its_weights_is_refused_before_it_plays(is_packed, engine, monkeypatch) -> None:
    """On some processors vLLM keeps a form of its own of each linear layer, in `cpu_linear`, and empties the layer."""
    begin = FakeGeneration.__init__

    def pack(self, *given, **more) -> None:
        begin(self, *given, **more)
        layer = next(module for module in self.llm.model.modules() if isinstance(module, torch.nn.Linear))
        layer.cpu_linear = torch.nn.functional.linear
        if is_packed:
            layer.weight = torch.nn.Parameter(torch.empty(0))

    monkeypatch.setattr(FakeGeneration, "__init__", pack)
    with pytest.raises(ConfigError, match=r"grpo\.engine") if is_packed else nullcontext():
        engine(steps=1)
    assert ("weights" in FakeGeneration.last.llm.events) is not is_packed


def test_a_model_that_was_never_saved_is_refused(engine, train, codec, sixty) -> None:
    learner = TorchLearner(small_model(train.tokenizer), codec)
    with pytest.raises(ConfigError, match="directory"):
        open_engine(learner, VLLM, setup_for(sixty, compact()))


def test_sharded_weights_are_not_validated_on_the_way() -> None:
    config = RunConfig(stages=("grpo",), model=ModelSettings(path="m"), grpo=update(VLLM, validate_every_steps=2))
    with pytest.raises(ConfigError, match=r"grpo\.validate_every_steps"):
        check_launch(config, ["grpo"], Launch(2, sharded=True))


def test_trl_still_has_what_is_used_of_it() -> None:
    source = inspect.getsource(VLLMGeneration)
    model = "self.llm.llm_engine.model_executor.driver_worker.model_runner.model"
    assert all(name in source for name in (model, 'logprobs_mode="processed_logprobs"', "external_launcher"))
    assert callable(VLLMGeneration.sync_weights)


# --- a vLLM server that plays for the trainer ---


@pytest.fixture
def server(train: Training, monkeypatch):
    """A server whose weights are not the policy's, and a trainer that finds a vllm to send them with."""
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm())
    monkeypatch.setattr(module, "_WAIT_S", 0.0)
    without_nccl(monkeypatch)
    model = small_model(train.tokenizer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    started = FakeVLLMServer(model)
    yield started
    started.close()


def on(server: FakeVLLMServer, **changes) -> GRPOSettings:
    return SETTINGS.model_copy(update={"engine": server.url, **changes})


def test_a_server_plays_each_step_with_the_weights_it_trains_and_keeps_no_old_prefix(
    server, train, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(TransformersSampler, "sample", None)  # nobody else plays
    model = train(tmp_path / "run", on(server, steps=2))
    check_on_policy(tmp_path / "run", 2)
    assert not same_bits(weights_of(small_model(train.tokenizer)), weights_of(model))
    assert set(rows(tmp_path / "run" / "metrics.jsonl")[0]) >= {"seconds/weights", "seconds/rollout"}
    parameters = dict(model.named_parameters())
    for told in server.announced:
        assert told["names"] == list(parameters)
        assert told["shapes"] == [list(parameter.shape) for parameter in parameters.values()]
        assert set(told["dtype_names"]) == {"float32"}
    calls = [event for event in server.events if event != "complete"]
    of_a_step = ["broadcast", "finish_weight_update", "reset_prefix_cache", "start_weight_update", "update_weights"]
    assert calls[0] == "init_weight_transfer_engine"
    assert [sorted(calls[first : first + 5]) for first in range(1, len(calls), 5)] == [of_a_step] * 2
    assert server.events.index("complete") > server.events.index("reset_prefix_cache")


def test_games_that_outgrow_the_server_are_truncated_as_those_that_outgrow_the_model(
    server, train, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(module, "longest_game", lambda *_: 0)
    server.max_model_len = 20
    train(tmp_path / "run", on(server, steps=1))
    stops = {game.trajectory.transcript.stop_reason.value for game in train.games[0]}
    assert "token_budget" in stops
    assert all(game.trajectory.error is None for game in train.games[0])


# --- games ahead ---


def test_games_are_played_ahead_with_the_weights_before_the_update(server, train, tmp_path, monkeypatch) -> None:
    """Ratios are to the sampler: 1 in the first step, whose games the start played, and no more in the later ones."""
    monkeypatch.setattr(TransformersSampler, "sample", None)
    train(tmp_path / "run", on(server, steps=3, batches_ahead=1))
    first, *later = rows(tmp_path / "run" / "metrics.jsonl")
    assert first["importance_ratio/max"] == pytest.approx(1.0, abs=1e-3)
    assert all(row["importance_ratio/max"] > 1.001 for row in later)
    # The start plays the games of steps 1 and 2, the weights after step 1 those of step 3.
    assert server.events.count("update_weights") == 2


@pytest.mark.parametrize(("slow", "staleness"), [("learner", [0, 1, 2, 2]), ("player", [0, 1, 1])])
def test_batches_wait_in_a_queue_for_a_slow_learner_and_are_never_older_than_asked(
    slow, staleness, server, train, tmp_path, monkeypatch
) -> None:
    """Sampled log-probabilities are those of the weights that played; a fast learner gets games one step old."""
    steps, ahead = len(staleness), 2
    update, play = TorchLearner.update, GroupRollouts.next

    def wait_for_the_queue(self, micro_batches, loss, step):
        while len(train.played) < min(step + ahead, steps):
            time.sleep(0.01)
        return update(self, micro_batches, loss, step)

    def slowly(self, *given):
        time.sleep(0.3)
        return play(self, *given)

    place, name, patched = {
        "learner": (TorchLearner, "update", wait_for_the_queue), "player": (GroupRollouts, "next", slowly)
    }[slow]  # fmt: skip
    monkeypatch.setattr(place, name, patched)
    train(tmp_path / "run", on(server, steps=steps, batches_ahead=ahead))
    written = rows(tmp_path / "run" / "metrics.jsonl")
    assert [row["staleness"] for row in written] == staleness
    on_policy = [row["importance_ratio/max"] == pytest.approx(1.0, abs=1e-3) for row in written]
    assert on_policy == [not steps_old for steps_old in staleness]
    assert server.events.count("update_weights") == len({step - old for step, old in enumerate(staleness)})


def test_a_validation_waits_for_the_games_that_are_under_way(server, train, tmp_path, monkeypatch) -> None:
    """Else the engine would take other weights in the middle of them."""
    under_way, sent = [], []
    play, send = GroupRollouts.next, module.Engine.send_weights

    def slowly(self, *given):
        under_way.append(1)
        time.sleep(0.3)
        played = play(self, *given)
        under_way.pop()
        return played

    def watched(self):
        sent.append(len(under_way))
        send(self)

    monkeypatch.setattr(GroupRollouts, "next", slowly)
    monkeypatch.setattr(module.Engine, "send_weights", watched)
    setup = train.setup(validation=train.words.answers[:3])
    train(tmp_path / "run", on(server, steps=3, batches_ahead=1, validate_every_steps=1), setup=setup)
    assert len(sent) > 6, "to play ahead, and for each validation"
    assert not any(sent)


def test_an_error_in_games_ahead_ends_the_training(server, train, tmp_path, monkeypatch) -> None:
    play = GroupRollouts._play

    def fails(self, *given):
        if len(train.played) == 1:
            raise RunError("the games stopped")
        return play(self, *given)

    monkeypatch.setattr(GroupRollouts, "_play", fails)
    with pytest.raises(RunError, match="the games stopped"):
        train(tmp_path / "run", on(server, steps=3, batches_ahead=3))
    assert len(train.played) == 1, "what is queued after them is not begun"


def test_adapters_a_secrets_file_a_curriculum_and_turn_credit_go_with_games_ahead(
    server, train, word_directory, sixty, tmp_path
) -> None:
    save_model(small_model(train.tokenizer), train.codec, tmp_path / "base")
    server.max_model_len = server.llm.llm_engine.model_config.max_model_len = 256
    wanted = split_secrets(sixty).train[:6]
    (tmp_path / "train.txt").write_text("\n".join(wanted))
    settings = {
        "model__path": f"'{tmp_path / 'base'}'", "model.lora__rank": "4", "stages": "['grpo']", "eval__max_games": "1",
        "grpo.starts__file": f"'{tmp_path / 'train.txt'}'", "grpo.reward__preset": "'shaped_curriculum'",
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


# --- what is refused ---


def info(**model_config: object) -> dict[str, object]:
    return {**INFO, "model_config": INFO["model_config"] | model_config}


@pytest.mark.parametrize(
    ("info", "length", "named"),
    [
        (None, 128, "VLLM_SERVER_DEV_MODE=1"),
        ({**INFO, "weight_transfer_config": None}, 128, "--weight-transfer-config"),
        (info(logprobs_mode="raw_logprobs"), 128, r"raw_logprobs.*--logprobs-mode"),
        (info(generation_config="auto"), 128, "--generation-config"),
        (info(override_generation_config={"max_new_tokens": 5}), 128, "--generation-config"),
        (INFO, 12, "max_completion_tokens 6.*--max-model-len"),
    ],
)
def test_a_server_that_cannot_serve_a_training_is_refused(info, length, named, server, train, tmp_path) -> None:
    server.info, server.max_model_len = info, length
    with pytest.raises(ConfigError, match=named):
        train(tmp_path / "run", on(server))
    assert server.events == []


# --- two processes ---


@pytest.mark.slow
def test_two_processes_whose_games_end_at_different_turns_train_together(server, word_directory, tmp_path) -> None:
    """One asks once a step, the other three times. With a gather for each call the second would wait for ever."""
    out = tmp_path / "run"
    with torchrun(Path(served_training.__file__), word_directory, server.url, out) as started:
        try:
            said, _ = started.communicate(timeout=240)
        finally:
            started.kill()
    assert started.returncode == 0, said
    check_on_policy(out, STEPS)
    asked = [json.loads((out / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    assert asked == [[4] * STEPS, [4] * TURNS * STEPS]
    assert server.events.count("complete") == sum(map(sum, asked)), "nothing failed, and nothing was asked twice"
    assert server.events.count("update_weights") == STEPS, "the first process alone sends them"
    assert same_bits(*(torch.load(out / f"rank{rank}.pt") for rank in (0, 1)))
    assert all(row["grad_norm"] > 0 for row in rows(out / "metrics.jsonl") if row["stage"] == "grpo")


# --- the launch script ---

SCRIPT = Path(__file__).parents[2] / "scripts" / "vllm_server.sh"


VARIABLES = {"LISTEN": "0.0.0.0", "PORT": "8001", "TP": "2", "DP": "4", "MAX_MODEL_LEN": "2048"}
OPTIONS = ("--host", "--port", "--tensor-parallel-size", "--data-parallel-size", "--max-model-len")


@pytest.mark.parametrize("given", [{}, VARIABLES, {"TP": "2"}])
def test_the_script_starts_a_server_as_trl_wants_it_and_as_variables_say(given, tmp_path) -> None:
    """Against TRL's own command, without what this product does not ask for: the best of several log-probabilities."""
    command = tmp_path / "bin" / "vllm"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "dev mode: $VLLM_SERVER_DEV_MODE"\n')
    command.chmod(0o755)

    environment = {"PATH": f"{command.parent}:/usr/bin:/bin", **given}
    said = subprocess.run([SCRIPT, "a model/sft"], env=environment, capture_output=True, text=True, timeout=20).stdout
    *said, mode = said.splitlines()
    assert said[:2] == ["serve", "a model/sft"]
    options = dict(zip(said[2::2], said[3::2], strict=True))
    wanted = build_command(ScriptArguments("a model/sft"))
    imposed = {name: wanted[wanted.index(name) + 1] for name in ("--weight-transfer-config", "--logprobs-mode")}
    ours = {"--host": "127.0.0.1", "--port": "8000", "--generation-config": "vllm"}
    asked = {option: given[name] for name, option in zip(VARIABLES, OPTIONS, strict=True) if name in given}
    assert options == {**imposed, **ours, **asked}
    assert mode == "dev mode: 1"
