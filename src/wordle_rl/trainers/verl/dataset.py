"""Secrets as parquet files in verl's columns: training secrets in a fixed order, and all validation secrets.

A row holds the opening prompt, which verl measures, and the secret, which goes to the agent loop and to no prompt.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordle_rl.config import RunConfig
from wordle_rl.config.context import GameContext

AGENT, TOOL_AGENT = "wordle", "wordle_tool"
"""Names of the agent loops: replies in tags, and guesses by tool calls."""


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The parquet files of a run."""

    train: Path
    val: Path


def rows_of(context: GameContext, secrets: Sequence[str], split: str, agent: str = AGENT) -> list[dict[str, Any]]:
    """One row per secret, in order.

    Args:
        context: Wording and rules of the opening prompt.
        secrets: The words to find.
        split: `train` or `val`.
        agent: Name of the agent loop that plays them.
    """
    prompt = [dict(message) for message in context.prompter.opening()]
    return [
        {
            "data_source": f"wordle_{split}",
            "agent_name": agent,
            "prompt": prompt,
            "secret": secret,
            "split": split,
            "reward_model": {"style": "rule", "ground_truth": secret},
            "extra_info": {"index": index, "split": split},
        }
        for index, secret in enumerate(secrets)
    ]


def write_data(config: RunConfig, context: GameContext, directory: Path, agent: str = AGENT) -> DataFiles:
    """Write the training and validation secrets of a run.

    Args:
        config: Its seed orders the training secrets.
        context: Words, split, prompts.
        directory: Where to; files of an earlier call are replaced by the same.
        agent: Name of the agent loop.

    Returns:
        The files. They never share a secret, and neither has one of the test split.
    """
    from datasets import Dataset

    train = list(context.split.train[: config.rl.max_secrets or None])
    random.Random(config.seed).shuffle(train)
    files = DataFiles(directory / "train.parquet", directory / "val.parquet")
    directory.mkdir(parents=True, exist_ok=True)
    for path, secrets, split in ((files.train, train, "train"), (files.val, context.split.val, "val")):
        Dataset.from_list(rows_of(context, secrets, split, agent)).to_parquet(path)
    return files
