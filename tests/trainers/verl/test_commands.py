"""Laws of `python -m wordle_rl.trainers.verl` before it trains: its overrides, and the scripts that launch it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("verl")

from lora_training import save_base
from training_fixtures import write_config
from verl_games import verl_run

from wordle_rl.trainers.verl.__main__ import main
from wordle_rl.trainers.verl.settings import VerlSettings

SCRIPTS = Path(__file__).parents[3] / "scripts" / "verl"
RECORDING = '#!/usr/bin/env bash\necho "$(basename "$0") $* [${RAY_AUTH_MODE-}|${RAY_AUTH_TOKEN_PATH-}]" >> "$CALLS"\n'


def test_one_command_translates_a_config_for_several_nodes(tmp_path, word_directory, capsys) -> None:
    changes = {"grpo__groups_per_step": "8"}
    run = verl_run(tmp_path / "run", word_directory, **changes)
    config = write_config(tmp_path / "mini.toml", word_directory, **changes)
    code = main([str(config), "--out", str(run), "--nodes", "4", "--max-response-tokens", "60", "--show"])
    shown, said = capsys.readouterr()
    assert code == 0
    assert {"++trainer.nnodes=4", "++data.train_batch_size=8", "++data.max_response_length=60"} <= set(shown.split())
    assert "may come to" in said
    assert not (run / "grpo").exists()


def test_what_is_shown_or_refused_leaves_no_run_behind(tmp_path, word_directory, codec, capsys) -> None:
    base = save_base(tmp_path / "base", codec)
    changes = {"grpo__groups_per_step": "8", "stages": '["grpo"]', "model__path": json.dumps(str(base))}
    config = write_config(tmp_path / "mini.toml", word_directory, **changes)
    show = [str(config), "--out", str(tmp_path / "run"), "--show"]
    assert main([*show, "--max-prompt-tokens", "1"]) == 2
    assert "--max-prompt-tokens" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert main(show) == 0
    assert not (tmp_path / "run").exists()


def test_a_missing_server_is_found_before_ray_starts(tmp_path, word_directory, capsys, monkeypatch) -> None:
    monkeypatch.delenv("VERL_USE_EXTERNAL_MODULES", raising=False)
    config = write_config(tmp_path / "mini.toml", word_directory, grpo__groups_per_step="8")
    assert main([str(config), "--out", str(tmp_path / "run"), "--rollout", "sglang"]) == 2
    assert "sglang" in capsys.readouterr().err


@pytest.fixture
def launched(tmp_path):
    """Start a script beside programs that only write down how they were called; exit code, calls and messages."""
    programs, calls, token = tmp_path / "bin", tmp_path / "calls", tmp_path / "auth_token"
    programs.mkdir()
    token.write_text("0123")
    for name in ("ray", "sleep"):
        (programs / name).write_text(RECORDING)
    # The cluster has as many nodes as somebody has waited for.
    (programs / "python").write_text(
        f'#!/usr/bin/env bash\nif [ "$1" = -m ]; then\n{RECORDING}else\ngrep -c "^sleep" "$CALLS" || true\nfi\n'
    )
    for program in programs.iterdir():
        program.chmod(0o755)

    def start(script: str, *arguments: str, **variables: str) -> tuple[int, list[str], str]:
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        given = {**os.environ, "PATH": path, "CALLS": str(calls), "RAY_AUTH_TOKEN_PATH": str(token), **variables}
        given.pop("RAY_AUTH_MODE", None)
        done = subprocess.run([SCRIPTS / script, *arguments], env=given, capture_output=True, text=True, check=False)
        return done.returncode, calls.read_text().splitlines() if calls.exists() else [], done.stderr

    return start


@pytest.mark.parametrize("script", ["one_gpu.sh", "eight_gpus.sh"])
def test_a_script_gives_the_command_options_that_it_has(launched, script) -> None:
    code, [call], _ = launched(script, "my.toml", "runs/my", "--seed", "3")
    assert code == 0
    assert call.startswith("python -m wordle_rl.trainers.verl my.toml --out runs/my ")
    assert "--seed 3" in call
    names = {word.removeprefix("--").replace("-", "_") for word in call.split() if word.startswith("--")}
    assert names - set(VerlSettings.model_fields) <= {"out", "report_to", "seed"}


def test_the_first_of_several_machines_waits_for_the_others_and_trains(launched) -> None:
    machines = {"NODE_RANK": "0", "NODES": "3", "HEAD": "10.0.0.1"}
    code, calls, _ = launched("nodes.sh", "my.toml", "runs/my", **machines)
    assert code == 0
    assert [call.split()[0] for call in calls] == ["ray", "sleep", "sleep", "sleep", "python", "ray"]
    assert calls[0].startswith("ray start --head --node-ip-address 10.0.0.1 --port 6379 --num-gpus 8")
    assert calls[4].startswith("python -m wordle_rl.trainers.verl my.toml --out runs/my --nodes 3 --gpus-per-node 8")
    assert calls[5].startswith("ray stop")


def test_machines_that_never_come_end_the_wait(launched) -> None:
    machines = {"NODE_RANK": "0", "NODES": "9", "HEAD": "10.0.0.1", "NODE_WAIT_TRIES": "3"}
    code, calls, said = launched("nodes.sh", "my.toml", "runs/my", **machines)
    assert code == 1
    assert [call.split()[:2] for call in calls] == [["ray", "start"], *[["sleep", "5"]] * 2, ["ray", "stop"]]
    assert "fewer than 9 machines" in said


@pytest.mark.parametrize("rank", ["0", "1"])
def test_every_machine_asks_for_the_token(launched, tmp_path, rank) -> None:
    given = {"NODE_RANK": rank, "NODES": "0", "HEAD": "10.0.0.1"}
    _, calls, _ = launched("nodes.sh", "my.toml", "runs/my", **given)
    assert all(call.endswith(f"[token|{tmp_path / 'auth_token'}]") for call in calls)
    (tmp_path / "calls").unlink()
    (tmp_path / "auth_token").write_text("")
    code, calls, said = launched("nodes.sh", "my.toml", "runs/my", **given)
    assert (code, calls) == (2, [])
    assert "no token" in said
