"""vLLM as the player of a training: one engine per process, or a server, with the weights of each step.

TRL's `VLLMGeneration` creates the engine and syncs weights; we only sample from it. TRL sends weights before every
generation, we send them once per rollout.

Multi-turn games end at different times, so with a server each process sends its own requests. TRL would gather the
prompts of all processes for every call, and a process whose games ended early would leave the others waiting forever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from trl.generation.vllm_generation import VLLMGeneration

from wordle_rl.chat.codec import ChatCodec, longest_game
from wordle_rl.config import ConfigError, GRPOTraining, SamplingSettings
from wordle_rl.policy.base import Sampler, check_vllm
from wordle_rl.policy.loading import context_length
from wordle_rl.policy.multimodal import is_text_part
from wordle_rl.policy.vllm import VLLMSampler, close_engine, quiet_vllm
from wordle_rl.policy.vllm_server import ServedModel, ServerSampler, check_takes_weights, served_models
from wordle_rl.prompt import Prompter
from wordle_rl.runs.distributed import num_processes
from wordle_rl.train.learner import TorchLearner
from wordle_rl.words import WordList

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_WAIT_S = 240.0
"""Seconds to wait for a server to come up; as long as TRL waits."""


class Engine(Protocol):
    """A player with its own copy of the learner's weights."""

    def policy(self, sampling: SamplingSettings, seed: int) -> Any:
        """Open a sampler over the learner's current weights; yields it and its longest prompt in tokens."""

    def send_weights(self) -> None:
        """Send the learner's current weights to the engine; every process must call this."""

    def sampler(self, sampling: SamplingSettings, seed: int) -> Any:
        """Open a sampler over the weights sent last; yields the same as `policy`."""

    def close(self) -> None:
        """Free the engine."""


def open_engine(learner: TorchLearner, settings: GRPOTraining, words: WordList, prompter: Prompter) -> Engine:
    """Open the engine that `grpo.engine` names.

    Raises:
        ConfigError: If vLLM or the server is missing, or cannot play this model.
    """
    if settings.server:
        check_server(settings, learner.model, words, prompter, learner.codec)
        return ServerEngine(learner, settings)
    check_colocated(learner.model)
    length = engine_length(settings, words, prompter, learner.codec, context_length(learner.model))
    return ColocatedEngine(learner, settings, length)


class ColocatedEngine:
    """One vLLM engine per process.

    Args:
        learner: Provides the weights.
        settings: `gpu_memory_utilization`, and the number of games at a time.
        length: Longest game in tokens.
    """

    def __init__(self, learner: TorchLearner, settings: GRPOTraining, length: int) -> None:
        self._learner = learner
        self._generation = VLLMGeneration(
            model=learner.model,
            accelerator=learner.accelerator,
            processing_class=learner.codec.tokenizer,
            mode="colocate",
            tensor_parallel_size=1,
            gpu_memory_utilization=settings.gpu_memory_utilization,
            max_model_length=length,
            max_num_seqs=settings.groups_per_step * settings.group_size,
            enable_sleep_mode=False,
        )
        self._has: int | None = None  # version of the weights sent last

    @contextmanager
    def policy(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int]]:
        """See `Engine`; all processes must enter and leave together."""
        self.send_weights()
        with self.sampler(sampling, seed) as opened:
            yield opened

    @contextmanager
    def sampler(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int]]:
        """See `Engine`."""
        generation = self._generation
        length = int(generation.llm.llm_engine.model_config.max_model_len)
        sampler = VLLMSampler(generation.llm, self._learner.codec, sampling, seed, length)
        yield sampler, length - sampling.max_completion_tokens

    def send_weights(self) -> None:
        """Send the current weights, unless the engine has them.

        Raises:
            ConfigError: If the engine cannot take weights on this CPU.
        """
        if self._has == self._learner.version:
            return
        if self._learner.accelerator.device.type == "cpu":
            # On some CPUs vLLM repacks the weights into its own format and empties the layers. New weights would go
            # nowhere, silently.
            model = self._generation.llm.llm_engine.model_executor.driver_worker.model_runner.model
            if any(hasattr(layer, "cpu_linear") and not layer.weight.numel() for layer in model.modules()):
                raise ConfigError(
                    "vLLM has packed its weights for this CPU and cannot take new ones; "
                    'use grpo.engine "transformers" on a CPU'
                )
        self._generation.sync_weights()
        self._has = self._learner.version

    def close(self) -> None:
        """Stop the engine and free its memory."""
        # Stopping an engine ends the process group of all processes, so with several each keeps its own until it exits.
        if num_processes() == 1:
            close_engine(self._generation.llm)
        else:
            _KEPT.append(self._generation.llm)


