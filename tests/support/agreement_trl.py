"""TRL's side of the table of agreement: its stock trainer, its batch, and the table computed by it."""

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from agreement import (
    CLIP,
    CREDITS,
    GAME_NUMBERS,
    GAMES,
    GROUP,
    LONGEST,
    LOSSES,
    Expected,
    embedded_codec,
    full_logprobs,
    grouped,
    model,
    played,
    segments,
    settings_of,
    turn_rewards,
    write,
)
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from wordle_rl.chat.masks import mask_without_overlong
from wordle_rl.train.advantages import CREDITS as ESTIMATORS


def no_reward(completions: list[Any], **_: Any) -> list[float]:
    """TRL asks for a reward; `_compute_loss` is given advantages instead."""
    return [0.0] * len(completions)


def make_trl_trainer(name: str, directory: Path) -> GRPOTrainer:
    """TRL's trainer for a loss of the table, with all games in one batch."""
    settings = settings_of(name)
    trainer = GRPOTrainer(
        model(),
        reward_funcs=no_reward,
        args=GRPOConfig(
            output_dir=str(directory),
            per_device_train_batch_size=len(GAMES),
            num_generations=GROUP,
            max_completion_length=LONGEST,
            loss_type=settings.loss_type,
            **CLIP,
            use_cpu=True,
            bf16=False,
            report_to=[],
        ),
        train_dataset=Dataset.from_dict({"prompt": ["wordle"] * len(GAMES)}),
        processing_class=embedded_codec().tokenizer,
    )
    # Set here, or TRL would load a reference model; the table holds the reference's log-probabilities.
    trainer.beta = settings.beta
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer


def trl_batch(credit: str, table: Any) -> dict[str, torch.Tensor]:
    """The games in the tensors that TRL's loss takes: prompts padded on the left, completions on the right."""
    pad = embedded_codec().pad_id
    longest = max(len(prompt) for prompt, _ in table.tokens)
    completions = table.padded([completion for _, completion in table.tokens]).long()
    lengths = torch.tensor([len(completion) for _, completion in table.tokens])
    mask = table.padded(table.masks)
    return {
        "prompt_ids": torch.tensor([[pad] * (longest - len(p)) + p for p, _ in table.tokens]),
        "prompt_mask": torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p, _ in table.tokens]),
        "completion_ids": completions,
        "completion_mask": (torch.arange(completions.shape[1])[None] < lengths[:, None]).long(),
        "tool_mask": mask.long(),
        "advantages": table.padded([table.along(number, credit) for number in GAME_NUMBERS]),
        "old_per_token_logps": table.padded(table.sampler_logprobs),
        "ref_per_token_logps": table.padded(table.reference_logprobs),
        "num_items_in_batch": mask.sum(),
    }


def write_table() -> None:
    """Compute the table by TRL's trainer and transformers, and store it."""
    own = segments()
    stream = random.Random(0)
    policy, reference = full_logprobs(model()), full_logprobs(model(0.1))
    rewards = [list(values) for values in turn_rewards(played(embedded_codec()))]
    found = {
        "tokens": [[list(s.prompt_ids), list(s.token_ids)] for s in own],
        "masks": [list(s.loss_mask) for s in own],
        "masks_without_overlong": [mask_without_overlong(s, embedded_codec().stop_ids) for s in own],
        "rewards": rewards,
        "policy_logprobs": [[round(value, 6) for value in row] for row in policy],
        "reference_logprobs": [[round(value, 6) for value in row] for row in reference],
        "sampler_logprobs": [
            [round(value + stream.uniform(-0.4, 0.4), 6) if value else 0.0 for value in row] for row in policy
        ],
        "advantages": {
            f"{credit} {scale}": [
                list(values)
                for group in grouped([tuple(values) for values in rewards])
                for values in ESTIMATORS[credit](group, scale=scale)
            ]
            for credit, scale in CREDITS
        },
    }
    table = Expected(**found, losses={})
    losses = {}
    for name in LOSSES:
        with tempfile.TemporaryDirectory() as place:
            trainer = make_trl_trainer(name, Path(place))
            losses[name] = trainer._compute_loss(trainer.model, trl_batch("turn", table)).item()
    write(**found, losses=losses)


if __name__ == "__main__":
    sys.exit(write_table())
