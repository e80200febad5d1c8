"""Laws of the launch files for prime-rl and SkyRL: their settings are read, and they name what is here."""

import importlib.util
import subprocess
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

from wordle_rl.integrations.games import LoopSettings

ROOT = Path(__file__).resolve().parents[2]
PRIME_RL = ROOT / "scripts" / "prime_rl" / "eight_gpus.toml"
SKYRL = ROOT / "scripts" / "skyrl"


def test_the_settings_for_prime_rl_make_games_of_our_taskset() -> None:
    package = tomllib.loads((ROOT / "environments" / "wordle" / "pyproject.toml").read_text(encoding="utf-8"))
    orchestrator = tomllib.loads(PRIME_RL.read_text(encoding="utf-8"))["orchestrator"]
    tasksets = [source["env"]["taskset"] for part in ("train", "eval") for source in orchestrator[part]["source"]]
    assert [taskset["split"] for taskset in tasksets] == ["train", "val"]
    for taskset in tasksets:
        assert taskset["id"] == package["project"]["name"]
        assert LoopSettings.model_validate(taskset["settings"]).rubric().weights


def test_the_settings_for_skyrl_make_games_with_room_for_every_reply() -> None:
    config = yaml.safe_load((SKYRL / "eight_gpus.yaml").read_text(encoding="utf-8"))
    settings = LoopSettings.model_validate(config["environment"]["skyrl_gym"]["wordle"])
    assert settings.rubric().weights
    assert config["generator"]["max_turns"] == settings.game.rules.max_replies


def test_the_script_of_skyrl_names_a_module_and_a_file_that_are_here() -> None:
    script = SKYRL / "eight_gpus.sh"
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    words = script.read_text(encoding="utf-8").split("exec ", 1)[1].split()
    assert words[:2] == ["python", "-m"]
    assert importlib.util.find_spec(words[2]) is not None
    assert (ROOT / words[3]).samefile(SKYRL / "eight_gpus.yaml")
