"""Small models that have learnt to say some words as their first guess, each as often as a test wants."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.evaluate.players import open_model
from wordle_rl.policy.loading import save_model

_STEPS = 250


def teach_words(
    model,
    codec: ChatCodec,
    prompt: list[int],
    shares: Mapping[str, float],
    reply: Callable[[str], str] = "<guess>{}</guess>".format,
) -> None:
    """Train a model until its replies to a prompt are guesses of these words, about as often as their shares."""
    replies = [codec.reply_ids(reply(word)) for word in shares]
    weights = torch.tensor(list(shares.values()))
    tokens = torch.tensor([[*prompt, *reply] for reply in replies])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(_STEPS):
        logits = model(input_ids=tokens).logits[:, len(prompt) - 1 : -1].float()
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, len(prompt) :], reduction="none")
        optimizer.zero_grad()
        (losses.sum(1) * weights).sum().backward()
        optimizer.step()
    model.eval()


def teach_run(run: Path, shares: Mapping[str, float]) -> None:
    """Have the last model of a run say these words on its first turn."""
    opened = open_model(run)
    prompt = opened.codec.prompt_ids(opened.context.prompter.opening())
    teach_words(opened.model, opened.codec, prompt, shares)
    save_model(opened.model, opened.codec, run / "grpo")
