"""Laws of sampling from a vLLM server: what it is asked for, and what becomes of requests that fail."""

import pytest
from fake_vllm_server import FakeVLLMServer
from training_fixtures import small_model

from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.base import Request
from wordle_rl.policy.vllm_server import ServedModel, ServerSampler

GREEDY = SamplingSettings(temperature=0.0, max_completion_tokens=6)
DRAWN = SamplingSettings(temperature=0.8, max_completion_tokens=6)


@pytest.fixture
def model(tokenizer):
    return small_model(tokenizer).eval()


@pytest.fixture
def server(model):
    started = FakeVLLMServer(model)
    yield started
    started.close()


def sampler(
    server: FakeVLLMServer, codec, settings: SamplingSettings = DRAWN, seed: int = 3, **limits: float
) -> ServerSampler:
    vocab_size = server.llm.model.config.vocab_size
    asked = GRPOSettings(engine=server.url, **limits)
    return ServerSampler(asked, ServedModel("alias", 128), codec, settings, seed, vocab_size)


def asked(codec, count: int = 4) -> list[Request]:
    prompt = codec.prompt_ids([{"role": "user", "content": "GYXXX"}])
    return [Request(number, (), (), prompt) for number in range(count)]


def test_a_reply_ends_where_the_codec_says_and_nowhere_else(server, codec) -> None:
    said = sampler(server, codec).sample(asked(codec))
    [body, *_] = server.bodies
    assert body["stop_token_ids"] == sorted(codec.stop_ids)
    assert body["ignore_eos"]
    assert [completion.overlong for completion in said] == [c.token_ids[-1] not in codec.stop_ids for c in said]
    assert all(len(completion.sampler_logprobs) == len(completion.token_ids) for completion in said)


def test_a_request_says_everything_that_decides_how_it_is_sampled(server, codec) -> None:
    """What a request leaves out, vLLM takes from the model's generation_config.json."""
    sampler(server, codec).sample(asked(codec, 1))
    [body] = server.bodies
    assert isinstance(body.pop("seed"), int)
    assert body == {
        "model": "alias",
        "prompt": list(asked(codec, 1)[0].prompt_ids),
        "max_tokens": 6,
        "temperature": 0.8,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "logprobs": 0,
        "stop_token_ids": sorted(codec.stop_ids),
        "ignore_eos": True,
        "return_token_ids": True,
    }


def test_a_passing_refusal_is_asked_again_with_the_same_seed(server, codec) -> None:
    server.refuse = [503, 500]
    [said] = sampler(server, codec).sample(asked(codec, 1))
    [quiet] = sampler(server, codec).sample(asked(codec, 1))
    assert said == quiet
    assert said.error is None


@pytest.mark.parametrize("statuses", [[400], [500] * 4], ids=["for good", "for too long"])
def test_a_request_that_keeps_failing_is_an_error_of_its_game_alone(statuses, server, codec) -> None:
    server.refuse = list(statuses)
    one_at_a_time = DRAWN.model_copy(update={"max_batch_size": 1})
    lost, kept = sampler(server, codec, one_at_a_time).sample(asked(codec, 2))
    assert lost.error is not None
    assert str(statuses[0]) in lost.error
    assert not lost.token_ids
    assert kept.error is None
    assert not server.refuse, "one try, or four"


def test_a_slow_server_is_asked_by_as_many_at_once_and_as_long_as_the_settings_say(server, codec) -> None:
    server.delay_s = 0.2
    two = DRAWN.model_copy(update={"max_batch_size": 2})
    said = sampler(server, codec, two, server_timeout_s=5.0).sample(asked(codec, 5))
    assert [completion.error for completion in said] == [None] * 5
    assert server.most_at_once == 2
    [late] = sampler(server, codec, server_timeout_s=0.05).sample(asked(codec, 1))
    assert late.error


@pytest.mark.parametrize(
    "answer", [{}, {"choices": []}, {"choices": [{"token_ids": [1, 2], "logprobs": {"token_logprobs": [-0.1]}}]}]
)
def test_an_answer_without_a_log_probability_for_each_token_is_no_completion(
    answer, server, codec, monkeypatch
) -> None:
    monkeypatch.setattr(server, "_complete", lambda _: (200, answer))
    [said] = sampler(server, codec).sample(asked(codec, 1))
    assert said.error
