"""Boards of teacher games that leave one answer: places from which RL goes on, and how sure a policy is of each.

Their secrets are words outside the answers, so the answer that is left may be any, one never played as a secret
included; it is learnt from such boards as it is in SFT.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel

from wordle_rl.chat import ChatCodec
from wordle_rl.env import WordleEnv
from wordle_rl.game import Outcome
from wordle_rl.prompt import Prompter
from wordle_rl.rollout import Start
from wordle_rl.runs import RunError
from wordle_rl.traces import Trace, read_traces
from wordle_rl.words import WordList

_MOST_PER_ANSWER = 32
_BATCH = 256


class Boards:
    """Start boards by the one answer they leave.

    Args:
        path: A traces file.
        words: The word lists.
        seed: Seed of the choice where an answer has many.

    Raises:
        RunError: If the file is missing or damaged, or no game of it has such a board.
    """

    def __init__(self, path: Path, words: WordList, seed: int) -> None:
        self._starts = _collect(path, words, seed)
        if not self._starts:
            raise RunError(f"{path} holds no game with a secret outside the answers that leaves one answer")
        self._answer_of = {start: answer for answer, starts in self._starts.items() for start in starts}

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers that some board leaves, in alphabetical order."""
        return tuple(sorted(self._starts))

    def draw(self, answer: str, rng: random.Random) -> Start:
        """One of an answer's boards."""
        return rng.choice(self._starts[answer])

    def answer_of(self, start: Start) -> str | None:
        """The answer a start board leaves; None if it is none of these."""
        return self._answer_of.get(start)


def _collect(path: Path, words: WordList, seed: int) -> dict[str, list[Start]]:
    """Up to so many different boards for each answer, each as likely as any other."""
    rng = random.Random(seed)
    starts: dict[str, dict[Start, None]] = {}
    met: dict[str, int] = {}
    for trace in read_traces(path):
        if trace.secret in words.answer_index:
            continue
        for turns, turn in enumerate(trace.turns):
            if turns and turn.taught and turn.remaining == 1 and _is_scored(trace, turns):
                found = starts.setdefault(turn.guess, {})
                start = Start(trace.secret, tuple(earlier.guess for earlier in trace.turns[:turns]))
                met[turn.guess] = met.get(turn.guess, 0) + 1
                if len(found) >= _MOST_PER_ANSWER:
                    if rng.random() * met[turn.guess] >= _MOST_PER_ANSWER:
                        continue
                    del found[rng.choice(list(found))]
                found[start] = None
    return {answer: list(found) for answer, found in starts.items()}


def _is_scored(trace: Trace, turns: int) -> bool:
    return all(turn.outcome is Outcome.SCORED for turn in trace.turns[:turns])


@torch.no_grad()
def likelihoods(
    model: PreTrainedModel,
    codec: ChatCodec,
    words: WordList,
    prompter: Prompter,
    starts: Mapping[str, Start],
) -> dict[str, float]:
    """How likely the policy is to say at once, at temperature 1, the answer that each start board leaves.

    Only for replies without thinking, which would have to be sampled.

    Args:
        model: The policy; read as it is.
        codec: Its tokenizer and template.
        words: The word lists.
        prompter: Wording and grammar.
        starts: By answer.

    Returns:
        By answer, 0 to 1.
    """
    pairs = []
    for answer, start in starts.items():
        prompt = codec.prompt_ids(WordleEnv(start.secret, words, prompter, start.given).conversation)
        pairs.append((prompt, codec.reply_ids(prompter.reply(answer))))
    was_training = model.training
    model.eval()
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
    found = [0.0] * len(pairs)
    for first in range(0, len(order), _BATCH):
        batch = order[first : first + _BATCH]
        for i, logprob in zip(batch, _reply_logprobs(model, [pairs[i] for i in batch], codec.pad_id), strict=True):
            found[i] = logprob
    model.train(was_training)
    return {answer: min(1.0, float(torch.tensor(x).exp())) for answer, x in zip(starts, found, strict=True)}


def _reply_logprobs(model: PreTrainedModel, pairs: Sequence[tuple[list[int], list[int]]], pad_id: int) -> list[float]:
    """Log-probability of each reply after its prompt; padding stands on the right, where nobody looks."""
    width = max(len(prompt) + len(reply) for prompt, reply in pairs)
    rows = [[*prompt, *reply] + [pad_id] * (width - len(prompt) - len(reply)) for prompt, reply in pairs]
    ids = torch.tensor(rows, device=model.device)
    logprobs = model(input_ids=ids, use_cache=False).logits[:, :-1].float().log_softmax(-1)  # (B, T - 1, V)
    of_tokens = logprobs.gather(2, ids[:, 1:, None])[:, :, 0]
    return [
        float(row[len(prompt) - 1 : len(prompt) + len(reply) - 1].sum())
        for row, (prompt, reply) in zip(of_tokens, pairs, strict=True)
    ]
