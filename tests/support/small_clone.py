"""A directory like a clone of the repository in which documented commands run, on small models and few words."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from chat_families import family_config, family_tokenizer
from shards import write_shards
from transformers import AutoModelForCausalLM

from wordle_rl.chat.templates import training_template
from wordle_rl.cli import COMMANDS, main, run
from wordle_rl.cli.arguments import read
from wordle_rl.config.run import RunConfig
from wordle_rl.policy.providers import PROVIDERS

ROOT = Path(__file__).resolve().parents[2]

HUB = {
    "Qwen/Qwen3-1.7B": "qwen3",
    "Qwen/Qwen3-4B": "qwen3",
    "USER/wordle-grpo-Qwen3-1.7B": "qwen3",
    "Qwen/Qwen2.5-0.5B-Instruct": "qwen2.5",
    "Qwen/Qwen2.5-1.5B-Instruct": "qwen2.5",
    "Qwen/Qwen2.5-3B-Instruct": "qwen2.5",
}
"""Hub name -> chat family of the small model in its place."""

_RUN = (
    "--traces.num-games 8 --model.micro-batch-size 4 --eval.max-games 1 --model.max-length 8192 "
    "--model.hidden-size 32 --model.num-layers 1"
)
SMALLER = {
    **dict.fromkeys(("run", "preflight"), f"{_RUN} --words.source {{words}} --traces.teacher.opener {{listed}}"),
    "eval": "--max-games 1 --max-completion-tokens 16 --no-regret --words {words}",
    "play": "--max-completion-tokens 16 --secret {listed} --words {words}",
    "traces": "--words {words}",
    "dataset": "--words {words}",
    "rewards": "--answers 20 --secrets 2 --steps 1",
}
"""Command -> settings appended to it; a later setting counts more than an earlier one."""
STAGES = {
    "sft": "--sft.batch-size 8",
    "grpo": "--grpo.steps 1 --grpo.groups-per-step 1 --grpo.group-size 4 --grpo.max-refills 0",
    "expert_iteration": "--expert-iteration.rounds 1 --expert-iteration.groups-per-round 8",
    "dpo": "--dpo.rounds 1 --dpo.groups-per-round 8",
    "distill": "--distill.rounds 1 --distill.groups-per-round 8",
}
"""Stage -> settings appended to the commands that have it."""

LONGEST = 128  # tokens of a reply where a command would allow more

SERVING = {"serve", "watch"}  # run until they are stopped; their options are read


class Workspace:
    """What commands run with, one after the other in a directory that `stock` has filled.

    Every provider of models is the server at `endpoint`.
    """

    def __init__(self, words: Path, endpoint: str, cli: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
        self.words, self.endpoint, self.cli, self.monkeypatch = words, endpoint, cli, monkeypatch
        for name, provider in PROVIDERS.items():
            monkeypatch.setitem(PROVIDERS, name, replace(provider, base_url=endpoint))

    def wordle_rl(self, arguments: list[str]) -> None:
        name = arguments[0]
        if name in SERVING and "--export" not in arguments:
            read(COMMANDS[name].load(), f"wordle-rl {name}", arguments[1:])
            return
        added = self.smaller(name, arguments)
        if name == "export" and "checkpoint" in arguments[1]:
            make_shards(Path(arguments[1]))
        code, out, err = self.cli(*arguments, *added)
        assert code == 0, (arguments, err, out[-2000:])

    def smaller(self, name: str, arguments: list[str]) -> list[str]:
        """What is appended to a command."""
        listed = (self.words / "answers.txt").read_text().split()[0]
        added = SMALLER.get(name, "").format(words=self.words, listed=listed).split()
        if (given := {"--words", "--words.source"}) & {*arguments}:  # small ones of a test
            added = [word for before, word in pairwise(["", *added]) if not {before, word} & given]
        if name == "traces":
            added += ["--max-secrets", "2"] if "openai" in arguments else ["--num-games", "24"]
        if name == "preflight" and "--groups 0" not in " ".join(arguments):
            added += ["--groups", "1"]
        if name in ("run", "preflight"):
            settings = self.settings(arguments)
            if settings.max_completion_tokens > LONGEST:
                added.append(f"--max-completion-tokens={LONGEST}")
            added += [word for stage in settings.stages for word in STAGES[stage].split()]
        return added

    def settings(self, arguments: list[str]) -> RunConfig:
        """What the command asks for as it is written, at full size; its settings must go together."""
        asked: list[RunConfig] = []
        with self.monkeypatch.context() as patch:
            patch.setattr(run, "run_chain", lambda config, *_: asked.append(config))
            patch.setattr(run, "look_at", lambda config, *_: asked.append(config))
            assert main(arguments) == 0, arguments
        assert len(asked) == 1
        path = asked[0].model.path
        assert path in ("tiny", "bundled") or Path(path).is_dir(), path
        return asked[0]


def stock(root: Path) -> None:
    """Fill a directory with what a clone of the repository and the hub have for commands."""
    shutil.copytree(ROOT / "scripts", root / "scripts")
    for name, family in HUB.items():
        make_model(root / name, family)


def make_model(directory: Path, family: str) -> None:
    """A small random model of a family, as the hub would give it."""
    tokenizer = family_tokenizer(family)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = family_config(family, len(tokenizer), num_hidden_layers=1, max_position_embeddings=16_384)
        AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def make_shards(checkpoint: Path) -> None:
    """A checkpoint as FSDP leaves it: shards, config and tokenizer."""
    tokenizer = family_tokenizer("qwen3")
    tokenizer.chat_template = training_template(tokenizer, {})
    config = family_config("qwen3", len(tokenizer))
    checkpoint.mkdir(parents=True)
    config.save_pretrained(checkpoint)
    tokenizer.save_pretrained(checkpoint)
    write_shards(AutoModelForCausalLM.from_config(config).state_dict(), checkpoint)
