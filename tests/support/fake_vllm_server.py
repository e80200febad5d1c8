"""A stand-in for `vllm serve` as TRL's server mode speaks to it: health, models, completions, and weights.

It plays with a transformers model whose weights arrive as TRL announces them; only NCCL is replaced, by a request that
carries the tensors (`without_nccl`). As in the real one, `/update_weights` waits until they have come.
"""

import io
import json
import threading
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import pytest
import torch
import trl.generation.vllm_client as client_module
import trl.generation.vllm_generation as generation_module
from fake_endpoint import Answer, LocalServer
from fake_vllm import FakeLLM, SamplingParams
from trl.generation.vllm_client import VLLMClient

INFO = {
    "weight_transfer_config": {"backend": "nccl"},
    "model_config": {
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",
        "override_generation_config": {},
    },
}
DRAWN = ("temperature", "top_p", "max_tokens", "seed", "logprobs", "stop_token_ids", "ignore_eos")


class FakeVLLMServer(LocalServer):
    """A server over a model; `events` is what it was asked, in order, `announced` what each update named.

    Args:
        policy: Its model.
        max_model_len: The most tokens it takes.
        info: What `/server_info` says; None: it has no development endpoints.
    """

    def __init__(self, policy: torch.nn.Module, max_model_len: int = 128, info: dict[str, Any] | None = INFO) -> None:
        self.llm, self.max_model_len, self.info = FakeLLM(policy, max_model_len), max_model_len, info
        self.events: list[str] = []
        self.announced: list[dict[str, Any]] = []
        self.bodies: list[dict[str, Any]] = []
        self.refuse: list[int] = []  # statuses for the next completions
        self.delay_s = 0.0
        self.at_once = self.most_at_once = 0
        self.keeps_old_weights = False
        self._updating, self._arrived, self._lock = False, threading.Event(), threading.Lock()
        super().__init__()

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        del headers
        status, value = self.get(path) if method == "GET" else self.post(path, body)
        return status, value, {"retry-after-ms": "1"}  # a test does not wait

    def get(self, path: str) -> tuple[int, object]:
        path = path.partition("?")[0]
        if path == "/health":
            return 200, {}
        if path == "/v1/models":
            return 200, {"data": [{"id": "alias", "max_model_len": self.max_model_len}]}
        if path == "/server_info" and self.info is not None:
            return 200, {"vllm_config": self.info}
        if path == "/get_world_size":
            return 200, {"world_size": 1}
        return 404, {"error": path}

    def post(self, path: str, body: bytes) -> tuple[int, object]:
        if path == "/v1/completions":
            return self._complete(json.loads(body))
        self.events.append(path.removeprefix("/"))
        if path == "/start_weight_update":
            self._updating = True
        elif path == "/update_weights":
            self.announced.append(json.loads(body)["update_info"])
            assert self._arrived.wait(20)
            self._arrived.clear()
        elif path == "/broadcast":
            self._load(torch.load(io.BytesIO(body)))
            self._arrived.set()
        elif path == "/finish_weight_update":
            self._updating = False
        elif path not in {"/init_weight_transfer_engine", "/reset_prefix_cache"}:
            return 404, {"error": path}
        return 200, {"success": True}

    def _load(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        if self.keeps_old_weights:
            return
        state = self.llm.model.state_dict()
        with torch.no_grad():
            for name, weight in weights:
                state[name].copy_(weight)

    def _complete(self, body: dict[str, Any]) -> tuple[int, object]:
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.delay_s)
        with self._lock:
            self.at_once -= 1
            if self._updating:
                return 400, {"error": "asked for tokens while the weights change"}
            if self.refuse:
                return self.refuse.pop(0), {"error": "refused"}
            self.events.append("complete")
            self.bodies.append(body)
            assert len(body["prompt"]) + body["max_tokens"] <= self.max_model_len
            bias = {int(token): by for token, by in body.get("logit_bias", {}).items()}
            params = SamplingParams(**{name: body[name] for name in DRAWN}, logit_bias=bias, detokenize=False)
            [output] = self.llm.generate([{"prompt_token_ids": body["prompt"]}], [params], use_tqdm=False)
        said = output.outputs[0]
        logprobs = [entry[token].logprob for token, entry in zip(said.token_ids, said.logprobs, strict=True)]
        return 200, {"choices": [{"token_ids": said.token_ids, "logprobs": {"token_logprobs": logprobs}}]}


def without_nccl(patch: pytest.MonkeyPatch) -> None:
    """Let TRL's client send weights from a processor: it announces them as ever, and tensors go by a request."""

    def init_communicator(self: VLLMClient, device: object = 0) -> None:
        assert self.get_server_info()["weight_transfer_config"] is not None
        info = {"master_port": self.group_port, "rank_offset": 1, "world_size": self.get_world_size() + 1}
        self._post(f"{self.base_url}/init_weight_transfer_engine", json={"init_info": info})
        self.communicator = SimpleNamespace(url=self.base_url, group=SimpleNamespace(store=1, socket=1))

    def broadcast(iterator: Iterator, group: SimpleNamespace, src: int, post_iter_func: Any) -> None:
        box = io.BytesIO()
        torch.save([(item[0], post_iter_func(item).detach().cpu()) for item in iterator], box)
        with urlopen(Request(f"{group.url}/broadcast", box.getvalue()), timeout=20) as reply:
            assert reply.status == 200

    patch.setattr(VLLMClient, "init_communicator", init_communicator)
    patch.setattr(client_module, "_HAS_STATEFUL_TRAINER_ENGINE", True)
    patch.setattr(client_module, "packed_nccl_broadcast_producer", broadcast, raising=False)
    for module in (client_module, generation_module):
        patch.setattr(module, "is_vllm_available", lambda min_version=None: True)
