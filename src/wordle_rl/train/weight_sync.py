"""vLLM as the player of a training: one engine per process, or a server, with the weights of each step.

TRL's `VLLMGeneration` creates the engine and syncs weights; we only sample from it. TRL sends weights before every
generation, we send them once per rollout.

Multi-turn games end at different times, so with a server each process sends its own requests. TRL would gather the
prompts of all processes for every call, and a process whose games ended early would leave the others waiting forever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from trl.generation.vllm_generation import VLLMGeneration

from wordle_rl.chat.codec import ChatCodec, longest_game
from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.base import Sampler
from wordle_rl.policy.multimodal import is_text_part
from wordle_rl.policy.sizes import context_length
from wordle_rl.policy.vllm import VLLMSampler, check_vllm, close_engine, quiet_vllm
from wordle_rl.policy.vllm_server import ServedModel, ServerSampler, check_takes_weights, served_models
from wordle_rl.runs.distributed import num_processes, wait_for_all
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.starts import GameSetup

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_WAIT_S = 240.0
"""Seconds to wait for a server to come up; as long as TRL waits."""
_KEPT: list[Any] = []
"""Engines that live until their process exits."""


class Engine:
    """A player with its own copy of the learner's weights: vLLM in this process, or a server.

    Args:
        settings: `engine` tells which.
        length: Longest game in tokens, for vLLM in this process.
    """

    def __init__(self, learner: TorchLearner, settings: GRPOSettings, length: int | None = None) -> None:
        self._learner, self._settings = learner, settings
        options: dict[str, Any] = (
            {"mode": "server", "server_base_url": settings.server.rstrip("/")}
            if settings.server
            else {
                "mode": "colocate",
                "tensor_parallel_size": 1,
                "gpu_memory_utilization": settings.gpu_memory_utilization,
                "max_model_length": length,
                "max_num_seqs": settings.groups_per_step * settings.group_size,
                "enable_sleep_mode": False,
            }
        )
        self._generation = VLLMGeneration(
            model=learner.model,
            accelerator=learner.accelerator,
            processing_class=learner.codec.tokenizer,
            **options,
        )
        self._sent: int | None = None  # version of the weights sent last

    @contextmanager
    def policy(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int]]:
        """Open a sampler over the learner's current weights, see `OpenPolicy`; all processes must enter together."""
        self.send_weights()
        with self.sampler(sampling, seed) as opened:
            yield opened

    @contextmanager
    def sampler(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int]]:
        """Open a sampler over the weights sent last; yields the same as `policy`."""
        if self._settings.server:
            model = served_model(self._settings.server)
            codec, vocab_size = self._learner.codec, self._learner.model.config.get_text_config().vocab_size
            with closing(ServerSampler(self._settings, model, codec, sampling, seed, vocab_size)) as sampler:
                yield sampler, model.max_length - sampling.max_completion_tokens
        else:
            llm = self._generation.llm
            length = int(llm.llm_engine.model_config.max_model_len)
            yield VLLMSampler(llm, self._learner.codec, sampling, seed, length), length - sampling.max_completion_tokens

    def send_weights(self) -> None:
        """Send the current weights, unless the engine has them; every process must call this.

        Raises:
            ConfigError: If vLLM cannot take weights on this CPU.
        """
        if self._sent == self._learner.version:
            return
        if not self._settings.server and self._learner.accelerator.device.type == "cpu":
            # On some CPUs vLLM repacks the weights into its own format and empties the layers. New weights would go
            # nowhere, silently.
            model = self._generation.llm.llm_engine.model_executor.driver_worker.model_runner.model
            if any(hasattr(layer, "cpu_linear") and not layer.weight.numel() for layer in model.modules()):
                raise ConfigError(
                    "vLLM has packed its weights for this CPU and cannot take new ones; "
                    'use grpo.engine "transformers" on a CPU'
                )
        self._generation.sync_weights()  # gathers over all processes; to a server, the first one sends
        if self._settings.server:
            wait_for_all()  # until the server has them: the others must not sample before
        self._sent = self._learner.version

    def close(self) -> None:
        """Free an engine of this process; a server keeps running with the weights sent last."""
        if self._settings.server:
            if self._learner.accelerator.is_main_process:
                self._generation.vllm_client.close_communicator()
        # Stopping an engine ends the process group of all processes, so with several each keeps its own until it exits.
        elif num_processes() == 1:
            close_engine(self._generation.llm)
        else:
            _KEPT.append(self._generation.llm)


def open_engine(learner: TorchLearner, settings: GRPOSettings, setup: GameSetup) -> Engine:
    """Open the engine that `engine` names.

    Raises:
        ConfigError: If vLLM or the server is missing, or cannot play this model.
    """
    if settings.server:
        check_server(settings, learner.model, setup, learner.codec)
        return Engine(learner, settings)
    check_colocated(learner.model)
    length = engine_length(setup, learner.codec, context_length(learner.model))
    return Engine(learner, settings, length)


def engine_length(setup: GameSetup, codec: ChatCodec, context: int | None) -> int:
    """Return the longest game in tokens: 25 % above the sum of the token budgets, at most the model's context."""
    expected = longest_game(setup.words, setup.prompter, codec, setup.sampling.max_completion_tokens)
    length = expected + expected // 4
    return length if context is None else min(length, context)


def check_colocated(model: PreTrainedModel) -> None:
    """Refuse a model that was never saved, and one that is only the text part of a multimodal model."""
    check_vllm('grpo.engine "vllm"')
    if not model.name_or_path:
        raise ConfigError('grpo.engine "vllm" loads the model from a directory; save the model and load it from there')
    if is_text_part(model.name_or_path):
        raise ConfigError(
            f'grpo.engine "vllm" loads all of {model.name_or_path}, but only its text part is trained; use grpo.engine '
            '"transformers", or begin with an SFT without model.lora, which saves the text part alone'
        )
    quiet_vllm()


def check_server(settings: GRPOSettings, model: PreTrainedModel, setup: GameSetup, codec: ChatCodec) -> None:
    """Check that a server can play the model and take its weights; vLLM sends them, so it must be here as well."""
    server = settings.server
    check_vllm(f'grpo.engine "{server}"')
    if model.name_or_path and is_text_part(model.name_or_path):
        raise ConfigError(
            f"{server} serves all of {model.name_or_path}, but only its text part is trained; begin with an SFT "
            "without model.lora, which saves the text part alone, and serve that"
        )
    served = served_model(server)
    check_takes_weights(server)
    budget = setup.sampling.max_completion_tokens
    game = longest_game(setup.words, setup.prompter, codec, budget)
    if game > served.max_length:
        raise ConfigError(
            f"a game can need {game} tokens with max_completion_tokens {budget}, but {server} takes at most "
            f'{served.max_length}; lower max_completion_tokens, set game.style to "compact", or start the server with '
            "a larger --max-model-len"
        )


def served_model(server: str) -> ServedModel:
    """Return the model that a server was started with, under whatever name."""
    models = served_models(server, wait_s=_WAIT_S)
    if not models:
        raise ConfigError(
            f"no vLLM server answers at {server}; start it with scripts/vllm_server.sh, or correct grpo.engine"
        )
    return models[0]
