"""Laws of the launch under SkyRL: its own configuration takes ours, with a recipe's sizes. `make test-trainers`."""

import json
import sys
import typing
from pathlib import Path

import pytest
import typing_extensions

skyrl_gym = pytest.importorskip("skyrl_gym")

from wordle_rl.config import ConfigError
from wordle_rl.trainers.games import game_source
from wordle_rl.trainers.skyrl import ENV_ID, WordleSkyRLEnv, register

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("default")]
ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "scripts" / "skyrl" / "eight_gpus.yaml"


@pytest.fixture
def module(monkeypatch):
    if sys.version_info < (3, 12):  # SkyRL's own requirement; pydantic refuses the older TypedDict
        monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
    import wordle_rl.trainers.skyrl_train as skyrl_train

    return skyrl_train


def test_the_data_names_games_that_the_environment_opens(module, tmp_path) -> None:
    files = [f"data.train_data=[{tmp_path}/train.jsonl]", f"data.val_data=[{tmp_path}/val.jsonl]"]
    config = module.load_config(FILE, [*files, "trainer.logger=console"])
    assert config.trainer.logger == "console"
    module.write_data(config)
    register()
    source = game_source(module.loop_settings(config))
    for name, secrets in (("train", source.context.split.train), ("val", source.context.split.val)):
        rows = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        assert len(rows) == len(secrets)
        row = rows[3]
        assert row["env_class"] == config.environment.env_class == ENV_ID
        env_config = getattr(config.environment.skyrl_gym, ENV_ID)  # as the generator looks for it
        env = skyrl_gym.make(ENV_ID, env_config=env_config, extras={**row, "max_turns": config.generator.max_turns})
        opening, metadata = env.init(row["prompt"])
        assert opening == row["prompt"]
        assert (metadata["split"], metadata["index"]) == (name, 3)
        assert env.step(f"<guess>{secrets[3]}</guess>")["done"]
        assert isinstance(env.unwrapped if hasattr(env, "unwrapped") else env, WordleSkyRLEnv)


def test_what_would_break_games_off_or_is_unknown_is_refused(module) -> None:
    with pytest.raises(ConfigError, match="set it to 6"):
        module.load_config(FILE, ["generator.max_turns=3"])
    with pytest.raises(ValueError, match="no_such"):
        module.load_config(FILE, ["trainer.no_such=3"])
    with pytest.raises(ValueError, match="no_such"):
        module.load_config(FILE, ["environment.skyrl_gym.wordle.no_such=3"])
