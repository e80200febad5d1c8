"""`generate_rollout_completions`, which TRL used to have in `trl.experimental.openenv`.

It uses private parts of TRL: `GRPOTrainer._generate_single_turn`, `generation_config`, `vllm_generation` and its
`generation_kwargs`. A test checks that they exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch import Tensor

from wordle_rl.prompt import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase
    from trl import GRPOTrainer

_NAMES = {"max_tokens": "max_new_tokens"}
"""Settings whose name in vLLM differs from that in transformers."""

Prompt = str | Sequence[int] | Sequence[Message]
"""A rendered prompt, its token ids, or messages to render."""


class Completion(TypedDict):
    """One completion.

    `logprobs` are the log-probabilities of `completion_ids` at the temperature of the trainer, over all tokens.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    text: str


def generate_rollout_completions(
    trainer: GRPOTrainer,
    prompts: Sequence[Prompt],
    *,
    generation_overrides: Mapping[str, Any] | None = None,
    as_chat: bool | None = None,
) -> list[Completion]:
    """Sample one completion per prompt in one call, with vLLM if the trainer has it, otherwise with the model.

    Args:
        trainer: TRL's trainer, as passed to a `rollout_func`.
        prompts: Token ids are used as they are, so that the history of a multi-turn game is never tokenized again. Text
            is tokenized without special tokens, since a rendered chat already has them.
        generation_overrides: Sampling settings for this call, by vLLM's names: `max_tokens`, `temperature`, `top_k`.
        as_chat: Whether prompts are messages. None: detect it.

    Raises:
        ValueError: If a prompt is empty, `as_chat` does not match, or `n` is not 1.
    """
    if not prompts:
        return []
    overrides = dict(generation_overrides or {})
    if overrides.pop("n", 1) != 1:
        raise ValueError("generate_rollout_completions samples one completion per prompt; repeat prompts instead of n")
    tokenizer: PreTrainedTokenizerBase = trainer.processing_class  # type: ignore[assignment]  # processors are for images
    prompt_ids = [_ids(tokenizer, prompt, as_chat) for prompt in prompts]
    with _overridden(trainer, overrides):
        completion_ids, logprobs = trainer._generate_single_turn(prompt_ids, None, {}, num_generations=1)
    if logprobs is None:
        temperature = float(overrides.get("temperature", trainer.temperature))
        logprobs = completion_logprobs(trainer, prompt_ids, completion_ids, temperature)
    texts = tokenizer.batch_decode(completion_ids, skip_special_tokens=True)
    return [
        Completion(prompt_ids=prompt, completion_ids=list(completion), logprobs=list(scores), text=text)
        for prompt, completion, scores, text in zip(prompt_ids, completion_ids, logprobs, texts, strict=True)
    ]


@torch.no_grad()
def completion_logprobs(
    trainer: GRPOTrainer, prompt_ids: Sequence[list[int]], completion_ids: Sequence[list[int]], temperature: float
) -> list[list[float]]:
    """Compute log-probabilities of completions under the trainer's model, over the whole vocabulary.

    Args:
        trainer: Its model stays in its mode.
        prompt_ids: One prompt per completion.
        completion_ids: The completions.
        temperature: Divide logits by this.
    """
    model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
    was_training = model.training
    model.eval()
    all_logprobs = []
    for prompt, completion in zip(
        prompt_ids, completion_ids, strict=True
    ):  # one at a time: logits of a batch are large
        ids = torch.tensor([[*prompt, *completion]], device=model.device)  # (1, P + T)
        logits: Tensor = model(input_ids=ids, logits_to_keep=len(completion) + 1).logits[0, :-1]  # (T, V)
        logprobs = (logits.float() / temperature).log_softmax(-1)  # (T, V)
        all_logprobs.append(logprobs.gather(-1, ids[0, len(prompt) :, None])[:, 0].tolist())  # (T,)
    model.train(was_training)
    return all_logprobs


def _ids(tokenizer: PreTrainedTokenizerBase, prompt: Prompt, as_chat: bool | None) -> list[int]:
    is_chat = not isinstance(prompt, str) and bool(prompt) and isinstance(prompt[0], Mapping)
    if as_chat is not None and as_chat != is_chat:
        raise ValueError(f"as_chat is {as_chat}, but the prompt is {'messages' if is_chat else 'text or token ids'}")
    if isinstance(prompt, str):
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    elif is_chat:
        messages: list[dict[str, str]] = [dict(message) for message in prompt]  # type: ignore[arg-type]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    else:
        ids = list(prompt)
    if not ids:
        raise ValueError("a prompt is empty; give at least one token")
    return list(ids)


@contextmanager
def _overridden(trainer: GRPOTrainer, overrides: Mapping[str, Any]) -> Iterator[None]:
    if not overrides:
        yield
        return
    holder: Any
    if trainer.use_vllm:
        holder, name = trainer.vllm_generation, "generation_kwargs"
        changed: Any = {**holder.generation_kwargs, **overrides}
    else:
        holder, name = trainer, "generation_config"
        changed = deepcopy(trainer.generation_config)
        unknown = changed.update(**{_NAMES.get(key, key): value for key, value in overrides.items()})
        if unknown:
            raise ValueError(f"transformers has no sampling setting {sorted(unknown)}; leave it out")
    kept = getattr(holder, name)
    setattr(holder, name, changed)
    try:
        yield
    finally:
        setattr(holder, name, kept)
