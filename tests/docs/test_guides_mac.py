"""Laws of the guide to Macs: the program takes its config and commands; `make test-mlx` trains with them."""

import shlex
from pathlib import Path

import pytest
from pages import blocks

pytest.importorskip("torch")
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

from wordle_rl.cli import COMMANDS
from wordle_rl.cli.arguments import read
from wordle_rl.config.files import load_config
from wordle_rl.mlx import check_settings

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "mac.md"
LINES = [line for block in blocks(GUIDE, "bash") for line in block.splitlines() if line.startswith("wordle-rl ")]


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    (text,) = blocks(GUIDE, "toml")
    (tmp_path / "mac.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", LINES)
def test_a_command_is_understood_and_followed_by_mlx(workspace, line: str) -> None:
    name, *arguments = shlex.split(line)[1:]
    call = read(COMMANDS[name].load(), f"wordle-rl {name}", arguments)
    if name in ("run", "preflight"):
        bound = {**call.keywords}
        config = load_config(call.args[0] if call.args else bound["config"], bound["overrides"])
        assert config.backend == "mlx"
        check_settings(config)


def test_the_config_trains_a_small_gemma_as_published(workspace, word_directory, cli, codec) -> None:
    """Its vision tower and all, with the settings of the guide, made smaller."""
    pytest.importorskip("mlx")
    size = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**size, "num_key_value_heads": 1, "head_dim": 32, "vocab_size": len(codec.tokenizer),
            "max_position_embeddings": 4096, "layer_types": ["sliding_attention", "full_attention"],
            "pad_token_id": codec.pad_id, "eos_token_id": codec.turn_end_ids[0], "bos_token_id": None}  # fmt: skip
    vision = {**size, "image_size": 28, "patch_size": 14}
    whole = Gemma3ForConditionalGeneration(Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4))
    whole.bfloat16().save_pretrained("gemma")
    codec.tokenizer.save_pretrained("gemma")
    smaller = "--model.path gemma --traces.num-games 4 --model.max-length 4096 --grpo.steps 1 --grpo.groups-per-step 1 "
    smaller += "--eval.max-games 1 --max-completion-tokens 200 --grpo.max-refills 0 --out runs/gemma --words.source"
    for command in (
        ("run", "mac.toml", *smaller.split(), word_directory),
        ("export", "runs/gemma", "--out", "models/whole", "--backend", "mlx"),
        ("report", "runs/gemma", "--wins", "wins.svg"),
    ):
        code, _, err = cli(*command)
        assert code == 0, err
    assert (workspace / "runs/gemma/grpo/adapter_model.safetensors").is_file()
