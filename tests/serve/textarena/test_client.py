"""Laws of the wire: what openenv's own client sends and reads, recorded, and ours beside it, over real sockets."""

import json

import pytest
from wordle_server import RunningServer

from wordle_rl.serve.textarena import TextArenaAction, TextArenaEnv

SENT = [
    {"type": "reset", "data": {"seed": 11}},
    {"type": "step", "data": {"message": "[crane]"}},
    {"type": "step", "data": {"message": "I say slate"}},
    {"type": "step", "data": {"message": "[split]"}},
    {"type": "state"},
]
"""Messages of the class `TextArenaEnv` of openenv's repository (commit 385de5e of 2026-06-13, on openenv 0.10.0) for
the calls that `test_our_client_sends_the_same` makes."""

READ = {
    "data": {"observation", "reward", "done"},
    "observation": {"prompt", "messages", "current_player_id", "legal_players", "info", "metadata"},
    "message": {"sender_id", "content", "category"},
    "state": {
        "episode_id", "step_count", "env_id", "num_players", "max_turns", "turn", "last_reward", "last_info",
        "raw_state",
    },
}  # fmt: skip
"""Keys that it reads of an answer."""


@pytest.fixture
def address(server: RunningServer) -> str:
    return f"{server.address}/textarena"


def test_every_key_that_openenvs_client_reads_is_answered(server: RunningServer) -> None:
    with server.connect("/textarena/ws") as socket:
        for message in SENT:
            socket.send(json.dumps(message))
            answer = json.loads(socket.recv())
            if message["type"] == "state":
                assert answer["type"] == "state"
                assert set(answer["data"]) == READ["state"]
                continue
            assert answer["type"] == "observation"
            assert set(answer["data"]) >= READ["data"]
            assert set(answer["data"]["observation"]) == READ["observation"]
            assert [set(said) for said in answer["data"]["observation"]["messages"]] == [READ["message"]]


def test_our_client_sends_the_same(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    class Listening(TextArenaEnv):
        async def _send(self, message):
            sent.append(message)
            await super()._send(message)

    with Listening(base_url=address).sync() as env:
        env.reset(seed=11)
        for said in ("[crane]", "I say slate", "[split]"):
            env.step(TextArenaAction(message=said))
        env.state()
    assert sent == SENT


def test_the_notebooks_plain_calls_work(address: str) -> None:
    env = TextArenaEnv(base_url=address)
    result = env.reset(seed=3)
    assert result.observation.prompt.startswith("[GAME] You are Playing Wordle.")
    while not result.done:
        result = env.step(TextArenaAction(message="pass"))
    assert (result.reward, result.observation.prompt) == (0.0, "Wordle-v0")
    secret = env.state().raw_state["game_state"]["secret_word"]
    env.reset(seed=3)
    assert env.step(TextArenaAction(message=f"[{secret}]")).reward == 1.0
    env.close()
