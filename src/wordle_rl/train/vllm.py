"""vLLM plays for a training: an engine in each process, or a server; it gets the weights of each step.

The engine and the way weights reach it are TRL's (`VLLMGeneration`, taken whole). Only the playing is ours: TRL calls
the engine once per generation, with weights sent each time. Here they are sent once per rollout.

Games of several turns end at different times. With a server each process asks for itself: TRL would gather the prompts
of all processes for every call, and those whose games end first would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from trl.generation.vllm_generation import VLLMGeneration

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.lengths import longest_game
from wordle_rl.config import ConfigError, GRPOTraining, SamplingSettings
from wordle_rl.models.loading import context_length
from wordle_rl.models.multimodal import is_text_part
from wordle_rl.prompt import Prompter
from wordle_rl.runs.distributed import num_processes
from wordle_rl.samplers.base import Sampler, check_vllm
from wordle_rl.samplers.vllm import VLLMSampler, close_engine, quiet_vllm
from wordle_rl.samplers.vllm_server import ServedModel, ServerSampler, check_takes_weights, served_models
from wordle_rl.train.learner import TorchLearner
from wordle_rl.words import WordList

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_WAIT_S = 240.0
"""Time a server has to come up, in seconds: as long as TRL waits for it."""


class Engine(Protocol):
    """An engine outside of the learner."""

    def policy(self, sampling: SamplingSettings, seed: int) -> Any:
        """A context with a sampler over the learner's current weights, and the longest prompt it takes."""

    def send_weights(self) -> None:
        """Give it the learner's current weights; every process must call this."""

    def sampler(self, sampling: SamplingSettings, seed: int) -> Any:
        """As `policy`, with the weights it was sent last."""

    def close(self) -> None:
        """Give its memory back."""


def open_engine(learner: TorchLearner, settings: GRPOTraining, words: WordList, prompter: Prompter) -> Engine:
    """The engine that settings name.

    Raises:
        ConfigError: If it is missing, or cannot play this model.
    """
    if settings.server:
        check_server(settings, learner.model, words, prompter, learner.codec)
        return ServerEngine(learner, settings.server)
    check_colocated(learner.model)
    length = engine_length(settings, words, prompter, learner.codec, context_length(learner.model))
    return ColocatedEngine(learner, settings, length)


class ColocatedEngine:
    """One vLLM engine in each process.

    Args:
        learner: Its weights play.
        settings: Of these, `gpu_memory_utilization`, and how many games are in play.
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
        self._has: int | None = None  # version of the weights it was sent; None: none

    @contextmanager
    def policy(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int]]:
        """The engine with the learner's weights.

        Every process must enter and leave together; what they play in between may differ.
        """
        self.send_weights()
        with self.sampler(sampling, seed) as opened:
            yield opened

    @contextmanager
    def sampler(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int]]:
        """The engine with the weights it has."""
        generation = self._generation
        length = int(generation.llm.llm_engine.model_config.max_model_len)
        sampler = VLLMSampler(generation.llm, self._learner.codec, sampling, seed, length)
        yield sampler, length - sampling.max_completion_tokens

    def send_weights(self) -> None:
        """Give the engine the current weights, unless it has them.

        Raises:
            ConfigError: If it takes none: for some processors vLLM packs its weights and empties the layers.
        """
        if self._has == self._learner.version:
            return
        if self._learner.accelerator.device.type == "cpu":
            model = self._generation.llm.llm_engine.model_executor.driver_worker.model_runner.model
            if any(hasattr(layer, "cpu_linear") and not layer.weight.numel() for layer in model.modules()):
                raise ConfigError(
                    "vLLM has packed its weights for this processor and takes no others; "
                    'use grpo.engine "transformers" on a CPU'
                )
        self._generation.sync_weights()
        self._has = self._learner.version

    def close(self) -> None:
        """Stop the engine, so that what follows has its memory.

        With several processes each keeps its engine until it exits, since stopping one ends the process group of all.
        """
        if num_processes() == 1:
            close_engine(self._generation.llm)
        else:
            _KEPT.append(self._generation.llm)


_KEPT: list[Any] = []


class ServerEngine:
    """A vLLM server that gets the weights of each step.

    Args:
        learner: Its weights play.
        address: Of the server.
    """

    def __init__(self, learner: TorchLearner, address: str) -> None:
        self._learner, self._address = learner, address
        self._generation = VLLMGeneration(
            model=learner.model,
            accelerator=learner.accelerator,
            processing_class=learner.codec.tokenizer,
            mode="server",
            server_base_url=address.rstrip("/"),
        )
        self._has: int | None = None  # version of the weights it was sent

    def send_weights(self) -> None:
        """Give the server the current weights, unless it has them; every process must call this.

        Weights may be gathered over all processes; the first one sends them, and the others wait until the server has
        them.
        """
        if self._has != self._learner.version:
            self._generation.sync_weights()
            self._learner.wait()
            self._has = self._learner.version

    @contextmanager
    def policy(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int]]:
        """A sampler over the server with the learner's weights; every process must enter together."""
        self.send_weights()
        with self.sampler(sampling, seed) as opened:
            yield opened

    @contextmanager
    def sampler(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int]]:
        """A sampler over the server with the weights it has."""
        model = served_model(self._address)
        sampler = ServerSampler(self._address, model, self._learner.codec, sampling, seed)
        yield sampler, model.max_length - sampling.max_completion_tokens

    def close(self) -> None:
        """Close the way by which weights went; the server stays, with those of the last step that was played."""
        if self._learner.accelerator.is_main_process:
            self._generation.vllm_client.close_communicator()


