"""Law of commands that a guide shows and no test can start: their parsers read them, and they go together."""

import shlex
import shutil
from itertools import takewhile
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("openai")

from accelerate.commands.launch import launch_command_parser
from markdown_blocks import blocks

from wordle_rl.cli import main
from wordle_rl.cli import run as run_command
from wordle_rl.config import PRESETS_DIRECTORY

ROOT = Path(__file__).resolve().parents[2]
EIGHT_GPUS = ROOT / "docs" / "guides" / "eight-gpus.md"


def split_variables(command: str) -> tuple[dict[str, str], list[str]]:
    """The variables set before a command, and its words."""
    words = shlex.split(command)
    given = list(takewhile(lambda word: "=" in word and word.split("=")[0].isupper(), words))
    return dict(word.split("=", 1) for word in given), words[len(given) :]


@pytest.mark.parametrize("ahead", [0, 1])
def test_the_commands_of_a_server_that_plays_go_together(ahead: int, tmp_path, monkeypatch) -> None:
    (text,) = blocks(EIGHT_GPUS, "text")
    (_, sft), (player, serve), (trainer, launch) = map(split_variables, text.replace("\\\n", " ").splitlines())
    for command in (sft, launch):
        command += ["--grpo.batches-ahead", str(ahead)]
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(PRESETS_DIRECTORY / "qwen3-1.7b.toml", tmp_path / "CONFIG.toml")
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(run_command, "run_chain", lambda config, out, *_: asked.append((config, out)))
    launched = launch_command_parser().parse_args(launch[2:])
    assert (launched.module, launched.training_script) == (True, "wordle_rl")
    assert Path(launched.config_file).is_file()
    assert [main(words) for words in (sft[1:], launched.training_script_args)] == [0, 0]
    (first, _), (second, out) = asked
    assert first == second, "a run directory has one set of settings"
    assert second.grpo.server == "http://localhost:8000"
    assert second.grpo.batches_ahead == ahead

    assert serve[:2] == ["scripts/vllm_server.sh", f"{out}/sft"]
    assert "--port 8000" in (ROOT / serve[0]).read_text()
    places = [variables["CUDA_VISIBLE_DEVICES"].split(",") for variables in (player, trainer)]
    assert not set(places[0]) & set(places[1])
    assert [len(place) for place in places] == [
        int(serve[serve.index("--tensor-parallel-size") + 1]), launched.num_processes,
    ]  # fmt: skip
