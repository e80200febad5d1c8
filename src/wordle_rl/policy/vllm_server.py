"""Sampling from a vLLM server over HTTP: token ids in; sampled ids and their log-probabilities out.

Each process sends one request per game and turn, and the server batches concurrent requests. Nothing is gathered over
processes while games run, so a process whose games end early never blocks the others.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.request import urlopen

from openai import OpenAI, OpenAIError

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.base import Completion, Request
from wordle_rl.policy.vllm import logit_bias

NEUTRAL_SAMPLING = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""What a request must say beside temperature and top_p, so that nothing else shapes the distribution. A vLLM server
fills missing fields from the model's generation_config.json (Qwen2.5: repetition_penalty; Qwen3 and Gemma 3: top_k)."""
_LEAST_BIAS = -100.0
"""Least logit bias that a server takes. An id that it rules out is drawn once in exp(100 - its lead) tokens."""
_RETRIES = 3
_LOOK_S = 10.0
_LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model of a vLLM server: its name there, and the most tokens of prompt and reply."""

    name: str
    max_length: int


def served_models(server: str, *, wait_s: float = 0.0) -> list[ServedModel] | None:
    """List the models of a vLLM server, for which to wait `wait_s` seconds at most; None if no server answers."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            cards = _json_of(f"{server.rstrip('/')}/v1/models")["data"]
            return [ServedModel(str(card["id"]), int(card["max_model_len"])) for card in cards]
        except (OSError, HTTPException, ValueError, KeyError, TypeError):  # nothing there yet, or something else
            if time.monotonic() >= deadline:
                return None
        time.sleep(_LOOK_EVERY_S)


def check_takes_weights(server: str) -> None:
    """Check that a server takes weights, and returns the log-probabilities that it samples from, as it was asked to."""
    try:
        found = _json_of(f"{server.rstrip('/')}/server_info?config_format=json")["vllm_config"]
        transfer, model = found["weight_transfer_config"], found["model_config"]
        mode, own = model["logprobs_mode"], model["generation_config"]
        overrides = model["override_generation_config"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{server} does not tell its settings; start it with VLLM_SERVER_DEV_MODE=1, as scripts/vllm_server.sh does"
        ) from None
    if transfer is None:
        raise ConfigError(
            f'{server} takes no weights; start it with --weight-transfer-config \'{{"backend": "nccl"}}\', as '
            "scripts/vllm_server.sh does"
        )
    if mode != "processed_logprobs":
        raise ConfigError(
            f"{server} returns {mode}; start it with --logprobs-mode processed_logprobs, as scripts/vllm_server.sh does"
        )
    if own != "vllm" or overrides:
        # Requests set every field that is known here. Yet a limit of new tokens given there cuts replies, and a later
        # vLLM may know more fields.
        raise ConfigError(
            f"{server} completes requests from the model's generation_config.json; start it with --generation-config "
            "vllm, as scripts/vllm_server.sh does, and without --override-generation-config"
        )


def _json_of(url: str) -> Any:
    with urlopen(url, timeout=_LOOK_S) as reply:
        return json.load(reply)


class ServerSampler:
    """Sample the replies of all games of a turn, each with a request and a seed of its own.

    If a request keeps failing, its game is an error, never a loss. `server` gives address and timeout; `max_batch_size`
    of the sampling settings is the number of requests at once. `vocab_size` is that of the model, as served.
    """

    def __init__(
        self,
        server: GRPOSettings,
        model: ServedModel,
        codec: ChatCodec,
        settings: SamplingSettings,
        seed: int,
        vocab_size: int,
    ) -> None:
        self.codec, self.settings = codec, settings
        self._bias = logit_bias(codec, vocab_size, _LEAST_BIAS)
        self._model = model
        self._url = f"{server.server.rstrip('/')}/v1"
        self._client = OpenAI(base_url=self._url, api_key="none", timeout=server.server_timeout_s, max_retries=_RETRIES)
        self._seeds = random.Random(seed)

    def begin(self) -> None:
        """Do nothing: the server knows tokens, not games."""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Sample one reply per request."""
        seeds = [self._seeds.getrandbits(31) for _ in requests]
        with ThreadPoolExecutor(self.settings.max_batch_size) as pool:
            return list(pool.map(self._ask, requests, seeds))

    def _ask(self, request: Request, seed: int) -> Completion:
        try:
            answer = self._client.completions.create(
                model=self._model.name,
                prompt=list(request.prompt_ids),
                max_tokens=self.settings.max_completion_tokens,
                temperature=self.settings.temperature,
                top_p=1.0,
                seed=seed,  # without it, engines with the same seed can draw the same reply to the same prompt
                logprobs=0,  # only of the sampled token
                extra_body={
                    **NEUTRAL_SAMPLING,
                    **({} if self._bias is None else {"logit_bias": self._bias}),
                    "stop_token_ids": sorted(self.codec.stop_ids),
                    "ignore_eos": True,  # otherwise the stops of the model's generation_config.json would count, too
                    "return_token_ids": True,
                },
            )
            return self._completion(answer.to_dict())
        except (OpenAIError, ValueError, LookupError, TypeError, AttributeError) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            return Completion("", error=f"{self._url} returned no completion: {reason[:300]}")

    def _completion(self, answer: dict[str, Any]) -> Completion:
        [choice] = answer["choices"]
        ids = tuple(int(token) for token in choice["token_ids"])
        logprobs = tuple(float(number) for number in choice["logprobs"]["token_logprobs"])
        if not ids or len(ids) != len(logprobs):
            raise ValueError(f"{len(logprobs)} log-probabilities for {len(ids)} tokens")
        return Completion.of_tokens(self.codec, ids, logprobs)
