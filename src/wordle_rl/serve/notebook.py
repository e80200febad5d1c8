"""Drop-in functions for notebooks written for TRL and openenv's `textarena_env`.

`generate_rollout_completions` stands for the one that TRL used to have in `trl.experimental.openenv`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from wordle_rl.prompt import Guess, Message, parse_reply
from wordle_rl.prompt.reply import with_opened_thought
from wordle_rl.prompt.textarena_texts import GAME_TAG

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase
    from trl import GRPOTrainer

    from wordle_rl.serve.textarena import TextArenaObservation


NO_GUESS = "[]"
"""Message for a completion without a guess; the game refuses it. The original sends `[dunno]`, which is a word."""

_ANSWER = re.compile(r"(?:You|Player \d+) submitted \[\w+\]\.\s*Feedback:(.*)", re.DOTALL)
"""The game's answer to a scored guess, in the words of TextArena 0.7 or of 0.6."""


def extract_guess(text: str) -> str:
    """Return the guess of a completion as a message to the game, `[crane]`.

    A completion is one word in brackets after optional thinking, and nothing else. Thinking is not searched, and prose
    is not a guess. The game judges length and spelling.

    Examples:
        >>> extract_guess("<think>[slate] or [crane]?</think>[Crane]")
        '[crane]'
        >>> extract_guess("I would say crane")
        '[]'
    """
    parsed = parse_reply(with_opened_thought(text), brackets=True)
    return f"[{parsed.word}]" if isinstance(parsed, Guess) else NO_GUESS


def extract_wordle_feedback(observation: TextArenaObservation) -> str:
    """Return letters, marks and guesses left of the game's answer to the last message, a line each.

    They are empty if that message was refused.
    """
    last = observation.messages[-1].content.rsplit(f"{GAME_TAG} ", 1)[-1] if observation.messages else ""
    answer = _ANSWER.match(last.lstrip())
    return answer[1].strip() if answer else ""


def extract_feedback_counts(feedback: str) -> tuple[int, int]:
    """Count the green and the yellow marks of the last guess of a feedback.

    Examples:
        >>> extract_feedback_counts("C R A N E\\nX Y X X G\\nYou have 5 guesses left.")
        (1, 1)
        >>> extract_feedback_counts("")
        (0, 0)
    """
    lines = [line.replace(" ", "") for line in feedback.splitlines() if line.strip()]
    for line in reversed(lines[1:]):
        if not line.strip("GYX"):
            return line.count("G"), line.count("Y")
    return 0, 0


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


def generate_rollout_completions(trainer: GRPOTrainer, prompts: Sequence[Prompt]) -> list[Completion]:
    """Sample one completion per prompt in one call, with vLLM if the trainer has it, otherwise with the model.

    Token ids are used as they are, so that the history of a multi-turn game is never tokenized again. Text is tokenized
    without special tokens, since a rendered chat already has them.
    """
    if not prompts:
        return []
    tokenizer: PreTrainedTokenizerBase = trainer.processing_class  # type: ignore[assignment]  # processors are for images
    prompt_ids = [_ids(tokenizer, prompt) for prompt in prompts]
    if trainer.use_vllm:
        # TRL sends vLLM the weights of a step before it calls `rollout_func`.
        _, completion_ids, ranked, _ = trainer.vllm_generation.generate(prompt_ids, images=None, num_generations=1)
        logprobs = [[best[0] for best in tokens] for tokens in ranked]  # of the sampled token; others may follow
    else:
        completion_ids = _generated(trainer, prompt_ids)
        logprobs = _logprobs(trainer, prompt_ids, completion_ids)
    texts = tokenizer.batch_decode(completion_ids, skip_special_tokens=True)
    return [
        Completion(prompt_ids=prompt, completion_ids=list(completion), logprobs=list(scores), text=text)
        for prompt, completion, scores, text in zip(prompt_ids, completion_ids, logprobs, texts, strict=True)
    ]


def _generated(trainer: GRPOTrainer, prompt_ids: Sequence[list[int]]) -> list[list[int]]:
    # With the trainer's own sampling settings, as TRL's own games.
    import torch  # here, so that the functions above need no torch
    from trl.models import unwrap_model_for_generation

    from wordle_rl.policy.uncached import left_padded

    settings, overrides = trainer.generation_config, trainer.generation_kwargs
    unwrapped = unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator, generation_kwargs=overrides)
    with unwrapped as model, torch.no_grad():
        ids, mask = left_padded(prompt_ids, settings.pad_token_id, model.device)  # (B, P)
        sampled = model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)[:, ids.shape[1] :]
    ends = {settings.eos_token_id} if isinstance(settings.eos_token_id, int) else {*settings.eos_token_id}
    # A row goes on with padding after the token that ended it, which counts as sampled.
    lengths = [next((at + 1 for at, token in enumerate(row) if token in ends), len(row)) for row in sampled.tolist()]
    return [row[:length] for row, length in zip(sampled.tolist(), lengths, strict=True)]


def _logprobs(
    trainer: GRPOTrainer, prompt_ids: Sequence[list[int]], completion_ids: Sequence[list[int]]
) -> list[list[float]]:
    # Under the trainer's model at its temperature, over the whole vocabulary.
    import torch

    model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
    was_training = model.training
    model.eval()
    all_logprobs = []
    for prompt, completion in zip(prompt_ids, completion_ids, strict=True):
        # One at a time: logits of a batch are large.
        ids = torch.tensor([[*prompt, *completion]], device=model.device)  # (1, P + T)
        with torch.no_grad():
            logits: Tensor = model(input_ids=ids, logits_to_keep=len(completion) + 1).logits[0, :-1]  # (T, V)
        logprobs = (logits.float() / float(trainer.temperature)).log_softmax(-1)  # (T, V)
        all_logprobs.append(logprobs.gather(-1, ids[0, len(prompt) :, None])[:, 0].tolist())  # (T,)
    model.train(was_training)
    return all_logprobs


def _ids(tokenizer: PreTrainedTokenizerBase, prompt: Prompt) -> list[int]:
    if isinstance(prompt, str):
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    elif prompt and isinstance(prompt[0], Mapping):
        messages: list[dict[str, str]] = [dict(message) for message in prompt]  # type: ignore[arg-type]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    else:
        ids = list(prompt)
    if not ids:
        raise ValueError("a prompt is empty; give at least one token")
    return list(ids)
