"""Our command for verl on a CPU: a tiny Qwen3 with the published template guesses by calls and learns from them."""

import json
import random
import sys
from pathlib import Path

import pytest

pytest.importorskip("verl")

import torch
from chat_families import family_config, family_tokenizer
from safetensors.torch import load_file
from training_fixtures import write_config
from transformers import AutoTokenizer, Qwen3ForCausalLM
from verl_cluster import train

from wordle_rl.chat.masks import encode_game
from wordle_rl.env import WordleEnv
from wordle_rl.runs import read_jsonl
from wordle_rl.trainers.verl.play import ToolCodec, ToolPrompter
from wordle_rl.words import load_words

pytestmark = pytest.mark.slow

TEMPLATES = Path(sys.prefix) / "templates"
"""TRL's published chat templates, see `test_tool.py`."""
STEPS = 2
OPTIONS = (
    "--tool", "--max-prompt-tokens", "320", "--max-response-tokens", "640",
    "--validate-every-steps", "2",
)  # fmt: skip


def make_caller(directory: Path, words_directory: Path) -> None:
    """Save a Qwen3 of two layers that was random, and has learnt to call the tool with some word most of the time."""
    prompter, words = ToolPrompter(), load_words(str(words_directory))
    plain = ToolCodec(family_tokenizer("qwen3"))
    opening = plain.tokenizer.decode(plain.prompt_ids(prompter.opening()))
    tokenizer = family_tokenizer("qwen3", texts=(opening, *map(prompter.reply, words.answers)))
    codec = ToolCodec(tokenizer)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(family_config("qwen3", len(tokenizer), attn_implementation="eager"))
    games, rng = [], random.Random(0)
    for secret in words.answers[:4]:
        env = WordleEnv(secret, words, prompter)
        guesses = rng.sample([word for word in words.answers if word != secret], 2)
        dialogue = [*env.conversation]
        for guess in guesses:
            reply = prompter.reply(guess)
            dialogue += [{"role": "assistant", "content": reply}, *env.step(reply).messages]
        games.append(encode_game(codec, dialogue))
    longest = max(len(ids) for ids, _ in games)
    ids = torch.tensor([row + [0] * (longest - len(row)) for row, _ in games])  # (games, tokens)
    mask = torch.tensor([row + [0] * (longest - len(row)) for _, row in games])
    labels = ids.masked_fill(mask == 0, -100)[:, 1:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(300):
        logits = model(ids).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


@pytest.fixture(scope="module")
def trained(cluster, tmp_path_factory, word_directory) -> Path:
    """A run of two steps with a validation before and after, without SFT."""
    directory = tmp_path_factory.mktemp("tool")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TEMPLATES))
        make_caller(directory / "model", word_directory)
    changes = {
        "max_completion_tokens": "32",
        "game__style": '"english"',
        "game__thinking": '"optional"',
        "stages": '["grpo"]',
        "model__path": json.dumps(str(directory / "model")),
        "model__attn_implementation": '"eager"',
        "model__max_length": "1024",
        "grpo__steps": str(STEPS),
        "grpo__reward__weights": "{ win = 1.0, format = 0.5, greens = 0.5 }",
    }
    config = write_config(directory / "tool.toml", word_directory, **changes)
    train(config, directory / "run", cluster, "data.val_batch_size=null", options=OPTIONS)
    return directory / "run"


def turns(run: Path, stage: str) -> list[dict]:
    rows = [row for row in read_jsonl(run / "games.jsonl") if row["stage"] == stage]
    assert rows
    return [turn for row in rows for turn in row["turns"]]


def test_calls_are_guesses_that_are_marked_and_rewarded(trained) -> None:
    played = [turn for turn in turns(trained, "grpo/validation") if turn["marks"]]
    assert len(played) >= 4
    assert all(len(turn["guess"]) == len(turn["marks"]) == 5 for turn in played)
    assert any(turn["reward"] > 0 for turn in played)


def test_the_model_learns_from_calls_and_keeps_its_template(trained) -> None:
    rows = [row for row in read_jsonl(trained / "metrics.jsonl") if row["stage"] == "grpo"]
    assert [row["step"] for row in rows] == [1, 2]
    assert any(row["grad_norm"] > 0 for row in rows)
    start = Path(json.loads((trained / "config.json").read_text())["model"]["path"])
    before, after = (load_file(path / "model.safetensors") for path in (start, trained / "grpo"))
    assert any(not before[name].equal(after[name]) for name in before)
    templates = [AutoTokenizer.from_pretrained(path).chat_template for path in (start, trained / "grpo")]
    assert templates[0] == templates[1]
    assert "<tool_call>" in templates[1]
