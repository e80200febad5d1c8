"""Laws of vLLM beside the trainer: it plays with the weights of the step, awake for a rollout; nobody waits in vain."""

import sys
import threading

import pytest

torch = pytest.importorskip("torch")

from fake_vllm import FakeLLM, SamplingParams, fake_vllm
from grpo_training import SETTINGS, Training, train_fixture  # noqa: F401  # a fixture
from training_fixtures import compact, rows, small_model, weights_of
from transformers import AutoModelForCausalLM

import wordle_rl.train.vllm as module
from wordle_rl.chat.lengths import longest_game
from wordle_rl.config import (
    ConfigError,
    GRPOTraining,
    LoraSettings,
    ModelSettings,
    OptimizerSettings,
    VLLMSettings,
)
from wordle_rl.models.adapters import add_adapters, has_adapters
from wordle_rl.models.loading import load_model, save_model
from wordle_rl.runs.distributed import check_sharded, check_sharded_play
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.train.vllm import SharedEngine, engine_length


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


def test_an_engine_with_old_weights_would_be_seen(engine, tmp_path, monkeypatch) -> None:
    """The same with weights that never arrive: the law above can fail."""
    monkeypatch.setattr(FakeGeneration, "sync_weights", lambda self: None)
    engine(steps=1)
    [row] = rows(tmp_path / "run" / "metrics.jsonl")
    assert abs(row["importance_ratio/mean"] - 1) > 0.05


def test_the_engine_is_awake_for_a_rollout_and_asleep_while_the_policy_learns(engine) -> None:
    events = engine(steps=2, vllm=VLLMSettings(sleep=True)).llm.events
    turns = events.index("sleep 2") - events.index("wake kv_cache") - 1
    assert turns == 3, "woken for all turns, not for each"
    one_step = ["wake weights", "weights", "wake kv_cache", *["generate"] * 3, "sleep 2"]
    assert events[: len(one_step)] == one_step
    assert events == [*one_step, *one_step, "shutdown"]


