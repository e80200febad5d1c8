"""Laws of playing, evaluating and training with real vLLM on this machine's processor. Opt-in: `make test-vllm`."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("openai")

from constrained_games import hasty
from model_server import model_server, plays_the_same_games
from sampled_games import check_played_alike, padded_model, said_by
from training_fixtures import compact, context_for, fast, make_run, rows, training_of, weights_of

import wordle_rl.policy.transformers as transformers_module
from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import RewardSettings, SamplingSettings
from wordle_rl.game import Outcome
from wordle_rl.policy.base import Completion, Request
from wordle_rl.policy.loading import load_model, save_model
from wordle_rl.policy.openai import check_endpoint
from wordle_rl.policy.providers import Endpoint
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.policy.vllm import VLLMSampler, make_engine
from wordle_rl.policy.vllm_server import ServerSampler, check_takes_weights, served_models
from wordle_rl.prompt import Prompter, Shape, Style
from wordle_rl.rollout import play
from wordle_rl.solver import Solver

# Its warnings are its own affair.
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]
SECONDS_TO_START = 600
ENGINE = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1"}
HEAD_DIM_64 = {"hidden_size": 128, "num_layers": 2, "num_heads": 2, "num_kv_heads": 1, "intermediate_size": 128}


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """A model whose choices depend on what it reads, with heads of a size that vLLM computes on a processor."""
    from wordle_rl.policy.tiny import make_model, make_tokenizer

    path = tmp_path_factory.mktemp("served") / "model"
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, **HEAD_DIM_64, max_length=512)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(1.2 if "embed" in name else 6.0)  # larger embeddings would have it repeat what it reads
    save_model(model, ChatCodec(tokenizer), path)
    return path


@pytest.fixture(scope="module", autouse=True)
def _small_engines() -> Iterator[None]:
    """Engines of this process: one GiB of cache, and no core of their own."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENGINE.items():
            patch.setenv(name, value)
        for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_USE_V2_MODEL_RUNNER", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def model(directory):
    return load_model(ModelSettings(path=str(directory)), 0)


@pytest.fixture
def engine(directory, model):
    """Start an engine with a model directory; it is stopped in the end."""
    started: list[VLLMSampler] = []

    def start(settings: SamplingSettings, constraint=None, seed: int = 0) -> VLLMSampler:
        started.append(make_engine(directory, model[1], settings, constraint, seed))
        return started[-1]

    yield start
    for sampler in started:
        sampler.close()


def server_of(directory: Path, *options: str) -> Callable[[int], list[str]]:
    """The command of a server at a port."""
    program = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(directory)]
    small = ["--dtype", "float32", "--enforce-eager", "--max-model-len", "512"]
    return lambda port: [*program, "--host", "127.0.0.1", "--port", str(port), *small, *options]


def test_a_model_served_by_vllm_plays_the_games_it_plays_in_this_process(
    directory, cli, word_directory, tmp_path
) -> None:
    command = server_of(directory, "--served-model-name", "tiny")
    with model_server(command, tmp_path / "server.log", ENGINE, SECONDS_TO_START) as url:
        plays_the_same_games(cli, url, "tiny", directory, word_directory, tmp_path)


# --- an engine in this process --------------------------------------------------------------------------------------


def test_greedy_games_are_those_of_transformers_token_for_token(engine, model, small_words) -> None:
    settings = SamplingSettings(temperature=0.0, max_completion_tokens=12)
    sampler = engine(settings)
    starts = [InitialState(secret) for secret in small_words.answers]
    said = set()
    for shape in Shape:
        there = play(starts, small_words, compact(shape), sampler)
        here = play(starts, small_words, compact(shape), TransformersSampler(*model, settings))
        check_played_alike(there, here, tolerance=1e-3)
        said |= {segment.token_ids for game in there for segment in game.segments}
    assert len(said) > 5


