"""Lesson 15: tokens rendered twice. What if the text of a game is kept, and encoded again for training?

    all lessons     the tokens that were sampled, their log-probabilities, a mask:      kept as they are
    now             decode(tokens) -> text, then encode(text) -> tokens to train on

A text has many spellings in tokens, and a tokenizer makes one of them. A sampler may draw any: "be", "l", "l", "y" and
"b", "e", "l", "l", "y" read alike. Whoever keeps the text and encodes it for training, as behind an API that returns
messages, trains on tokens that were never sampled, and that the player may hold for nearly impossible.

Here the tokenizer gets ten more tokens, pairs of letters, and the beginner learns both spellings, half and half, as
large models come to know many. Then the same games are scored twice.

What you will see: of games as sampled, the ratio of lesson 5 (sampler's log-probabilities against the trainer's) is 1.
Rendered twice, most games have other tokens, often of another number, so that ratios cannot even be formed token by
token; for whole games they miss 1 by factors. A trainer that computes old log-probabilities anew reports a ratio of 1
and sees nothing. And the gradient is another one.

Source: Cao and Rimell 2021, "You should evaluate your language model on marginal likelihood over tokenisations"; both
spellings taught at random, Provilkov et al. 2019, arXiv:1910.13267 (BPE-dropout).

This was the last lesson. `wordle_rl/train/` has the same losses in loops that resume, validate and log.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from classroom import LISTED, agreement, batch_of, beginner, gradient_of, play_groups, weighed

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.masks import encode_game
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.prompt import Message
from wordle_rl.train.logprobs import Scorer

PAIRS = sorted({word[:2] for word in LISTED})


def main(seed: int = 0) -> dict[str, float]:
    """Return the fraction of games whose tokens differ, the mean |log ratio|, and how the gradients agree."""
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(PAIRS)
    codec, rng = ChatCodec(tokenizer), random.Random(0)
    letters = {codec.encode(pair)[0]: [codec.encode(letter)[0] for letter in pair] for pair in PAIRS}

    def either_way(conversation: Sequence[Message]) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        mask: list[int] = []
        for token, is_reply in zip(*encode_game(codec, conversation), strict=True):
            spelt = letters[token] if token in letters and rng.random() < 0.5 else [token]
            ids += spelt
            mask += [is_reply] * len(spelt)
        return ids, mask

    model = beginner(codec, encode=either_way)
    groups = play_groups(model, seed=seed, codec=codec)
    sampled = weighed(groups)
    twice = []
    for row in sampled:
        ids: list[int] = []
        mask: list[int] = []
        advantages: list[float] = []
        # Turn by turn, so that every reply keeps its mask and its advantage.
        for start, stop in stretches(row.loss_mask):
            text = str(tokenizer.decode([*row.token_ids[start:stop]], skip_special_tokens=False))
            again = codec.encode(text)
            ids += again
            mask += [row.loss_mask[start]] * len(again)
            advantages += [row.advantages[start]] * len(again)
        nobody = [0.0] * len(ids)  # sampled these tokens
        twice.append(replace(row, token_ids=ids, loss_mask=mask, advantages=advantages, sampler_logprobs=nobody))

    scorer, found = Scorer(model), {}
    when_played = torch.tensor([sum(row.sampler_logprobs) for row in sampled])  # (games,): log p of a game's actions
    for name, rows in (("sampled", sampled), ("rendered twice", twice)):
        batch = batch_of(rows)
        with torch.no_grad():
            logprobs = scorer(batch)[0]  # (N,)
        of_games = torch.zeros(len(rows)).index_add(0, batch.rows, logprobs)  # (games,)
        found[name] = float((of_games - when_played).abs().mean())
        print(f"{name:14}: {len(logprobs)} tokens, mean |log ratio| of a game {found[name]:.4f}")
    found["differ"] = sum([*a.token_ids] != [*b.token_ids] for a, b in zip(sampled, twice, strict=True)) / len(twice)
    found["agreement"] = agreement([gradient_of(scorer, sampled), gradient_of(scorer, twice)])
    print(f"{found['differ']:.0%} of the games have other tokens; their gradients agree to {found['agreement']:.2f}")
    return found


def stretches(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Where runs of equal entries of a mask begin and end."""
    edges = [0, *(i for i in range(1, len(mask)) if mask[i] != mask[i - 1]), len(mask)]
    return [*pairwise(edges)]


if __name__ == "__main__":
    main()
