"""vLLM colocated with the trainer, an engine per process: TRL makes it and sends it the weights, our rollouts use it.

TRL's own generation calls the engine once and may then put it to sleep, which for a game of six turns would mean
sending all weights six times. Here the engine stays awake for a whole rollout. Where several GPUs share one engine
(tensor parallelism), all their processes must make the same calls at the same time, however their games go.

What of TRL is used here is private to it: `vllm_generation` and its `llm`, `tp_group`, `_llm_weights_sleeping`, the way
to the engine's model, and the trainer's `_last_loaded_step`. A test holds that they are there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.lengths import longest_game
from wordle_rl.config import ConfigError, GRPOSettings, GRPOTraining, SamplingSettings
from wordle_rl.models.multimodal import is_text_part
from wordle_rl.prompt import Prompter
from wordle_rl.runs.distributed import check_engine_size, num_processes
from wordle_rl.samplers.base import check_vllm
from wordle_rl.samplers.vllm import TokenGenerator, VLLMSampler, close_engine, quiet_vllm
from wordle_rl.words import WordList

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from trl import GRPOTrainer
    from vllm import RequestOutput, SamplingParams


def vllm_arguments(
    settings: GRPOTraining, words: WordList, prompter: Prompter, codec: ChatCodec, context: int | None
) -> dict[str, Any]:
    """Arguments of TRL for the engine.

    TRL's correction for differences between sampler and trainer is off; ours (`importance_cap`) replaces it.

    Args:
        settings: Of the training.
        words: The word list.
        prompter: Wording, shape and rules.
        codec: Tokenizer and chat template.
        context: The most tokens the model takes; None: unknown.
    """
    expected = longest_game(words, prompter, codec, settings.sampling.max_completion_tokens)
    length = settings.vllm.max_length or expected + expected // 4
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": settings.vllm.gpu_memory_utilization,
        "vllm_tensor_parallel_size": settings.vllm.tensor_parallel_size,
        "vllm_max_model_length": length if context is None else min(length, context),
        "vllm_enable_sleep_mode": settings.vllm.sleep,
        "vllm_importance_sampling_correction": False,
    }


def check_colocated(settings: GRPOSettings, model: PreTrainedModel) -> None:
    """Refuse what cannot work before an engine is made.

    Raises:
        ConfigError: If vLLM is missing, the GPUs of an engine do not divide the processes, or the model was never
            saved, so that the engine has nothing to load, or is only a part of what was saved.
    """
    check_vllm('grpo.engine "vllm"')
    check_engine_size(settings.vllm.tensor_parallel_size)
    if not model.name_or_path:
        raise ConfigError('grpo.engine "vllm" reads the model from a directory; save it and load it from there')
    if is_text_part(model.name_or_path):
        raise ConfigError(
            f'grpo.engine "vllm" reads all of {model.name_or_path}, of which the text part alone is trained here; use '
            'grpo.engine "transformers", or begin with an SFT without model.lora: what that saves is the text part'
        )
    quiet_vllm()


def send_weights(trainer: GRPOTrainer) -> float:
    """Give the engine the weights of this step, unless it has them; every process must call this.

    A server gets them from the first process alone, and the others wait until it has them.

    Returns:
        The seconds it took.

    Raises:
        ConfigError: If the engine takes none.
    """
    generation, step = trainer.vllm_generation, trainer.state.global_step
    started = time.perf_counter()
    colocated = trainer.vllm_mode == "colocate"
    if step != trainer._last_loaded_step or (colocated and generation._llm_weights_sleeping):
        if colocated:
            _check_takes_weights(trainer)
        generation.sync_weights()
        trainer._last_loaded_step = step
        if not colocated:
            trainer.accelerator.wait_for_everyone()
    return time.perf_counter() - started


def _check_takes_weights(trainer: GRPOTrainer) -> None:
    """Refuse an engine that takes no weights: for some processors vLLM packs its own and empties the layers.

    Raises:
        ConfigError: If vLLM has packed its weights; on a GPU it never does.
    """
    if trainer.accelerator.device.type != "cpu":
        return
    model = trainer.vllm_generation.llm.llm_engine.model_executor.driver_worker.model_runner.model
    if any(hasattr(layer, "cpu_linear") and not layer.weight.numel() for layer in model.modules()):
        raise ConfigError(
            "vLLM has packed its weights for this processor and takes no others; "
            'use grpo.engine "transformers" on a CPU'
        )


@contextmanager
def colocated_player(
    trainer: GRPOTrainer, codec: ChatCodec, sampling: SamplingSettings, seed: int = 0
) -> Iterator[tuple[VLLMSampler, int]]:
    """A sampler over the trainer's engine, awake and with the current weights, for as long as the context lasts.

    Every process must enter and leave together; what they play in between may differ.

    Yields:
        The sampler, and the longest prompt that leaves room for a reply.
    """
    generation = trainer.vllm_generation
    send_weights(trainer)
    if generation.enable_sleep_mode:
        generation.llm.wake_up(tags=["kv_cache"])
    engine: TokenGenerator | SharedEngine = generation.llm
    if generation.tensor_parallel_size > 1:
        engine = SharedEngine(generation.llm, generation.tp_group)
    length = int(generation.llm.llm_engine.model_config.max_model_len)
    yield VLLMSampler(engine, codec, sampling, seed, length), length - sampling.max_completion_tokens
    if isinstance(engine, SharedEngine):
        engine.finish()
    if generation.enable_sleep_mode:
        generation.llm.sleep(level=2)
        generation._llm_weights_sleeping = True  # for TRL, too: level 2 forgets the weights


def release_engine(trainer: GRPOTrainer) -> None:
    """Stop the trainer's engine, so that what follows has its memory.

    With several processes each keeps its engine until it exits, since stopping one ends the process group of all.
    """
    llm = trainer.vllm_generation.llm
    if num_processes() == 1:
        close_engine(llm)
    else:
        _KEPT.append(llm)


_KEPT: list[Any] = []


class SharedEngine:
    """An engine that several processes hold together: what one of them asks for, all of them generate.

    vLLM expects each process of the group to make the same calls. Games end at different times, so a process without
    further requests must keep calling (`finish`) until no process of its group has any.

    Args:
        engine: This process's part.
        group: The processes of the engine.
    """

    def __init__(self, engine: TokenGenerator, group: torch.distributed.ProcessGroup) -> None:
        self._engine, self._group = engine, group

    def generate(
        self, prompts: Any, sampling_params: Sequence[SamplingParams], *, use_tqdm: bool
    ) -> Sequence[RequestOutput]:
        """The outputs of this process's prompts, in order."""
        outputs, _ = self._together(list(prompts), list(sampling_params), use_tqdm=use_tqdm)
        return outputs

    def finish(self) -> None:
        """Take part in the calls of the other processes until all have finished."""
        while not self._together([], [])[1]:
            pass

    def _together(
        self, prompts: list[Any], params: list[SamplingParams], *, use_tqdm: bool = False
    ) -> tuple[Sequence[RequestOutput], bool]:
        """One call of the whole group; this process's outputs, and whether no process asked for anything."""
        everyone: list[Any] = [None] * torch.distributed.get_world_size(self._group)
        torch.distributed.all_gather_object(everyone, (prompts, params), group=self._group)
        asked = [prompt for theirs, _ in everyone for prompt in theirs]
        wanted = [each for _, theirs in everyone for each in theirs]
        outputs = self._engine.generate(asked, wanted, use_tqdm=use_tqdm) if asked else []
        first = sum(len(theirs) for theirs, _ in everyone[: torch.distributed.get_rank(self._group)])
        return outputs[first : first + len(prompts)], not asked
