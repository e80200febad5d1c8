"""Laws of the launch files for prime-rl and SkyRL: they name what is here, with the sizes of the recipe they claim."""

import importlib.util
import subprocess
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

from wordle_rl.config import load_config
from wordle_rl.integrations.games import LoopSettings, game_source

ROOT = Path(__file__).resolve().parents[2]
PRIME_RL = ROOT / "scripts" / "prime_rl" / "eight_gpus.toml"
SKYRL = ROOT / "scripts" / "skyrl"
RECIPE = load_config(ROOT / "configs" / "recipes" / "qwen2.5-0.5b.toml")
GAME_TOKENS = 4096


@pytest.fixture(scope="module")
def prime_rl() -> dict:
    return tomllib.loads(PRIME_RL.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def skyrl() -> dict:
    return yaml.safe_load((SKYRL / "eight_gpus.yaml").read_text(encoding="utf-8"))


def sources(prime_rl: dict) -> list[dict]:
    """Tasksets of training and evaluation."""
    orchestrator = prime_rl["orchestrator"]
    return [source["env"]["taskset"] for part in ("train", "eval") for source in orchestrator[part]["source"]]


def test_prime_rl_plays_our_taskset_on_the_recipes_games(prime_rl) -> None:
    package = tomllib.loads((ROOT / "environments" / "wordle" / "pyproject.toml").read_text(encoding="utf-8"))
    train, validation = sources(prime_rl)
    assert train["id"] == validation["id"] == package["project"]["name"]
    assert (train["split"], validation["split"]) == ("train", "val")
    for taskset in (train, validation):
        settings = LoopSettings.model_validate(taskset["settings"])
        assert (settings.game, settings.words) == (RECIPE.game, RECIPE.words)
        assert settings.rubric().weights == RECIPE.training.reward.schedule().rubric(None).weights


def test_prime_rl_has_the_recipes_sizes(prime_rl) -> None:
    ours, orchestrator = RECIPE.training, prime_rl["orchestrator"]
    assert orchestrator["batch_size"] == ours.groups_per_step * ours.group_size
    assert orchestrator["group_size"] == ours.group_size
    sampling = orchestrator["train"]["sampling"]
    assert sampling == {
        "temperature": ours.sampling.temperature,
        "max_completion_tokens": RECIPE.max_completion_tokens,
    }
    assert (prime_rl["max_steps"], prime_rl["ckpt"]["interval"]) == (ours.steps, ours.save_steps)
    assert (prime_rl["model"]["name"], prime_rl["trainer"]["optim"]["lr"]) == (
        RECIPE.model.path,
        ours.optimizer.learning_rate,
    )
    assert prime_rl["trainer"]["loss"]["kl_tau"] == ours.beta
    assert prime_rl["seq_len"] == GAME_TOKENS
    deployment = prime_rl["deployment"]
    assert deployment["num_train_gpus"] + deployment["num_infer_gpus"] == 8


def test_skyrl_plays_our_environment_on_the_recipes_games(skyrl) -> None:
    settings = LoopSettings.model_validate(skyrl["environment"]["skyrl_gym"]["wordle"])
    assert (settings.game, settings.words) == (RECIPE.game, RECIPE.words)
    assert settings.rubric().weights == RECIPE.training.reward.schedule().rubric(None).weights
    assert skyrl["generator"]["max_turns"] == settings.game.rules.max_replies
    adapter = (ROOT / "src" / "wordle_rl" / "integrations" / "skyrl_env.py").read_text(encoding="utf-8")
    assert f'ENV_ID = "{skyrl["environment"]["env_class"]}"' in adapter


def test_skyrl_has_the_recipes_sizes(skyrl) -> None:
    ours, trainer, generator = RECIPE.training, skyrl["trainer"], skyrl["generator"]
    assert (trainer["train_batch_size"], generator["n_samples_per_prompt"]) == (ours.groups_per_step, ours.group_size)
    assert trainer["micro_train_batch_size_per_gpu"] == ours.micro_batch_size
    assert trainer["policy"]["model"]["path"] == RECIPE.model.path
    assert trainer["policy"]["optimizer_config"]["lr"] == ours.optimizer.learning_rate
    assert trainer["algorithm"]["kl_loss_coef"] == ours.beta
    assert (trainer["max_training_steps"], trainer["ckpt_interval"]) == (ours.steps, ours.save_steps)
    reply = generator["sampling_params"]["max_generate_length"]
    assert reply == RECIPE.max_completion_tokens
    assert generator["max_input_length"] + reply == GAME_TOKENS
    secrets = len(game_source(skyrl["environment"]["skyrl_gym"]["wordle"]).context.split.train)
    assert trainer["epochs"] * (secrets // ours.groups_per_step) >= ours.steps


def test_the_script_of_skyrl_names_a_module_and_a_file_that_are_here() -> None:
    script = SKYRL / "eight_gpus.sh"
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    words = script.read_text(encoding="utf-8").split("exec ", 1)[1].split()
    assert words[:2] == ["python", "-m"]
    assert importlib.util.find_spec(words[2]) is not None
    assert (ROOT / words[3]).samefile(SKYRL / "eight_gpus.yaml")


def test_versions_are_named_in_the_files_and_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "other-trainers.md").read_text(encoding="utf-8")
    for path, version in ((PRIME_RL, "v0.8.1.dev67"), (SKYRL / "eight_gpus.yaml", "skyrl 0.3.0")):
        assert version in path.read_text(encoding="utf-8")
        assert version in guide
