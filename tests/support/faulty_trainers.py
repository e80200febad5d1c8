"""Adapters of trainers: one of ours, and the same with one fault each, by the threads that report them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from wordle_rl.chat.masks import encode_game
from wordle_rl.train.advantages import game_advantages
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import PolicyLoss, Totals, policy_loss
from wordle_rl.train.micro_batches import Batch
from wordle_rl.trainers.check import CLIP, GROUP_SIZE, LONGEST, Case


def along(mask: list[int], values: Iterator[float]) -> list[float]:
    return [float(next(values)) if m else 0.0 for m in mask]


def right(case: Case) -> dict[str, Any]:
    """Ours on torch: `Batch`, `Scorer` with shared prefixes, `PolicyLoss`."""
    rows = [game.row for game in case.games]
    masks = [list(row.loss_mask) for row in rows]
    counts = [sum(mask) for mask in masks]
    batch = Batch.of(rows, [1.0] * len(rows), case.codec.pad_id)
    logprobs = Scorer(case.model)(batch)[0].detach()
    values = iter(logprobs.tolist())
    groups = [case.games[first : first + GROUP_SIZE] for first in range(0, len(case.games), GROUP_SIZE)]
    credited = [turn for group in groups for (turn,) in game_advantages([(game.reward,) for game in group])]
    losses = {}
    for name in ("dapo", "grpo", "dr_grpo"):
        weights = PolicyLoss(name, LONGEST).token_weights(counts, Totals(sum(counts), len(counts)))
        spread = torch.tensor(weights)[batch.rows]
        losses[name] = policy_loss(logprobs, batch.sampler_logprobs, batch.advantages, spread, **CLIP)[0].item()
    return {
        "ids": [list(row.token_ids) for row in rows],
        "mask": masks,
        "logprobs": [along(mask, values) for mask in masks],
        "advantages": [[value * m for m in mask] for value, mask in zip(credited, masks, strict=True)],
        "loss": losses,
    }


def tokenised_again(case: Case) -> dict[str, Any]:
    """TRL #5224: the conversation is decoded and tokenised again."""
    return right(case) | {"ids": [encode_game(case.codec, game.messages)[0] for game in case.games]}


def mask_beyond_the_tokens(case: Case) -> dict[str, Any]:
    """TRL #5144: the mask is longer than the completion."""
    return right(case) | {"mask": [[*mask, 1] for mask in right(case)["mask"]]}


def prompt_replies_learnt(case: Case) -> dict[str, Any]:
    """NeMo-RL #2176: assistant turns of the prompt are learnt too."""
    return right(case) | {"mask": [encode_game(case.codec, game.messages)[1] for game in case.games]}


def answers_learnt(case: Case) -> dict[str, Any]:
    """Everything after the prompt is learnt, what the environment said included."""
    masks = [[int(at >= game.num_prompt_tokens) for at in range(len(game.row.token_ids))] for game in case.games]
    return right(case) | {"mask": masks}


def ends_not_learnt(case: Case) -> dict[str, Any]:
    """The token that ends a turn is masked as padding, so the policy never learns to stop."""
    made = right(case)
    masks = [
        [m * (token not in case.codec.stop_ids) for m, token in zip(mask, ids, strict=True)]
        for mask, ids in zip(made["mask"], made["ids"], strict=True)
    ]
    return made | {"mask": masks}


def shifted(case: Case) -> dict[str, Any]:
    """Log-probabilities stand one place too early."""
    return right(case) | {"logprobs": [[*values[1:], 0.0] for values in right(case)["logprobs"]]}


def another_temperature(case: Case) -> dict[str, Any]:
    """Logits are divided by a temperature that the sampler did not use."""
    rows = [game.row for game in case.games]
    batch = Batch.of(rows, [1.0] * len(rows), case.codec.pad_id)
    values = iter(Scorer(case.model, temperature=0.7)(batch)[0].tolist())
    return right(case) | {"logprobs": [along(list(row.loss_mask), values) for row in rows]}


def padding_seen(case: Case) -> dict[str, Any]:
    """Rows are padded on the left, and padding is attended to."""
    found = []
    longest = max(len(game.row.token_ids) for game in case.games)
    for game in case.games:
        ids = list(game.row.token_ids)
        tokens = torch.tensor([[case.codec.pad_id] * (longest - len(ids)) + ids])
        with torch.no_grad():
            logprobs = case.model(input_ids=tokens).logits[0, :-1].float().log_softmax(-1)
        found.append([0.0, *logprobs.gather(1, tokens[0, 1:, None])[:, 0].tolist()][-len(ids) :])
    return right(case) | {"logprobs": found}


def one_baseline_for_all(case: Case) -> dict[str, Any]:
    """The mean of the batch, not that of the group."""
    mean = sum(game.reward for game in case.games) / len(case.games)
    return right(case) | {"advantages": [[(g.reward - mean) * m for m in g.row.loss_mask] for g in case.games]}


def answers_credited(case: Case) -> dict[str, Any]:
    """Advantages run over what the environment said, too."""
    made = right(case)
    spread = [[max(values, key=abs)] * len(values) for values in made["advantages"]]
    return made | {"advantages": spread}


def rewards_turned(case: Case) -> dict[str, Any]:
    """Cost and reward are confused."""
    return right(case) | {"advantages": [[-value for value in values] for values in right(case)["advantages"]]}


def mean_of_means(case: Case) -> dict[str, Any]:
    """Each micro-batch is divided by its own tokens: TRL's gradient accumulation, before it counted a step's."""
    parts = [right(replace(case, games=case.games[at : at + GROUP_SIZE]))["loss"]["dapo"] for at in (0, GROUP_SIZE)]
    return right(case) | {"loss": {"dapo": sum(parts) / 2}}


def not_clipped(case: Case) -> dict[str, Any]:
    """Ratios are not clipped."""
    rows = [game.row for game in case.games]
    counts = [sum(row.loss_mask) for row in rows]
    weights = PolicyLoss("dapo").token_weights(counts, Totals(sum(counts), len(counts)))
    batch = Batch.of(rows, weights, case.codec.pad_id)
    ratio = (Scorer(case.model)(batch)[0].detach() - batch.sampler_logprobs).exp()
    return right(case) | {"loss": {"dapo": -(batch.weights * batch.advantages * ratio).sum().item()}}


FOUND: dict[Callable[[Case], dict[str, Any]], str] = {
    tokenised_again: "trainer.ids",
    mask_beyond_the_tokens: "trainer.mask",
    prompt_replies_learnt: "trainer.mask",
    answers_learnt: "trainer.mask",
    ends_not_learnt: "trainer.mask",
    shifted: "trainer.logprobs",
    another_temperature: "trainer.logprobs",
    padding_seen: "trainer.logprobs",
    one_baseline_for_all: "trainer.advantages",
    answers_credited: "trainer.advantages",
    rewards_turned: "trainer.advantages",
    mean_of_means: "trainer.loss",
    not_clipped: "trainer.loss",
}
"""Faulty trainer -> the one check that must fail."""
