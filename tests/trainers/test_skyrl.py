"""Laws of games under SkyRL: its registry, its generator's tokens. Opt-in: `make test-trainers`."""

import asyncio
import math
import sys
import typing

import pytest

skyrl_gym = pytest.importorskip("skyrl_gym")

import typing_extensions
from chat_families import family_tokenizer
from other_loops import KINDS, SETTINGS, TASK, ours, replies_of

from wordle_rl.chat.codec import ChatCodec
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
    mine = ours(kind, codec=codec, from_messages=True)
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
