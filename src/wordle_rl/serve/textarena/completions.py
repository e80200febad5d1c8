"""`generate_rollout_completions`, which TRL had in `trl.experimental.openenv` and no longer has.

What of TRL is used here is private to it: `GRPOTrainer._generate_single_turn`, `generation_config`, `vllm_generation`
and its `generation_kwargs`. A test holds that they are there.
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
"""Names of settings in vLLM that transformers calls otherwise."""

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
    """Sample one completion for each prompt, all in one call: with vLLM if the trainer has it, else with the model.

    Args:
        trainer: TRL's trainer, as it calls a `rollout_func`.
        prompts: Token ids are taken as they are, which is what a game of several turns wants: its history is never
            tokenized again. A text is tokenized without adding special tokens, since a rendered chat has its own.
        generation_overrides: Settings of sampling for this call by vLLM's names: `max_tokens`, `temperature`, `top_k`.
        as_chat: Whether prompts are messages; None: look.

    Raises:
        ValueError: If a prompt is empty, `as_chat` does not fit, or `n` is asked for.
    """
    if not prompts:
        return []
    overrides = dict(generation_overrides or {})
    if overrides.pop("n", 1) != 1:
        raise ValueError("generate_rollout_completions samples one completion a prompt; repeat the prompt, not n")
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
    """Log-probabilities of completions under the trainer's model, over all tokens.

    Args:
        trainer: Its model is left in the mode it is in.
        prompt_ids: A prompt each.
        completion_ids: A completion each.
        temperature: By which the logits are divided.
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
    """Change the trainer's settings of sampling for a while."""
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
            raise ValueError(f"transformers has no setting of sampling {sorted(unknown)}; leave it out")
    kept = getattr(holder, name)
    setattr(holder, name, changed)
    try:
        yield
    finally:
        setattr(holder, name, kept)
