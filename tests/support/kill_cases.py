"""The commands that are killed: each a few seconds long, and with every kind of file that it may write."""

import shutil
from functools import partial
from pathlib import Path

from kills import Case
from training_fixtures import begun, write_config

from wordle_rl.config.files import load_config
from wordle_rl.words import load_words

BEGINS_WINNING = {"model__path": '"bundled"'}
"""A start for what learns from the policy's own wins or better guesses; the SFT of the miniature has none."""
LEARNT = {"expert_iteration": "own_examples", "dpo": "pairs"}
"""The metric of a round that counts what it learns from the policy's own games."""

TRAININGS: dict[str, dict[str, str]] = {
    "sft": {
        "sft__epochs": "2.0",
        "sft__save_steps": "3",
        "sft__save_each_epoch": "true",
        "sft__validations_per_epoch": "2",
    },
    "grpo": {
        "grpo__steps": "7",
        "grpo__save_steps": "2",
        "grpo__validate_every_steps": "3",
        "grpo__interpolation_alphas": "[0.5, 1.0]",
        "grpo__probe_every_steps": "4",
        "grpo__prioritized_fraction": "0.5",
        "grpo.reward__preset": '"shaped_curriculum"',
    },
    "expert_iteration": {
        **BEGINS_WINNING,
        "stages": '["expert_iteration"]',
        "expert_iteration__rounds": "3",
        "expert_iteration__groups_per_round": "8",
    },
    "dpo": {
        **BEGINS_WINNING,
        "stages": '["dpo"]',
        "dpo__rounds": "3",
        "dpo__groups_per_round": "8",
    },
    "distill": {
        "stages": '["sft", "distill"]',
        "distill__rounds": "3",
        "distill__groups_per_round": "16",
    },
}
"""Settings of each training that differ from those of `write_config`."""

KILLS = {
    "traces": 12,
    "traces-openai": 10,
    "sft": 12,
    "grpo": 14,
    "expert_iteration": 10,
    "dpo": 10,
    "distill": 10,
    "eval": 6,
    "eval-openai": 8,
    "run": 8,
}
"""Of a hundred kills in all, how many are of each command; those of the server are counted in its own test."""


def make_case(name: str, words: Path, taught: Path, address: str) -> Case:
    """A command to kill.

    Args:
        name: One of `KILLS`.
        words: Directory of a small word list.
        taught: A run that is finished up to SFT, whose games and model the others begin with, unless `BEGINS_WINNING`.
        address: Of an endpoint that plays.
    """
    listed = ("--words", str(words))
    asked = (*listed, "--base-url", address)
    many = ("--num-games", "12300", "--pseudo-secrets", "--teacher.opener", "None")
    arguments = {
        "traces": ("traces", "--out", "games.jsonl", *listed, *many),
        "traces-openai": (*("traces", "--teacher", "openai", "--model", "m", "--out", "llm.jsonl"), *asked),
        "eval": ("eval", "--player", "solver", "--out", "solver.json", "--split", "all", *listed),
        "eval-openai": ("eval", "--player", "openai:m", "--out", "llm.json", "--split", "all", *asked),
        "run": ("run", "config.toml", "--out", "run"),
    }
    command = arguments.get(name, ("run", "config.toml", "--out", "run", "--until", name))
    return Case(name, command, partial(_prepare, name, words, taught), frozenset({"llm.jsonl", "llm.games.jsonl"}))


def _prepare(name: str, words: Path, taught: Path, directory: Path) -> None:
    """Write what a command begins with into its directory."""
    if name == "run":
        write_config(directory / "config.toml", words, **{**TRAININGS["grpo"], "grpo__steps": "1"})
    elif name in LEARNT:
        # The model guesses words of its own list, so all of them can be guessed.
        (directory / "words").mkdir()
        shutil.copy(words / "answers.txt", directory / "words")
        (directory / "words" / "guesses.txt").write_text("\n".join(load_words().guesses) + "\n")
        write_config(directory / "config.toml", Path("words"), **TRAININGS[name])
    elif name in TRAININGS:
        write_config(directory / "config.toml", words, **TRAININGS[name])
    if name in TRAININGS and name not in ("sft", *LEARNT):
        begun(load_config(directory / "config.toml"), directory / "run", taught)
