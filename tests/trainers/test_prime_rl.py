"""Laws of the launch file for prime-rl: verifiers and renderers take their sections. `make test-trainers`."""

import tomllib
from pathlib import Path

import pytest

pytest.importorskip("verifiers")

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("default")]
FILE = Path(__file__).resolve().parents[2] / "scripts" / "prime_rl" / "eight_gpus.toml"


def test_verifiers_finds_our_environment_for_every_source() -> None:
    from verifiers.v1.utils.loaders import resolve_env_config

    from wordle_rl.trainers.verifiers import WordleTaskset

    orchestrator = tomllib.loads(FILE.read_text(encoding="utf-8"))["orchestrator"]
    for part, split in (("train", "train"), ("eval", "val")):
        (source,) = orchestrator[part]["source"]
        env = resolve_env_config(source["env"])
        assert env.agent.harness.id == "null"
        assert (env.taskset.split, env.taskset.settings.game.max_turns) == (split, 6)
        task = next(iter(WordleTaskset(env.taskset).load()))
        assert (task.data.split, task.data.index) == (split, 0)


def test_renderers_takes_the_section_of_the_renderer() -> None:
    from pydantic import TypeAdapter
    from renderers import DefaultRendererConfig, RendererConfig

    section = tomllib.loads(FILE.read_text(encoding="utf-8"))["orchestrator"]["renderer"]
    assert isinstance(TypeAdapter(RendererConfig).validate_python(section), DefaultRendererConfig)
