"""Laws of games under SkyRL: its registry, its generator's tokens. Opt-in: `make test-trainers`."""

import asyncio
import json
import math
import sys
import typing
from pathlib import Path

import pytest

skyrl_gym = pytest.importorskip("skyrl_gym")

import typing_extensions
from chat_families import family_tokenizer
from other_loops import KINDS, SETTINGS, TASK, ours, replies_of

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError
from wordle_rl.trainers.games import game_source
from wordle_rl.trainers.skyrl import ENV_ID, WordleSkyRLEnv, dataset_rows, register

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("default")]
ROW = TASK.model_dump(mode="json")


@pytest.fixture(autouse=True)
def _registered(monkeypatch) -> None:
    if sys.version_info < (3, 12):  # SkyRL's own requirement; pydantic refuses the older TypedDict
        monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
    register()
    register()


def make(row=ROW) -> WordleSkyRLEnv:
    return skyrl_gym.make(ENV_ID, env_config=SETTINGS.model_dump(), extras={"max_turns": 6, "reward_spec": {}, **row})


def test_rows_name_games_and_hold_their_opening() -> None:
    rows = dataset_rows(SETTINGS, "val", 5, max_given=2, seed=1)
    for row in rows:
        assert row["env_class"] == ENV_ID
        prompt, metadata = make(row).init(row["prompt"])
        assert prompt == row["prompt"]
        assert metadata["index"] == row["index"]
        assert game_source(SETTINGS).context.split.val[row["index"]] not in str(row)


class Engine:
    """Says the replies that belong to a prompt's turn, in tokens."""

    model_name = "m"

    def __init__(self, codec: ChatCodec, replies: list[str]) -> None:
        self.codec, self.replies, self.openings = codec, replies, []

    async def generate(self, engine_input, model=None):
        (ids,) = engine_input["prompt_token_ids"]
        turn = ids.count(self.codec.turn_end_ids[0])
        self.openings.append(turn)
        first = min(self.openings)
        reply = self.replies[(turn - first) // 2]
        said = self.codec.reply_ids(reply)
        return {
            "responses": [self.codec.text_of(said)],
            "response_ids": [said],
            "stop_reasons": ["stop"],
            "response_logprobs": [[-1.0] * len(said)],
        }

    async def finish_session(self, session_id) -> None:
        pass

    def get_weight_version(self) -> None:
        return None


@pytest.mark.parametrize("kind", KINDS)
def test_the_generators_tokens_and_masks_are_the_rollouts(kind: str) -> None:
    """Its rewards lie on the last token of each turn."""
    from skyrl.train.config import GeneratorConfig, SkyRLGymConfig
    from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

    codec = ChatCodec(family_tokenizer("qwen3"))
    mine = ours(kind, codec=codec)
    gym_config = SkyRLGymConfig(max_env_workers=2)
    setattr(gym_config, ENV_ID, SETTINGS.model_dump())
    config = GeneratorConfig(max_turns=6, max_input_length=100_000)
    engine = Engine(codec, replies_of(kind, game_source(SETTINGS)))
    generator = SkyRLGymGenerator(config, gym_config, engine, codec.tokenizer)
    batch = {"prompts": [[]] * 2, "env_classes": [ENV_ID] * 2, "env_extras": [dict(ROW) for _ in range(2)]}
    output = asyncio.run(generator.generate(batch, disable_tqdm=True))
    for place in range(2):
        prompt, said = output["prompt_token_ids"][place], output["response_ids"][place]
        assert [*prompt, *said] == mine.ids
        assert [0] * len(prompt) + output["loss_masks"][place] == mine.mask
        assert math.isclose(math.fsum(output["rewards"][place]), mine.reward.total, abs_tol=1e-9)


# --- the launch: its own configuration takes ours, with a recipe's sizes ---


ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "scripts" / "skyrl" / "eight_gpus.yaml"


@pytest.fixture
def module():
    import wordle_rl.trainers.skyrl_train as skyrl_train

    return skyrl_train


def test_the_data_names_games_that_the_environment_opens(module, tmp_path) -> None:
    files = [f"data.train_data=[{tmp_path}/train.jsonl]", f"data.val_data=[{tmp_path}/val.jsonl]"]
    config = module.load_config(FILE, [*files, "trainer.logger=console"])
    assert config.trainer.logger == "console"
    module.write_data(config)
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
