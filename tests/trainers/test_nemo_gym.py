"""Laws of games under NeMo Gym: its agent plays our server over HTTP. Opt-in: `make test-trainers`."""

import asyncio
import json
import math
from types import SimpleNamespace

import pytest

pytest.importorskip("nemo_gym")

import httpx
from chat_families import family_tokenizer
from nemo_gym.server_utils import ServerClient
from other_loops import KINDS, SETTINGS, TASK, ours, replies_of
from responses_api_agents.gymnasium_agent.app import GymnasiumAgent, GymnasiumAgentConfig, GymnasiumAgentRunRequest

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.masks import encode_game
from wordle_rl.trainers.games import game_source
from wordle_rl.trainers.nemo_gym import WordleResourcesServer, WordleServerConfig, dataset_rows

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("default")]
ABOUT = {"host": "", "port": 0, "entrypoint": ""}


class Reply:
    """As much of an aiohttp response as NeMo Gym's agent reads."""

    ok = True

    def __init__(self, content: bytes, cookies: dict[str, str]) -> None:
        self._content, self.cookies = content, cookies

    async def read(self) -> bytes:
        return self._content


class Wire:
    """Stands where NeMo Gym's client does: the game server is ours, over ASGI; the model says what it is told to."""

    def __init__(self, replies: list[str]) -> None:
        config = WordleServerConfig(name="wordle", wordle=SETTINGS, **ABOUT)
        self.server = WordleResourcesServer(config=config, server_client=ServerClient.model_construct())
        self.app = self.server.setup_webserver()
        self.replies = list(replies)
        self.seen = b""

    async def post(self, server_name, url_path, json=None, cookies=None, **_):
        body = json if isinstance(json, dict) else json.model_dump(mode="json")
        if server_name == "model":
            return Reply(response(self.replies.pop(0)), {})
        given = {"base_url": "http://wordle", "cookies": dict(cookies or {})}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), **given) as http:
            answer = await http.post(url_path, json=body)
        assert answer.status_code == 200, answer.text
        self.seen += answer.content
        return Reply(answer.content, dict(answer.cookies))


def response(text: str) -> bytes:
    part = {"type": "output_text", "text": text, "annotations": []}
    said = {"id": "1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    about = {"id": "r", "object": "response", "created_at": 0.0, "model": "m", "tools": [], "tool_choice": "auto"}
    return json.dumps({**about, "output": [said], "parallel_tool_calls": True}).encode()


async def played(wire: Wire):
    config = GymnasiumAgentConfig(
        name="agent",
        resources_server={"type": "resources_servers", "name": "wordle"},
        model_server={"type": "responses_api_models", "name": "model"},
        **ABOUT,
    )
    agent = GymnasiumAgent(config=config, server_client=ServerClient.model_construct())
    object.__setattr__(agent, "server_client", wire)
    (row,) = [row for row in dataset_rows(SETTINGS, "train", 8) if row["index"] == TASK.index]
    opening = list(game_source(SETTINGS).open(TASK).prompt)
    row = {**row, **TASK.model_dump(mode="json"), "responses_create_params": {"input": opening}}

    asked = SimpleNamespace(cookies={})
    return await agent.run(asked, GymnasiumAgentRunRequest.model_validate(row)), opening


@pytest.mark.parametrize("kind", KINDS)
def test_reward_and_conversation_are_the_rollouts(kind: str) -> None:
    """Its tokens are the model server's; here the conversation is encoded as ours, and the mask is of what was said."""
    codec = ChatCodec(family_tokenizer("qwen3"))
    mine = ours(kind, codec=codec, from_messages=True)
    wire = Wire(replies_of(kind, game_source(SETTINGS)))
    result, opening = asyncio.run(played(wire))
    assert not wire.server.session_state
    assert math.isclose(result.reward, mine.reward.total, abs_tol=1e-9)
    assert result.terminated
    assert result.info["won"] == float(kind == "won")
    secret = game_source(SETTINGS).context.split.train[TASK.index]
    assert kind == "won" or secret.encode() not in wire.seen
    texts = [(m.role, m.content[0].text if m.role == "assistant" else m.content) for m in result.response.output]
    ids, mask = encode_game(codec, [*opening, *({"role": role, "content": text} for role, text in texts)])
    assert ids == mine.ids
    given = len(codec.prompt_ids(opening))
    assert [0] * given + mask[given:] == mine.mask