@pytest.mark.parametrize("sleep", [False, True])
def test_validation_is_played_by_the_engine_with_the_weights_of_its_step(
    sleep, engine, train, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(TransformersSampler, "sample", None)
    setup = train.setup(validation=train.words.answers[:3])
    found = engine(setup=setup, steps=2, validate_every_steps=1, vllm=VLLMSettings(sleep=sleep))
    written = [row for row in rows(tmp_path / "run" / "metrics.jsonl") if row["stage"] == "grpo"]
    assert [row["importance_ratio/mean"] for row in written] == pytest.approx([1.0] * 2, abs=1e-3)
    weights, events = found.llm.events.count("weights"), found.llm.events
    if not sleep:
        assert weights == 3, "before the first step and after each, once"
    assert events[-1] == "shutdown"
    if sleep:
        assert all("weights" in events[last:here] for last, here in spans(events, "sleep 2", "generate"))


def spans(events: list[str], first: str, then: str) -> list[tuple[int, int]]:
    """From each `first` to the next `then` after it, where there is one."""
    found = []
    for place, event in enumerate(events):
        if event == first and then in events[place:]:
            found.append((place, events.index(then, place)))
    return found


def test_the_engine_takes_the_longest_game_and_no_more_than_the_model(sixty, codec, engine) -> None:
    prompter = compact()
    expected = longest_game(sixty, prompter, codec, VLLM.sampling.max_completion_tokens)
    assert expected < engine_length(VLLM, sixty, prompter, codec, None) < 2 * expected
    assert engine_length(VLLM, sixty, prompter, codec, 50) == 50
    found = engine(steps=1, vllm=VLLMSettings(max_length=99, gpu_memory_utilization=0.5, sleep=True))
    assert found.given == {
        "mode": "colocate",
        "tensor_parallel_size": 1,
        "gpu_memory_utilization": 0.5,
        "max_model_length": 99,
        "max_num_seqs": VLLM.groups_per_step * VLLM.group_size,
        "enable_sleep_mode": True,
    }


def test_games_that_outgrow_the_engine_are_truncated_as_those_that_outgrow_the_model(engine, train) -> None:
    found = engine(steps=1, vllm=VLLMSettings(max_length=20))
    assert max(map(len, found.llm.prompts)) <= 20 - VLLM.sampling.max_completion_tokens
    stops = {game.trajectory.transcript.stop_reason.value for game in train.games[0]}
    assert "token_budget" in stops
    assert all(game.trajectory.error is None for game in train.games[0])


# --- several processes ----------------------------------------------------------------------------------------------


class Meeting:
    """Threads in the place of processes: each gives something and takes what all have given."""

    def __init__(self, size: int) -> None:
        self.barrier, self.given = threading.Barrier(size, timeout=20), [None] * size
        self.local = threading.local()

    def gather(self, everyone: list, mine: object, group: object) -> None:
        self.given[self.local.rank] = mine
        self.barrier.wait()
        everyone[:] = self.given
        self.barrier.wait()


def test_processes_with_games_of_different_length_share_an_engine(monkeypatch) -> None:
    """Three processes ask 3, 0 and 1 times; each gets its own answers, all make the same calls, and all end."""
    meeting = Meeting(3)
    monkeypatch.setattr(torch.distributed, "all_gather_object", meeting.gather)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda _: 3)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda _: meeting.local.rank)
    calls: list[list[list[str]]] = [[], [], []]
    answers: list[list[list[str]]] = [[], [], []]

    class Echo:
        def __init__(self, rank: int) -> None:
            self.rank = rank

        def generate(self, prompts, sampling_params, *, use_tqdm) -> list[str]:
            calls[self.rank].append(list(prompts))
            pairs = zip(prompts, sampling_params, strict=True)
            return [f"{prompt} answered with {params.seed}" for prompt, params in pairs]

    def work(rank: int, turns: list[list[str]]) -> None:
        meeting.local.rank = rank
        engine = SharedEngine(Echo(rank), object())
        for asked in turns:
            params = [SamplingParams(seed=rank) for _ in asked]
            answers[rank].append(list(engine.generate(asked, params, use_tqdm=False)))
        engine.finish()

    plans = [[["a", "b"], ["c"], ["d"]], [], [["x"]]]
    threads = [threading.Thread(target=work, args=(rank, plan)) for rank, plan in enumerate(plans)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
        assert not thread.is_alive()
    for rank, plan in enumerate(plans):
        assert answers[rank] == [[f"{prompt} answered with {rank}" for prompt in turn] for turn in plan]
    assert calls[0] == calls[1] == calls[2] == [["a", "b", "x"], ["c"], ["d"]]


def test_an_engine_that_others_wait_with_is_kept(engine, monkeypatch) -> None:
    monkeypatch.setattr(module, "num_processes", lambda: 2)
    found = engine(steps=1)
    assert "shutdown" not in found.llm.events


# --- what is refused ------------------------------------------------------------------------------------------------


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
    with pytest.raises(ConfigError, match=r'takes no others; use grpo\.engine "transformers" on a CPU'):
        engine(steps=1)
    assert FakeGeneration.last.llm.events == []


def test_sharded_weights_are_for_vllm_alone_and_only_where_nothing_wants_them_whole(tokenizer) -> None:
    model = small_model(tokenizer)
    check_sharded_play(VLLM, has_adapters(model))
    check_sharded(OptimizerSettings(), "rl")
    for settings, policy, named in (
        (SETTINGS, model, "grpo.engine"),
        (update(VLLM, validate_every_steps=2), model, "validate_every_steps"),
        (VLLM, add_adapters(small_model(tokenizer), LoraSettings(rank=2), "base"), "adapters"),
    ):
        with pytest.raises(ConfigError, match=named):
            check_sharded_play(settings, has_adapters(policy))
    with pytest.raises(ConfigError, match=r"rl\.optimizer\.name 'muon' needs whole matrices"):
        check_sharded(OptimizerSettings(name="muon"), "rl")