def test_greedy_games_of_smollm2_are_those_of_transformers_token_for_token(small_words, tmp_path) -> None:
    policy, codec = load_model(ModelSettings(path="smollm2", chat_template="lines"), 0)
    save_model(policy, codec, tmp_path)
    settings = SamplingSettings(temperature=0.0, max_completion_tokens=8)
    prompter = Prompter(style=Style.SPELLED)
    starts = [InitialState(secret) for secret in small_words.answers[:8]]
    sampler = make_engine(tmp_path, codec, settings, None, 0)
    try:
        there = play(starts, small_words, prompter, sampler)
    finally:
        sampler.close()
    here = play(starts, small_words, prompter, TransformersSampler(policy, codec, settings))
    check_played_alike(there, here, tolerance=1e-2)


def test_ids_that_the_tokenizer_does_not_know_are_ruled_out(model, tmp_path) -> None:
    codec = model[1]
    padded = padded_model(codec.tokenizer, **HEAD_DIM_64)
    save_model(padded, codec, tmp_path)
    for temperature in (0.0, 1.0):
        settings = SamplingSettings(temperature=temperature, max_completion_tokens=10)
        sampler = make_engine(tmp_path, codec, settings, None, 0)
        try:
            said = said_by(sampler, codec)
        finally:
            sampler.close()
        if temperature == 0:
            here = said_by(TransformersSampler(padded, codec, settings), codec)
            assert [each.token_ids for each in said] == [each.token_ids for each in here]
        else:
            check_log_probabilities(padded, codec, said, temperature)


def check_log_probabilities(policy, codec, said: list[Completion], temperature: float) -> None:
    """They come from the logits of the ids that the tokenizer knows, divided by the temperature, and nothing else."""
    prompt = codec.encode("5x6")
    unknown = list(codec.unknown_ids(policy.config.vocab_size))
    for completion in said:
        ids = torch.tensor([[*prompt, *completion.token_ids]])
        with torch.no_grad():
            logits = policy(input_ids=ids).logits[0, len(prompt) - 1 : -1].float()
        logits[:, unknown] = -torch.inf
        exact = (logits / temperature).log_softmax(-1).gather(1, ids[0, len(prompt) :, None])[:, 0]
        assert completion.sampler_logprobs == pytest.approx(exact.tolist(), abs=2e-3)


def test_a_server_samples_as_asked_whatever_the_model_publishes(model, tmp_path) -> None:
    """The fields that Qwen2.5 and Gemma 3 publish; vLLM takes them where a request leaves them out."""
    codec = model[1]
    padded, directory = padded_model(codec.tokenizer, **HEAD_DIM_64), tmp_path / "model"
    save_model(padded, codec, directory)
    published = json.loads((directory / "generation_config.json").read_text())
    published |= {"do_sample": True, "repetition_penalty": 1.5, "top_k": 3, "top_p": 0.5, "temperature": 0.3}
    (directory / "generation_config.json").write_text(json.dumps(published))

    command = server_of(directory, "--logprobs-mode", "processed_logprobs")
    sampling = SamplingSettings(temperature=0.7, max_completion_tokens=10)
    environment = {**ENGINE, "VLLM_SERVER_DEV_MODE": "1"}
    with model_server(command, tmp_path / "server.log", environment, SECONDS_TO_START) as url:
        address = url.removesuffix("/v1")
        with pytest.raises(ConfigError, match="--weight-transfer-config"):
            check_takes_weights(address)
        [served] = served_models(address)
        asked = GRPOSettings(engine=address)
        sampler = ServerSampler(asked, served, codec, sampling, 0, padded.config.vocab_size)
        said = said_by(sampler, codec)
        sampler.close()
        assert check_endpoint(Endpoint(url, "NONE")), "it says that it is vLLM"
    check_log_probabilities(padded, codec, said, 0.7)
    assert len({completion.token_ids for completion in said}) > 1


