"""A stand-in for the package vllm, with the calls and fields of the real one that the product uses.

Its engine samples with a transformers model, asked for one request at a time as vLLM would answer it: an id at a time
up to a stop token, with the log-probability of each. `make test-vllm` holds the same laws over the real one.
"""

from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch


@dataclass
class SamplingParams:
    """The fields that are asked for; any other is an error, as it would be in the real one."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 16
    seed: int | None = None
    logprobs: int | None = None
    stop_token_ids: list[int] = field(default_factory=list)
    ignore_eos: bool = False
    logit_bias: dict[int, float] | None = None
    detokenize: bool = True
    extra_args: dict[str, Any] | None = None


class FakeLLM:
    """Keeps a copy of a model's weights, which `load` replaces; counts its calls in `calls`, its life in `events`."""

    def __init__(self, policy: torch.nn.Module, max_model_len: int = 128, **given: Any) -> None:
        self.model, self.given = policy.eval(), given
        self.calls: list[list[SamplingParams]] = []
        self.prompts: list[list[int]] = []
        self.events: list[str] = []
        core = SimpleNamespace(shutdown=lambda: self.events.append("shutdown"))
        vocab_size = policy.config.get_text_config().vocab_size
        config = SimpleNamespace(max_model_len=max_model_len, get_vocab_size=lambda: vocab_size)
        worker = SimpleNamespace(model_runner=SimpleNamespace(model=self.model))
        executor = SimpleNamespace(driver_worker=worker)
        self.llm_engine = SimpleNamespace(model_config=config, engine_core=core, model_executor=executor)

    def generate(self, prompts: Any, sampling_params: Any, *, use_tqdm: bool = True) -> list[Any]:
        assert not use_tqdm
        assert len(prompts) == len(sampling_params)
        assert len(set(map(id, sampling_params))) == len(sampling_params)
        self.events.append("generate")
        self.calls.append(list(sampling_params))
        self.prompts += [list(prompt["prompt_token_ids"]) for prompt in prompts]
        return [self._answer(prompt["prompt_token_ids"], p) for prompt, p in zip(prompts, sampling_params, strict=True)]

    def wake_up(self, tags: list[str]) -> None:
        self.events.append(f"wake {' '.join(tags)}")

    def sleep(self, level: int) -> None:
        self.events.append(f"sleep {level}")

    def load(self, policy: torch.nn.Module) -> None:
        self.events.append("weights")
        self.model.load_state_dict(policy.state_dict())

    @torch.no_grad()
    def _answer(self, prompt: list[int], params: SamplingParams) -> Any:
        limit = self.llm_engine.model_config.max_model_len
        if len(prompt) >= limit:
            raise ValueError(f"The decoder prompt (length {len(prompt)}) is longer than the maximum {limit}")
        generator = torch.Generator().manual_seed(params.seed or 0)
        ids: list[int] = []
        logprobs = []
        while len(ids) < min(params.max_tokens, limit - len(prompt)) and not (ids and ids[-1] in params.stop_token_ids):
            logits = self.model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0, -1].float()
            for token, bias in (params.logit_bias or {}).items():
                logits[token] += bias
            scores = (logits / (params.temperature or 1.0)).log_softmax(-1)
            token = int(scores.argmax())
            if params.temperature:
                token = int(torch.multinomial(scores.exp(), 1, generator=generator))
            ids.append(token)
            logprobs.append({token: SimpleNamespace(logprob=float(scores[token]), rank=1, decoded_token=None)})
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids, logprobs=logprobs, finish_reason="stop")])


def fake_vllm(llm: Any = None) -> ModuleType:
    """A module to put in the place of vllm; its `LLM` is what is given here."""
    module = ModuleType("vllm")
    module.__spec__ = ModuleSpec("vllm", None)
    module.SamplingParams, module.LLM = SamplingParams, llm  # type: ignore[attr-defined]
    return module