_KEPT: list[Any] = []


class ServerEngine:
    """A vLLM server that receives the weights of each step.

    Args:
        learner: Provides the weights.
        settings: Address of the server, and the timeout of a request.
    """

    def __init__(self, learner: TorchLearner, settings: GRPOTraining) -> None:
        self._learner, self._settings = learner, settings
        self._generation = VLLMGeneration(
            model=learner.model,
            accelerator=learner.accelerator,
            processing_class=learner.codec.tokenizer,
            mode="server",
            server_base_url=settings.server.rstrip("/"),
        )
        self._has: int | None = None  # version of the weights sent last

    def send_weights(self) -> None:
        """Send the current weights, unless the server has them; every process must call this."""
        if self._has != self._learner.version:
            self._generation.sync_weights()  # gathers over all processes; the first one sends
            self._learner.wait()  # until the server has them: the others must not sample before
            self._has = self._learner.version

    @contextmanager
    def policy(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int]]:
        """See `Engine`; all processes must enter together."""
        self.send_weights()
        with self.sampler(sampling, seed) as opened:
            yield opened

    @contextmanager
    def sampler(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int]]:
        """See `Engine`."""
        model = served_model(self._settings.server)
        with closing(ServerSampler(self._settings, model, self._learner.codec, sampling, seed)) as sampler:
            yield sampler, model.max_length - sampling.max_completion_tokens

    def close(self) -> None:
        """Close the channel for weights; the server keeps running with the weights sent last."""
        if self._learner.accelerator.is_main_process:
            self._generation.vllm_client.close_communicator()


def engine_length(
    settings: GRPOTraining, words: WordList, prompter: Prompter, codec: ChatCodec, context: int | None
) -> int:
    """Return the longest game in tokens: 25 % above the sum of the token budgets, at most the model's context."""
    expected = longest_game(words, prompter, codec, settings.sampling.max_completion_tokens)
    length = expected + expected // 4
    return length if context is None else min(length, context)


def check_colocated(model: PreTrainedModel) -> None:
    """Check that a colocated engine can play the model.

    Raises:
        ConfigError: If vLLM is missing, the model was never saved, or it is only the text part of a multimodal model.
    """
    check_vllm('grpo.engine "vllm"')
    if not model.name_or_path:
        raise ConfigError('grpo.engine "vllm" loads the model from a directory; save the model and load it from there')
    if is_text_part(model.name_or_path):
        raise ConfigError(
            f'grpo.engine "vllm" loads all of {model.name_or_path}, but only its text part is trained; use grpo.engine '
            '"transformers", or begin with an SFT without model.lora, which saves the text part alone'
        )
    quiet_vllm()


def check_server(
    settings: GRPOTraining, model: PreTrainedModel, words: WordList, prompter: Prompter, codec: ChatCodec
) -> None:
    """Check that a server can play the model and take its weights.

    Raises:
        ConfigError: If vLLM is missing on this machine (it sends the weights), no server answers, the server takes no
            weights, a game can exceed its context, or only the text part of the served model is trained.
    """
    server = settings.server
    check_vllm(f'grpo.engine "{server}"')
    if model.name_or_path and is_text_part(model.name_or_path):
        raise ConfigError(
            f"{server} serves all of {model.name_or_path}, but only its text part is trained; begin with an SFT "
            "without model.lora, which saves the text part alone, and serve that"
        )
    served = served_model(server)
    check_takes_weights(server)
    budget = settings.sampling.max_completion_tokens
    game = longest_game(words, prompter, codec, budget)
    if game > served.max_length:
        raise ConfigError(
            f"a game can need {game} tokens with max_completion_tokens {budget}, but {server} takes at most "
            f'{served.max_length}; lower max_completion_tokens, set game.style to "compact", or start the server with '
            "a larger --max-model-len"
        )


def served_model(server: str) -> ServedModel:
    """Return the model that a server was started with, under whatever name.

    Raises:
        ConfigError: If no server answers.
    """
    models = served_models(server, wait_s=_WAIT_S)
    if not models:
        raise ConfigError(
            f"no vLLM server answers at {server}; start it with scripts/vllm_server.sh, or correct grpo.engine"
        )
    return models[0]