def test_log_probabilities_are_those_of_the_distribution_sampled_from(engine, model) -> None:
    """Temperature included, worked out anew from the model's logits; a seed says what is sampled."""
    policy, codec = model
    settings = SamplingSettings(temperature=0.7, max_completion_tokens=12)
    prompt = codec.encode("5x6")
    requests = [Request(game, (), (), prompt) for game in range(40)]
    sampler = engine(settings, seed=1)
    said = sampler.sample(requests)
    check_log_probabilities(policy, codec, said, 0.7)
    for completion in said:
        assert completion.overlong == (completion.token_ids[-1] not in codec.stop_ids)
        assert not codec.stop_ids.intersection(completion.token_ids[:-1])
    assert len({completion.token_ids for completion in said}) > 20
    llm = sampler._engine
    again, other = (VLLMSampler(llm, codec, settings, seed).sample(requests) for seed in (1, 2))
    assert [completion.token_ids for completion in again] == [completion.token_ids for completion in said]
    assert [completion.token_ids for completion in other] != [completion.token_ids for completion in said]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_constrained_guesses_are_listed_words_and_greedy_ones_those_of_transformers(
    temperature, engine, model, small_words, monkeypatch
) -> None:
    monkeypatch.setattr(transformers_module, "word_beam", lambda *_, **__: None)  # token by token, as vLLM goes
    policy, codec = model
    settings = SamplingSettings(temperature=temperature, max_completion_tokens=40)
    constraint = hasty(codec, small_words, compact())
    starts = [InitialState(secret) for secret in small_words.answers[:8]]
    there = play(starts, small_words, compact(), engine(settings, constraint))
    turns = [turn for game in there for turn in game.transcript.own_turns]
    assert {turn.turn.outcome for turn in turns} == {Outcome.SCORED}
    assert len(turns) > 12
    if temperature == 0:
        here = play(starts, small_words, compact(), TransformersSampler(policy, codec, settings, 0, constraint))
        check_played_alike(there, here, tolerance=1e-3)


# --- beside a training ----------------------------------------------------------------------------------------------


def packs_weights() -> bool:
    """Whether vLLM empties linear layers for this processor (AMX, for one), so that an engine takes no weights."""
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    layer = torch.nn.Linear(128, 128, bias=False, dtype=torch.bfloat16).requires_grad_(False)
    dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    return not layer.weight.numel()


def test_grpo_is_played_by_the_colocated_engine_with_the_weights_of_each_step(directory, sixty, tmp_path) -> None:
    """TRL's engine and its way of sending weights, in bfloat16: each step's tokens are as likely to the learner.

    Where vLLM has packed its weights that cannot be, and is said before a game is played.
    """
    from wordle_rl.train.grpo import GRPO
    from wordle_rl.train.learner import TorchLearner
    from wordle_rl.train.play_loop import learn_by_play
    from wordle_rl.train.starts import GameSetup
    from wordle_rl.train.weight_sync import open_engine

    policy, codec = load_model(ModelSettings(path=str(directory)), 0)
    with torch.no_grad():  # what the directory holds is not what is to play
        for parameter in policy.parameters():
            if parameter.dim() > 1:
                parameter.mul_(0.25)
    before = weights_of(policy)
    settings = GRPOSettings(
        steps=3,
        groups_per_step=2,
        group_size=4,
        engine="vllm",
        optimizer=fast(),
        reward=RewardSettings(preset="strict_xml"),
        validate_every_steps=2,
    )
    setup = GameSetup(
        context_for(sixty, compact(max_turns=3), Solver(sixty)),
        sixty.answers[:20],
        sixty.answers[20:24],
        sampling=SamplingSettings(max_completion_tokens=6),
    )
    learner = TorchLearner(policy, codec, precision="fp32")
    engine = open_engine(learner, settings, setup)
    training = training_of(learner, make_run(tmp_path, sixty))
    if packs_weights():
        with pytest.raises(ConfigError, match=r'cannot take new ones; use grpo\.engine "transformers" on a CPU'):
            learn_by_play(GRPO, training, setup, settings, engine=engine)
        assert not (tmp_path / "secrets.jsonl").exists()
        return
    learn_by_play(GRPO, training, setup, settings, engine=engine)
    engine.close()
    found = rows(tmp_path / "metrics.jsonl")
    written = [row for row in found if row["stage"] == "grpo"]
    assert [row["step"] for row in written] == [1, 2, 3]
    assert [row["importance_ratio/mean"] for row in written] == pytest.approx([1.0] * 3, abs=0.02)
    assert max(row["importance_ratio/max"] for row in written) < 1.3
    assert [row["step"] for row in found if row["stage"] == "grpo/validation"] == [0, 2, 3]
    moved = [not torch.equal(before[name], weight) for name, weight in weights_of(policy).items()]
    assert any(moved)
    assert (tmp_path / "grpo" / "model.safetensors").is_file()
