"""Laws of the guide to other trainers: its examples run (`make test-trainers`; TRL's: `make test-all`)."""

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pages import blocks

pytest.importorskip("torch")
pytest.importorskip("openai")

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "other-trainers.md"
EXAMPLES = blocks(GUIDE, "python")
TRL = "from trl import"


@pytest.mark.trainers
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("text", [text for text in EXAMPLES if TRL not in text])
def test_an_example_runs(text: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(text, GUIDE.name, "exec"), {})


@pytest.mark.trainers
def test_vf_eval_understands_the_command(tmp_path: Path) -> None:
    (text,) = [text for text in blocks(GUIDE, "bash") if "vf-eval" in text]
    (command,) = [line for line in text.replace("\\\n", " ").splitlines() if line.startswith("vf-eval")]
    program = Path(sys.executable).parent / "vf-eval"
    arguments = [program, *shlex.split(command)[1:], "--dry-run", "-o", tmp_path]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.trainers
@pytest.mark.filterwarnings("default")
def test_verifiers_and_renderers_understand_the_sections_for_prime_rl() -> None:
    from renderers import Qwen3RendererConfig
    from verifiers.v1.utils.loaders import resolve_env_config

    (text,) = blocks(GUIDE, "toml")
    orchestrator = tomllib.loads(text)["orchestrator"]
    (source,) = orchestrator["train"]["source"]
    env = resolve_env_config(source["env"])
    assert (env.taskset.max_given, env.taskset.settings.reward_preset) == (2, "strict_xml")
    assert env.agent.harness.id == "null"
    assert Qwen3RendererConfig(**orchestrator["renderer"]).thinking_retention == "all"


@pytest.mark.trainers
@pytest.mark.filterwarnings("default")
def test_nemo_gym_understands_the_section_of_the_server() -> None:
    from responses_api_agents.gymnasium_agent.app import GymnasiumAgentConfig
    from yaml import safe_load

    from wordle_rl.trainers.nemo_gym import WordleServerConfig

    (text,) = blocks(GUIDE, "yaml")
    config, launched = safe_load(text), {"name": "wordle", "host": "", "port": 0}
    server = WordleServerConfig(**config["wordle"]["resources_servers"]["wordle"], **launched)
    assert server.wordle.reward_preset == "strict_xml"
    agent = GymnasiumAgentConfig(
        **config["wordle_gymnasium_agent"]["responses_api_agents"]["gymnasium_agent"], **launched
    )
    assert agent.max_steps == server.wordle.game.max_turns


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_example_for_trl_trains_a_step(game_server, tmp_path: Path, monkeypatch) -> None:
    """On a small model, which says little, against a server of this test."""
    pytest.importorskip("trl")
    from chat_families import family_config, family_tokenizer
    from other_loops import SETTINGS
    from transformers import AutoModelForCausalLM

    from wordle_rl.trainers.games import BoardTask, game_source

    (text,) = [text for text in EXAMPLES if TRL in text]
    tokenizer = family_tokenizer("qwen3")
    model = AutoModelForCausalLM.from_config(family_config("qwen3", len(tokenizer)))
    for part in (tokenizer, model):
        part.save_pretrained(tmp_path / "Qwen/Qwen3-1.7B")
    size = "num_generations=8, max_completion_length=4096, max_steps=100"
    smaller = "num_generations=2, max_completion_length=16, max_steps=1, per_device_train_batch_size=2, "
    smaller += "use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[]"
    assert size in text
    text = text.replace(size, smaller).replace("http://127.0.0.1:8000", game_server)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    scope: dict = {}
    exec(compile(text, GUIDE.name, "exec"), scope)
    (row,) = [row for row in scope["trainer"].state.log_history if "reward" in row]
    forfeited = game_source(SETTINGS).open(BoardTask(index=0))
    assert row["reward"] == pytest.approx(sum(forfeited.step("").reward for _ in range(6)), abs=1e-6)
    assert row["step"] == 1
