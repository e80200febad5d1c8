"""Sampling from a vLLM engine in this process: token ids in, the sampled ids with their log-probabilities out.

The engine keeps what it has read (prefix caching), so that a turn costs its new tokens here too. It is a separate
one for an evaluation (`make_engine`), or the one that TRL colocates with a training (see train/vllm.py).
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, SamplingSettings
from wordle_rl.samplers.base import Completion, Request
from wordle_rl.samplers.constrain import ReplyProcessor, WordConstraint

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams

_FREE_SHARE = 0.9
"""Fraction of a GPU's free memory that an engine of our own takes."""
_CONSTRAIN = "wordle_rl_constrain"
"""The extra argument by which a request asks for listed words only."""


class TokenGenerator(Protocol):
    """Token generator as `vllm.LLM` implements it; its log-probabilities are the processed ones."""

    def generate(
        self, prompts: Any, sampling_params: Sequence[SamplingParams], *, use_tqdm: bool
    ) -> Sequence[RequestOutput]:
        """One output per prompt, in order."""


class VLLMSampler:
    """Samples replies from an engine, those of all games of a turn in one call.

    Every request draws from a random stream of its own, so what is sampled does not depend on how the engine
    batches requests.

    Args:
        engine: The engine, with the weights that are to play.
        codec: Tokenizer and chat template of its model.
        settings: How tokens are drawn.
        seed: Seed of the streams, which run on over all games.
        max_length: The most tokens the engine takes. A longer prompt is an error, never a loss. None: no bound.
        constrained: Apply the constraint that the engine was made with.
    """

    sampled_by: Literal["vllm"] = "vllm"

    def __init__(
        self,
        engine: TokenGenerator,
        codec: ChatCodec,
        settings: SamplingSettings | None = None,
        seed: int = 0,
        max_length: int | None = None,
        *,
        constrained: bool = False,
    ) -> None:
        self.codec, self._engine = codec, engine
        self.settings = settings or SamplingSettings()
        self._seeds = random.Random(seed)
        self._max_length, self._constrained = max_length, constrained

    def begin(self) -> None:
        """The engine knows tokens, not games: there is nothing to forget."""

    def close(self) -> None:
        """Stop the engine and give its memory back."""
        close_engine(self._engine)

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Sample one reply per request."""
        fitting = [request for request in requests if self._max_length is None or self._fits(request)]
        params = [self._params() for _ in fitting]
        prompts = [{"prompt_token_ids": list(request.prompt_ids)} for request in fitting]
        outputs = iter(self._engine.generate(prompts, params, use_tqdm=False) if fitting else ())
        asked = {id(request) for request in fitting}
        return [
            self._completion(next(outputs)) if id(request) in asked else self._too_long(request) for request in requests
        ]

    def _fits(self, request: Request) -> bool:
        return len(request.prompt_ids) < (self._max_length or 0)

    def _too_long(self, request: Request) -> Completion:
        message = f"a prompt of {len(request.prompt_ids)} tokens, the engine takes {self._max_length} with the reply"
        return Completion("", error=message)

    def _params(self) -> SamplingParams:
        from vllm import SamplingParams

        settings = self.settings
        return SamplingParams(
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_completion_tokens,
            seed=self._seeds.getrandbits(31),
            logprobs=0,  # of the sampled token alone
            stop_token_ids=sorted(self.codec.stop_ids),
            ignore_eos=True,  # else those that the model's generation_config.json names would stop it too
            detokenize=False,
            extra_args={_CONSTRAIN: True} if self._constrained else None,
        )

    def _completion(self, output: RequestOutput) -> Completion:
        reply = output.outputs[0]
        ids = tuple(int(token) for token in reply.token_ids)
        if reply.logprobs is None or len(reply.logprobs) != len(ids):
            raise RuntimeError("the vLLM engine gave no log-probability for each token it sampled")
        return Completion(
            text=self.codec.text_of(ids),
            token_ids=ids,
            sampler_logprobs=tuple(float(of[token].logprob) for token, of in zip(ids, reply.logprobs, strict=True)),
            overlong=ids[-1] not in self.codec.stop_ids,
        )


def make_engine(
    directory: Path,
    codec: ChatCodec,
    settings: SamplingSettings,
    constraint: WordConstraint | None = None,
    seed: int = 0,
) -> VLLMSampler:
    """Load a model directory into a separate engine and return its sampler.

    The engine runs in this process, so it ends with it, and takes nine tenths of the GPU memory that is free. It
    computes in the type that vLLM chooses on a GPU (16 bits), in float32 on a CPU.

    Args:
        directory: A whole model; adapters must be merged before.
        codec: Its tokenizer and chat template.
        settings: How tokens are drawn.
        constraint: Limits guesses to listed words, see `make_constraint`; None: any token may follow.
        seed: Seed of everything drawn at random.

    Raises:
        ConfigError: If vLLM cannot serve the model on this machine.
    """
    if (directory / "adapter_config.json").is_file():
        raise ConfigError(
            f"{directory} holds adapters, which vLLM does not play here; make a whole model with `wordle-rl export "
            f'{directory} --out DIR`, or use engine "transformers"'
        )
    quiet_vllm()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # in this process: nothing is left behind when it ends
    if constraint is not None:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"  # the newer one does not know processors of single requests
    import torch
    from vllm import LLM

    _forget_groups()
    on_gpu = torch.cuda.is_available()
    extra: dict[str, Any] = {"gpu_memory_utilization": _free_share()} if on_gpu else {"dtype": "float32"}
    if constraint is not None:
        extra |= {"logits_processors": [_listed_words(constraint)], "async_scheduling": False}
    try:
        llm = LLM(
            model=str(directory),
            seed=seed,
            max_num_seqs=settings.max_batch_size,
            logprobs_mode="processed_logprobs",
            generation_config="vllm",
            enforce_eager=not on_gpu,
            **extra,
        )
    except (ValueError, RuntimeError, OSError) as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f'vLLM cannot serve {directory}: {first_line}; use engine "transformers", or fix that'
        ) from error
    length = int(llm.llm_engine.model_config.max_model_len)
    return VLLMSampler(llm, codec, settings, seed, length, constrained=constraint is not None)


def close_engine(llm: Any) -> None:
    """Stop an engine of this process, a `vllm.LLM`, and give its memory back."""
    import torch

    llm.llm_engine.engine_core.shutdown()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def quiet_vllm() -> None:
    """Have vLLM log errors only, to standard error; variables that the user set stay."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")


def _forget_groups() -> None:
    """Destroy the process groups that an earlier engine of this process left, such as that of a training."""
    from vllm.distributed import parallel_state

    if parallel_state.model_parallel_is_initialized():
        parallel_state.cleanup_dist_env_and_memory()


def _free_share() -> float:
    """The fraction of the GPU's whole memory to take, from what is free."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return _FREE_SHARE * free / total


def _listed_words(constraint: WordConstraint) -> type[Any]:
    """The class that vLLM asks for: its object makes a logits processor for each request that wants one."""
    from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

    class ListedWords(AdapterLogitsProcessor):  # type: ignore[misc]  # vllm is not there when types are checked
        def is_argmax_invariant(self) -> bool:
            return False

        def new_req_logits_processor(self, params: SamplingParams) -> ReplyProcessor | None:
            return ReplyProcessor(constraint) if (params.extra_args or {}).get(_CONSTRAIN) else None

    return ListedWords
