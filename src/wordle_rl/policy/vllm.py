"""Sampling from a vLLM engine in this process: token ids in; sampled ids and their log-probabilities out.

The engine caches prefixes, so a turn costs only its new tokens here too. An evaluation has its own engine
(`make_engine`); in training it is the one that TRL colocates (train/weight_sync.py).
"""

from __future__ import annotations

import gc
import math
import os
import random
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.training import SamplingSettings
from wordle_rl.errors import first_line
from wordle_rl.policy.base import Completion, Request
from wordle_rl.policy.constrain import ReplyProcessor, WordConstraint

if TYPE_CHECKING:
    from vllm import LLM, RequestOutput, SamplingParams

_FREE_SHARE = 0.9
"""Fraction of free GPU memory for an engine of our own."""
_MOST_BIASES = 1024
"""Most logit biases of one request that vLLM takes."""
_CONSTRAIN = "wordle_rl_constrain"
"""The extra argument of a request that asks for listed words only."""


def check_vllm(wanted_by: str) -> None:
    """Check that vLLM is installed; `wanted_by` names the settings that need it."""
    if find_spec("vllm") is None:
        raise ConfigError(
            f'{wanted_by} needs vLLM, which is not installed; pip install "wordle-rl[vllm]", or use "transformers"'
        )


class VLLMSampler:
    """Sample the replies of all games of a turn in one call of an engine.

    Every request has its own random stream, so results do not depend on how the engine batches requests. A prompt that
    leaves no room for a reply in `max_length` tokens is an error, never a loss. `constrained` applies the constraint
    that the engine was created with.
    """

    def __init__(
        self,
        engine: LLM,  # its log-probabilities must be the processed ones
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
        self._bias = logit_bias(codec, int(engine.llm_engine.model_config.get_vocab_size()), -math.inf)

    def begin(self) -> None:
        """Do nothing: the engine knows tokens, not games."""

    def close(self) -> None:
        """Stop the engine and free its memory."""
        close_engine(self._engine)

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Sample one reply per request."""
        too_long = f"the prompt is too long: the engine takes {self._max_length} tokens with the reply"
        completions = {request.game_id: Completion("", error=too_long) for request in requests}
        fitting = [each for each in requests if self._max_length is None or len(each.prompt_ids) < self._max_length]
        if fitting:
            prompts = [{"prompt_token_ids": list(request.prompt_ids)} for request in fitting]
            outputs = self._engine.generate(prompts, [self._params() for _ in fitting], use_tqdm=False)
            for request, output in zip(fitting, outputs, strict=True):
                completions[request.game_id] = self._completion(output)
        return [completions[request.game_id] for request in requests]

    def _params(self) -> SamplingParams:
        from vllm import SamplingParams

        settings = self.settings
        return SamplingParams(
            temperature=settings.temperature,
            max_tokens=settings.max_completion_tokens,
            seed=self._seeds.getrandbits(31),
            logprobs=0,  # only of the sampled token
            stop_token_ids=sorted(self.codec.stop_ids),
            ignore_eos=True,  # otherwise the stops of the model's generation_config.json would count, too
            logit_bias=self._bias,
            detokenize=False,
            extra_args={_CONSTRAIN: True} if self._constrained else None,
        )

    def _completion(self, output: RequestOutput) -> Completion:
        reply = output.outputs[0]
        ids = tuple(int(token) for token in reply.token_ids)
        if reply.logprobs is None or len(reply.logprobs) != len(ids):
            raise RuntimeError("vLLM did not return a log-probability for each sampled token")
        logprobs = [float(of[token].logprob) for token, of in zip(ids, reply.logprobs, strict=True)]
        return Completion.of_tokens(self.codec, ids, logprobs)


def logit_bias(codec: ChatCodec, vocab_size: int, bias: float) -> dict[int, float] | None:
    """Return logit biases that rule out the ids that the tokenizer does not know; None if it knows all.

    vLLM's lists of allowed ids are too short for a vocabulary.
    """
    unknown = codec.unknown_ids(vocab_size)
    if len(unknown) > _MOST_BIASES:
        raise ConfigError(
            f"the model has {len(unknown):,} token ids that its tokenizer does not know, and vLLM rules out at most "
            f'{_MOST_BIASES:,}; use engine "transformers"'
        )
    return dict.fromkeys(unknown, bias) or None


def make_engine(
    directory: Path,
    codec: ChatCodec,
    settings: SamplingSettings,
    constraint: WordConstraint | None = None,
    seed: int = 0,
) -> VLLMSampler:
    """Load a model directory into an engine of its own and return its sampler.

    The engine runs in this process and takes nine tenths of the free GPU memory. On a GPU vLLM chooses the data type
    (16 bits), on a CPU it is float32. Merge adapters first.
    """
    quiet_vllm()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # in this process, so that nothing is left running afterwards
    if constraint is not None:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"  # the newer one has no logits processors per request
    import torch
    from vllm import LLM
    from vllm.distributed import parallel_state

    # An earlier engine of this process, such as that of a training, may have left its process groups behind.
    if parallel_state.model_parallel_is_initialized():
        parallel_state.cleanup_dist_env_and_memory()
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
        raise ConfigError(
            f'vLLM cannot serve {directory}: {first_line(error)}; fix that, or use engine "transformers"'
        ) from error
    length = int(llm.llm_engine.model_config.max_model_len)
    return VLLMSampler(llm, codec, settings, seed, length, constrained=constraint is not None)


def close_engine(llm: Any) -> None:
    """Stop a `vllm.LLM` of this process and free its memory."""
    import torch

    llm.llm_engine.engine_core.shutdown()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def quiet_vllm() -> None:
    """Let vLLM log only errors, to standard error; variables that are already set stay."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")


def _free_share() -> float:
    import torch

    # vLLM wants a fraction of the total memory, of which other processes may already use a part.
    gc.collect()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return _FREE_SHARE * free / total


def _listed_words(constraint: WordConstraint) -> type[Any]:
    # vLLM wants a class; its instance creates a logits processor for each request that asks for one.
    from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

    class ListedWords(AdapterLogitsProcessor):  # type: ignore[misc]  # vllm is not there when types are checked
        def is_argmax_invariant(self) -> bool:
            return False

        def new_req_logits_processor(self, params: SamplingParams) -> ReplyProcessor | None:
            return ReplyProcessor(constraint) if (params.extra_args or {}).get(_CONSTRAIN) else None

    return ListedWords
