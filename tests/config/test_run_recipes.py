"""Laws of the shipped files: every config trains a small model of its architecture, every launch file is understood."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser
from chat_families import family_tokenizer
from lora_training import FAMILIES, SIZE
from rich.console import Console
from training_fixtures import rows

from wordle_rl.chat.codec import ChatCodec, longest_game
from wordle_rl.chat.templates import training_template
from wordle_rl.config import RunConfig, Setting, load_config
from wordle_rl.pipeline import Pipeline
from wordle_rl.policy.base import Completion
from wordle_rl.policy.loading import save_model
from wordle_rl.rollout import InitialState, play

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "src" / "wordle_rl" / "config" / "presets"
RECIPES = sorted(CONFIGS.rglob("*.toml"))
LAUNCHES = sorted((ROOT / "scripts" / "launch").glob("*.yaml"))

QUICK = {"quickstart", "qwen2.5-1.5b-lora"}
"""Configs of a whole model and of an adapter, which train in the quick tests; the others are `slow`."""

SMALL: dict[str, dict[str, Any]] = {
    "model": {"max_length": 8192, "hidden_size": 32, "num_layers": 1, "micro_batch_size": 3},
    "traces": {"num_games": 12},
    "sft": {"batch_size": 6, "epochs": 1},
    "rl": {"group_size": 2},
    "grpo": {"steps": 1, "groups_per_step": 1},
    "eval": {"max_games": 1},
}
"""What is made smaller; all else is as the file says."""


def small(path: Path, word_directory: Path, model: str) -> RunConfig:
    options: dict[Setting, Any] = {(section, n): v for section, changes in SMALL.items() for n, v in changes.items()}
    if load_config(path).algorithm != "grpo":
        options |= {("rl", "rounds"): 1, ("rl", "groups_per_round"): 2}
    return load_config(
        path,
        {
            **options,
            ("model", "path"): model,
            ("words", "source"): str(word_directory),
            ("max_completion_tokens",): 16,
            ("traces", "narrate"): False,  # no thought fits such a reply
            ("rl", "starts", "max_prefix_guesses"): 0,
            ("traces", "teacher", "opener"): None,  # the small list need not hold it
        },
    )


def model_like(name: str, codec, directory: Path) -> str:
    """A small random model of the architecture that a hub name stands for."""
    if name == "tiny":
        return name
    family = "qwen3" if "Qwen3" in name else "qwen2"
    config_class, model_class = FAMILIES[family]
    size = {k: v for k, v in SIZE.items() if family == "qwen3" or k != "head_dim"}
    size |= {"num_hidden_layers": 1, "max_position_embeddings": 8192}
    special = {"pad_token_id": codec.tokenizer.pad_token_id, "eos_token_id": codec.tokenizer.eos_token_id}
    model = model_class(config_class(vocab_size=len(codec.tokenizer), bos_token_id=None, **size, **special))
    save_model(model, codec, directory)
    return str(directory)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow]) for path in RECIPES],
)
def test_every_shipped_config_trains(path: Path, codec, word_directory, tmp_path) -> None:
    shipped = load_config(path)
    config = small(path, word_directory, model_like(shipped.model.path, codec, tmp_path / "model"))
    Pipeline(config, tmp_path / "run", Console(quiet=True))()
    found = rows(tmp_path / "run" / "metrics.jsonl")
    validates = shipped.algorithm == "grpo" and shipped.grpo.validate_every_steps
    stages = {"sft", shipped.algorithm} | ({"validation"} if validates else set())
    assert {row["stage"] for row in found} == stages | (
        {"blend"} if min(shipped.grpo.interpolation_alphas) < 1 else set()
    )
    assert not [row for row in found if "skipped_steps" in row]
    adapters = shipped.model.lora.rank > 0
    weights = "adapter_model.safetensors" if adapters else "model.safetensors"
    assert (tmp_path / "run" / shipped.algorithm / weights).is_file()
    assert (tmp_path / "run" / "eval" / f"{shipped.algorithm}.json").is_file()
    assert (tmp_path / "run" / "sft" / "epochs" / "epoch-1").is_dir() == shipped.sft.save_each_epoch


class Wordy:
    """Uses every reply's budget to its last token, on listed words that are not the secret."""

    def __init__(self, codec: ChatCodec, guesses: list[str], budget: int) -> None:
        self.codec, self.guesses, self.budget = codec, guesses, budget

    def begin(self) -> None:
        pass

    def sample(self, requests) -> list[Completion]:
        return [self._reply(self.guesses[len(request.turns)]) for request in requests]

    def _reply(self, guess: str) -> Completion:
        begin, end = self.codec.encode("<think>"), self.codec.reply_ids(f"</think><guess>{guess}</guess>")
        thought = self.codec.encode("a") * (self.budget - len(begin) - len(end))
        ids = (*begin, *thought, *end)
        text = self.codec.tokenizer.decode(ids[:-1])
        assert len(ids) == self.budget
        return Completion(text, ids, (0.0,) * len(ids))


def test_no_game_of_the_larger_recipe_is_longer_than_the_4096_tokens_it_promises(default_words) -> None:
    """With Qwen3's own template over a vocabulary of 365 tokens, so that texts take more of them than Qwen3 needs."""
    recipe = load_config(CONFIGS / "qwen3-4b.toml")
    tokenizer = family_tokenizer("qwen3")
    tokenizer.chat_template = training_template(tokenizer, recipe.model.template_kwargs)
    codec, prompter = ChatCodec(tokenizer), recipe.game.prompter(5)
    budget = recipe.max_completion_tokens
    bound = longest_game(default_words, prompter, codec, budget)
    assert bound <= 4096

    guesses = [word for word in default_words.guesses if word not in default_words.answer_index]
    secrets = default_words.answers[::100]
    games = play([InitialState(secret) for secret in secrets], default_words, prompter, Wordy(codec, guesses, budget))
    assert {len(game.transcript.turns) for game in games} == {6}
    lengths = {len(s.prompt_ids) + len(s.token_ids) for game in games for s in game.segments}
    assert min(lengths) > 6 * budget
    assert max(lengths) <= bound


@pytest.mark.parametrize("path", LAUNCHES, ids=lambda path: path.stem)
def test_every_launch_file_is_understood_by_accelerate(path: Path) -> None:
    config = load_config_from_file(str(path))
    assert config.num_processes == 2
    options = {option.dest for option in launch_command_parser()._actions}
    written = yaml.safe_load(path.read_text())
    assert set(written.get("fsdp_config", {})) <= options
    assert path.read_text().startswith("# ")
