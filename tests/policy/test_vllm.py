"""Laws of sampling from vLLM, over stand-ins: of an engine and a server alike, and of an engine in this process."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from chat_families import family_tokenizer
from fake_vllm import FakeLLM, fake_vllm
from fake_vllm_server import FakeVLLMServer
from sampled_games import check_played_alike, padded_model, said_by
from training_fixtures import compact, small_model

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import LoraSettings, ModelSettings
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.asked import PlayerSpec
from wordle_rl.evaluate.players import make_player
from wordle_rl.policy.base import Request, Sampler
from wordle_rl.policy.constrain import ReplyProcessor, make_constraint
from wordle_rl.policy.loading import load_model, save_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.policy.vllm import VLLMSampler
from wordle_rl.policy.vllm_server import ServedModel, ServerSampler
from wordle_rl.prompt import Prompter, Shape, Style
from wordle_rl.rollout import play

GREEDY = SamplingSettings(temperature=0.0, max_completion_tokens=7)


@pytest.fixture(autouse=True)
def vllm(monkeypatch) -> ModuleType:
    module = fake_vllm()
    monkeypatch.setitem(sys.modules, "vllm", module)
    return module


def requests_of(codec, texts: list[str]) -> list[Request]:
    return [Request(i, (), (), codec.encode(text)) for i, text in enumerate(texts)]


Make = Callable[..., Sampler]


@pytest.fixture(params=["engine", "server"])
def sampler_of(request, codec) -> Iterator[Make]:
    """A sampler of a model, by either way to vLLM."""
    servers: list[FakeVLLMServer] = []

    def make(model, settings: SamplingSettings, seed: int = 0) -> Sampler:
        if request.param == "engine":
            return VLLMSampler(FakeLLM(model), codec, settings, seed)
        servers.append(FakeVLLMServer(model))
        asked, served = GRPOSettings(engine=servers[-1].url), ServedModel("alias", 128)
        return ServerSampler(asked, served, codec, settings, seed, model.config.vocab_size)

    yield make
    for server in servers:
        server.close()


@pytest.mark.parametrize("shape", Shape)
def test_the_games_are_those_that_transformers_plays(shape, sampler_of, tiny_model, codec, small_words) -> None:
    starts = [InitialState(secret) for secret in small_words.answers[:6]]
    prompter = compact(shape, max_turns=3)
    there = play(starts, small_words, prompter, sampler_of(tiny_model, GREEDY))
    here = play(starts, small_words, prompter, TransformersSampler(tiny_model, codec, GREEDY))
    check_played_alike(there, here)
    assert any(game.segments for game in there)


def test_an_engine_is_called_once_a_turn(tiny_model, codec, small_words) -> None:
    engine = FakeLLM(tiny_model)
    starts = [InitialState(secret) for secret in small_words.answers[:6]]
    games = play(starts, small_words, compact(max_turns=3), VLLMSampler(engine, codec, GREEDY))
    assert len(engine.calls) == max(len(game.transcript.own_turns) for game in games)


def test_games_of_a_group_draw_from_streams_of_their_own_and_a_seed_repeats_them(sampler_of, tiny_model, codec) -> None:
    settings = SamplingSettings(max_completion_tokens=5)

    def said(seed: int, count: int = 8) -> list[tuple[int, ...]]:
        sampler = sampler_of(tiny_model, settings, seed)
        asked = requests_of(codec, ["5x6"] * count)
        return [completion.token_ids for _ in range(2) for completion in sampler.sample(asked)]

    assert said(1) == said(1) != said(2)
    assert said(1)[:8] != said(1)[8:]
    assert said(1, 2)[:2] == said(1)[:2]
    assert len(set(said(1))) > 4


def test_ids_that_the_tokenizer_does_not_know_are_ruled_out(sampler_of, tokenizer, codec) -> None:
    model = padded_model(tokenizer)
    said = said_by(sampler_of(model, GREEDY), codec)
    own = said_by(TransformersSampler(model, codec, GREEDY), codec)
    assert [each.token_ids for each in said] == [each.token_ids for each in own]
    drawn = said_by(sampler_of(model, SamplingSettings(max_completion_tokens=9)), codec)
    assert len({each.token_ids for each in drawn}) > 10
    model.resize_token_embeddings(len(tokenizer) + 1025)
    with pytest.raises(ConfigError, match="engine"):
        sampler_of(model, GREEDY)


def test_a_prompt_that_the_engine_cannot_take_is_an_error_and_the_others_are_asked(tiny_model, codec) -> None:
    sampler = VLLMSampler(FakeLLM(tiny_model, max_model_len=20), codec, GREEDY, max_length=20)
    short, long, other = sampler.sample(requests_of(codec, ["5x6", "crane" * 9, "6x5"]))
    assert long.error is not None
    alone = VLLMSampler(FakeLLM(tiny_model), codec, GREEDY).sample(requests_of(codec, ["5x6", "6x5"]))
    assert [short, other] == alone


@pytest.mark.parametrize("family", [None, "deepseek-r1"])
def test_a_follower_forbids_what_the_constraint_forbids_and_reads_each_token_once(family, codec, small_words) -> None:
    """Also of a family whose prompts open the thought."""
    codec = codec if family is None else ChatCodec(family_tokenizer(family))
    constraint = make_constraint(small_words, Prompter(Style.COMPACT), codec)
    read: list[int] = []
    after = constraint.after
    constraint.after = lambda state, token: (read.append(token), after(state, token))[1]
    processor, ids = ReplyProcessor(constraint), codec.reply_ids("<think><guess></think><guess>kudzu</guess>")
    for place in range(len(ids)):
        logits = torch.zeros(len(codec.tokenizer))
        read.clear()
        found = processor(ids[:place], logits)
        assert len(read) <= 1
        assert torch.equal(found, ReplyProcessor(constraint)(ids[:place], torch.zeros(len(codec.tokenizer))))


# --- an engine of its own -------------------------------------------------------------------------------------------


@pytest.fixture
def directory(tokenizer, codec, tmp_path):
    save_model(small_model(tokenizer), codec, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def started(vllm, tokenizer, monkeypatch) -> list[FakeLLM]:
    """The engines that were started."""
    engines: list[FakeLLM] = []

    def start(**given: object) -> FakeLLM:
        engines.append(FakeLLM(small_model(tokenizer), **given))
        return engines[-1]

    vllm.LLM = start
    distributed = ModuleType("vllm.distributed")
    distributed.parallel_state = SimpleNamespace(model_parallel_is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "vllm.distributed", distributed)
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_LOGGING_LEVEL", "VLLM_LOGGING_STREAM"):
        monkeypatch.setenv(name, "1")
    return engines


def test_a_model_directory_is_played_by_an_engine_of_its_own(started, directory, sixty, solver) -> None:
    player = make_player(PlayerSpec(str(directory), GREEDY, 3, engine="vllm"), sixty, solver)
    [engine] = started
    assert engine.given["model"] == str(directory)
    assert engine.given["logprobs_mode"] == "processed_logprobs", "else temperature is left out of them"
    assert engine.given["seed"] == 3
    assert "logits_processors" not in engine.given
    assert isinstance(player.sampler, VLLMSampler)
    player.sampler.close()
    assert engine.events == ["shutdown"]


def test_a_temperature_that_vllm_would_raise_is_refused(started, directory, sixty, solver) -> None:
    low = GREEDY.model_copy(update={"temperature": 0.009})
    with pytest.raises(ConfigError, match="temperature"):
        make_player(PlayerSpec(str(directory), low, engine="vllm"), sixty, solver)
    assert not started


def test_an_adapter_is_merged_for_the_engine_that_plays_it(
    vllm, started, directory, sixty, solver, tmp_path, monkeypatch
) -> None:
    model, codec = load_model(ModelSettings(path=str(directory), lora=LoraSettings(rank=2)), 0)
    save_model(model, codec, tmp_path / "adapter")
    start, files = vllm.LLM, []

    def looked_at(**given: object) -> FakeLLM:
        files.extend(path.name for path in Path(str(given["model"])).iterdir())
        return start(**given)

    monkeypatch.setattr(vllm, "LLM", looked_at, raising=False)
    make_player(PlayerSpec(str(tmp_path / "adapter"), GREEDY, engine="vllm"), sixty, solver)
    assert "model.safetensors" in files
    assert "adapter_config.json" not in files
    assert not Path(str(started[0].given["model"])).exists(), "nothing is left behind"
