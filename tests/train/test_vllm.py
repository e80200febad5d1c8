"""Laws of vLLM beside the trainer: it plays with the weights of the step, awake for a rollout; nobody waits in vain."""

import inspect
import sys

import pytest

torch = pytest.importorskip("torch")

from fake_vllm import FakeLLM, fake_vllm
from grpo_training import SETTINGS, Training, train_fixture  # noqa: F401  # a fixture
from training_fixtures import compact, rows, small_model, weights_of, write_config
from transformers import AutoModelForCausalLM
from trl.generation.vllm_generation import VLLMGeneration

import wordle_rl.train.weight_sync as module
from wordle_rl.chat.codec import longest_game
from wordle_rl.config import (
    ConfigError,
    GRPOTraining,
    LoraSettings,
    ModelSettings,
    OptimizerSettings,
)
from wordle_rl.policy.adapters import add_adapters, has_adapters
from wordle_rl.policy.loading import load_model, save_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.runs.distributed import check_sharded, check_sharded_play
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.weight_sync import engine_length, open_engine


def update(settings: GRPOTraining, **changes: object) -> GRPOTraining:
    return settings.model_copy(update=changes)


VLLM = update(SETTINGS, engine="vllm")


class FakeGeneration:
    """What TRL keeps its engine in: the same names, over a stand-in for the engine."""

    last: "FakeGeneration"

    def __init__(self, model, accelerator, processing_class, **given) -> None:
        self.model, self.given = model, given
        self.llm = FakeLLM(AutoModelForCausalLM.from_pretrained(model.name_or_path), given["max_model_length"])
        self.enable_sleep_mode = given["enable_sleep_mode"]
        with torch.no_grad():
            for parameter in self.llm.model.parameters():  # whoever plays with these has not got the policy's weights
                parameter.normal_()
        FakeGeneration.last = self

    def sync_weights(self) -> None:
        if self.enable_sleep_mode:
            self.llm.wake_up(tags=["weights"])
        self.llm.load(self.model)


@pytest.fixture
def engine(train: Training, monkeypatch, tmp_path):
    """Train with the stand-in; what it kept."""
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm())
    monkeypatch.setattr(module, "VLLMGeneration", FakeGeneration)
    for name in ("VLLM_LOGGING_LEVEL", "VLLM_LOGGING_STREAM"):
        monkeypatch.setenv(name, "ERROR")
    save_model(small_model(train.tokenizer), train.codec, tmp_path / "start")

    def run(settings: GRPOTraining = VLLM, setup=None, **changes) -> FakeGeneration:
        model, _ = load_model(ModelSettings(path=str(tmp_path / "start")), 0)
        train(tmp_path / "run", update(settings, **changes), model=model, setup=setup)
        return FakeGeneration.last

    return run


def test_each_step_is_played_by_the_weights_it_trains(engine, train, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(TransformersSampler, "sample", None)  # nobody else plays
    found = engine(steps=3)
    written = rows(tmp_path / "run" / "metrics.jsonl")
    assert [row["importance_ratio/mean"] for row in written] == pytest.approx([1.0] * 3, abs=1e-3)
    assert [row["importance_ratio/max"] for row in written] == pytest.approx([1.0] * 3, abs=1e-2)
    assert found.llm.events.count("weights") == 3
    assert {"seconds/weights", "seconds/rollout"} <= set(written[0])
    start = weights_of(small_model(train.tokenizer))
    assert any(not torch.equal(start[name], weight) for name, weight in weights_of(found.model).items())


def test_validation_is_played_by_the_engine_with_the_weights_of_its_step(engine, train, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(TransformersSampler, "sample", None)
    setup = train.setup(validation=train.words.answers[:3])
    found = engine(setup=setup, steps=2, validate_every_steps=1)
    written = [row for row in rows(tmp_path / "run" / "metrics.jsonl") if row["stage"] == "grpo"]
    assert [row["importance_ratio/mean"] for row in written] == pytest.approx([1.0] * 2, abs=1e-3)
    weights, events = found.llm.events.count("weights"), found.llm.events
    assert weights == 3, "before the first step and after each, once"
    assert events[-1] == "shutdown"


def test_the_engine_takes_the_longest_game_and_no_more_than_the_model(sixty, codec, engine) -> None:
    prompter = compact()
    expected = longest_game(sixty, prompter, codec, VLLM.sampling.max_completion_tokens)
    assert expected < engine_length(VLLM, sixty, prompter, codec, None) < 2 * expected
    assert engine_length(VLLM, sixty, prompter, codec, 50) == 50
    found = engine(steps=1, gpu_memory_utilization=0.5)
    assert found.given == {
        "mode": "colocate",
        "tensor_parallel_size": 1,
        "gpu_memory_utilization": 0.5,
        "max_model_length": found.given["max_model_length"],
        "max_num_seqs": VLLM.groups_per_step * VLLM.group_size,
        "enable_sleep_mode": False,
    }


# --- several processes ----------------------------------------------------------------------------------------------


def test_an_engine_that_others_wait_with_is_kept(engine, monkeypatch) -> None:
    monkeypatch.setattr(module, "num_processes", lambda: 2)
    found = engine(steps=1)
    assert "shutdown" not in found.llm.events


# --- what is refused ------------------------------------------------------------------------------------------------


def test_a_run_is_refused_before_its_teacher_plays(word_directory, tmp_path, cli, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    config = write_config(tmp_path / "mini.toml", word_directory)
    for setting in ("grpo", "eval"):
        code, _, err = cli("run", config, "--out", tmp_path / "out", f"--{setting}.engine", "vllm")
        assert code == 2
        assert f'{setting}.engine "vllm"' in err
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
    if not is_packed:
        assert "weights" in engine(steps=1).llm.events
        return
    with pytest.raises(ConfigError, match=r"grpo\.engine"):
        engine(steps=1)
    assert FakeGeneration.last.llm.events == []


def test_a_model_that_was_never_saved_is_refused(engine, train, codec, sixty) -> None:
    learner = TorchLearner(small_model(train.tokenizer), codec)
    with pytest.raises(ConfigError, match="directory"):
        open_engine(learner, VLLM, sixty, compact())


def test_sharded_weights_are_for_vllm_alone_and_only_where_nothing_wants_them_whole(tokenizer) -> None:
    model = small_model(tokenizer)
    check_sharded_play(VLLM, has_adapters(model))
    check_sharded_play(GRPOTraining(engine="http://box:8000"), has_adapters=False)
    check_sharded(OptimizerSettings(), "rl")
    for settings, policy, named in (
        (SETTINGS, model, "grpo.engine"),
        (update(VLLM, validate_every_steps=2), model, "validate_every_steps"),
        (VLLM, add_adapters(small_model(tokenizer), LoraSettings(rank=2), "base"), "adapters"),
    ):
        with pytest.raises(ConfigError, match=named):
            check_sharded_play(settings, has_adapters(policy))
    with pytest.raises(ConfigError, match=r"rl\.optimizer\.muon_learning_rate: Muon needs whole matrices"):
        check_sharded(OptimizerSettings(muon_learning_rate=0.02), "rl")


def test_trl_still_has_what_is_used_of_it() -> None:
    source = inspect.getsource(VLLMGeneration)
    for name in (
                 "self.llm.llm_engine.model_executor.driver_worker.model_runner.model",
                 'logprobs_mode="processed_logprobs"', "external_launcher"):  # fmt: skip
        assert name in source, name
    assert callable(VLLMGeneration.sync_weights)
