"""A rollout server for verl that samples with transformers on the processor, and what sends it the trained weights."""

import asyncio
import os
from collections.abc import Iterable
from typing import Any

import ray
import torch
from torch import Tensor
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

_WAIT_S = 0.005
"""Time in which requests gather before they are answered together."""


@ray.remote(num_cpus=0, max_concurrency=2000)
class Server:
    """Answers all requests that have come in by one batch of sampling."""

    def __init__(self, model_path: str, seed: int, threads: int) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self._model = AutoModelForCausalLM.from_pretrained(model_path, attn_implementation="eager").eval()
        self._random = torch.Generator().manual_seed(seed)
        self._waiting: list[tuple[list[int], dict[str, Any], asyncio.Future]] = []
        self._serving: asyncio.Task | None = None
        self._step = 0

    async def generate(self, prompt_ids: list[int], sampling_params: dict, request_id: str, **_: Any) -> TokenOutput:
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((prompt_ids, sampling_params, answer))
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        ids, logprobs = await answer
        return TokenOutput(
            token_ids=ids, log_probs=logprobs, stop_reason="completed", extra_fields={"global_steps": self._step}
        )

    async def _serve(self) -> None:
        while self._waiting:
            await asyncio.sleep(_WAIT_S)
            batch, self._waiting = self._waiting, []
            for params in {repr(sorted(params.items())): params for _, params, _ in batch}.values():
                asked = [(prompt, answer) for prompt, other, answer in batch if other == params]
                try:
                    found = await asyncio.to_thread(self._sample, [prompt for prompt, _ in asked], params)
                except Exception as error:  # whoever asked hears of it
                    for _, answer in asked:
                        answer.set_exception(error)
                    continue
                for (_, answer), completion in zip(asked, found, strict=True):
                    answer.set_result(completion)

    @torch.no_grad()
    def _sample(self, prompts: list[list[int]], params: dict[str, Any]) -> list[tuple[list[int], list[float]]]:
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])  # (B, T)
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        stops, said, scores = set(params["stop_token_ids"]), [[] for _ in prompts], [[] for _ in prompts]
        cache, running = None, list(range(len(prompts)))
        for _ in range(params["max_tokens"]):
            positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
            given = {"attention_mask": mask, "position_ids": positions, "past_key_values": cache}
            output = self._model(ids, **given, use_cache=True, logits_to_keep=1)
            cache, logits = output.past_key_values, output.logits[:, -1].float()
            tokens, logprobs = self._draw(logits, params["temperature"])
            for row in running:
                said[row].append(int(tokens[row]))
                scores[row].append(float(logprobs[row]))
            running = [row for row in running if said[row][-1] not in stops]
            if not running:
                break
            ids = tokens[:, None]
            mask = torch.cat([mask, torch.ones_like(ids)], 1)
        return list(zip(said, scores, strict=True))

    def _draw(self, logits: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        logprobs = torch.log_softmax(logits / (temperature or 1.0), -1)
        if temperature:
            drawn = torch.multinomial(logprobs.exp(), 1, generator=self._random)  # (B, 1)
        else:
            drawn = logprobs.argmax(-1, keepdim=True)
        return drawn[:, 0], logprobs.gather(1, drawn)[:, 0]

    async def load(self, weights: dict[str, Tensor], step: int | None) -> None:
        missing, unknown = self._model.load_state_dict(weights, strict=False)
        if unknown or set(missing) - {"lm_head.weight"}:
            raise ValueError(f"weights of another model: {missing} missing, {unknown} unknown")
        self._step = step or 0

    async def address(self) -> str:
        return f"{ray.util.get_node_ip_address()}:{os.getpid()}"

    async def wake_up(self) -> None: ...
    async def sleep(self) -> None: ...
    async def start_profile(self, **_: Any) -> None: ...
    async def stop_profile(self) -> None: ...


class Replica(RolloutReplica):
    """One server per group of training processes."""

    async def launch_servers(self) -> None:
        server = Server.options(name=_name(self.replica_rank)).remote(
            str(self.model_config.path), self.config.seed + self.replica_rank, 1
        )
        self.servers, self._server_handle = [server], server
        self._server_address = await server.address.remote()


class WeightSender(BaseRollout):
    """In a training process: sends its weights to the server beside it."""

    async def resume(self, tags: list[str]) -> None: ...
    async def release(self) -> None: ...

    async def update_weights(
        self, weights: Iterable[tuple[str, Tensor]], wire_format: str = "named_tensors", **about: Any
    ) -> None:
        whole = {name: weight.detach().float().clone() for name, weight in weights}  # all take part in gathering them
        size = self.config.tensor_model_parallel_size
        rank = int(os.environ["RANK"])
        if rank % size == 0:
            await ray.get_actor(_name(rank // size)).load.remote(whole, about.get("global_steps"))


def _name(rank: int) -> str:
    return f"server_{ray.get_runtime_context().get_job_id()}_{rank}"