def engine_length(
    settings: GRPOTraining, words: WordList, prompter: Prompter, codec: ChatCodec, context: int | None
) -> int:
    """Longest game in tokens: a quarter more than the token budgets come to, within the model's context."""
    expected = longest_game(words, prompter, codec, settings.sampling.max_completion_tokens)
    length = expected + expected // 4
    return length if context is None else min(length, context)


def check_colocated(model: PreTrainedModel) -> None:
    """Refuse what cannot work before an engine is made.

    Raises:
        ConfigError: If vLLM is missing, or the model was never saved, so that the engine has nothing to load, or is
            only a part of what was saved.
    """
    check_vllm('grpo.engine "vllm"')
    if not model.name_or_path:
        raise ConfigError('grpo.engine "vllm" reads the model from a directory; save it and load it from there')
    if is_text_part(model.name_or_path):
        raise ConfigError(
            f'grpo.engine "vllm" reads all of {model.name_or_path}, of which the text part alone is trained here; use '
            'grpo.engine "transformers", or begin with an SFT without model.lora: what that saves is the text part'
        )
    quiet_vllm()


def check_server(
    settings: GRPOTraining, model: PreTrainedModel, words: WordList, prompter: Prompter, codec: ChatCodec
) -> None:
    """Refuse what cannot work before the server gets weights.

    Raises:
        ConfigError: If vLLM is missing here, where it sends the weights, no server answers, it takes no weights, a game
            may outgrow it, or only a part of the model is trained that it serves.
    """
    server = settings.server
    check_vllm(f'grpo.engine "{server}"')
    if model.name_or_path and is_text_part(model.name_or_path):
        raise ConfigError(
            f"{server} serves all of {model.name_or_path}, of which the text part alone is trained here; begin with an "
            "SFT without model.lora, and serve what that saves"
        )
    served = served_model(server)
    check_takes_weights(server)
    budget = settings.sampling.max_completion_tokens
    game = longest_game(words, prompter, codec, budget)
    if game > served.max_length:
        raise ConfigError(
            f"a game may take {game} tokens with max_completion_tokens {budget}, {server} takes {served.max_length}; "
            'lower it, set game.style to "compact", or start the server with a larger --max-model-len'
        )


def served_model(server: str) -> ServedModel:
    """The model that the server was started with, which gets the weights, under whatever name.

    Raises:
        ConfigError: If none answers.
    """
    models = served_models(server, wait_s=_WAIT_S)
    if not models:
        raise ConfigError(
            f"no vLLM server answers at {server}; start it with scripts/vllm_server.sh, or correct grpo.engine"
        )
    return models[0]
