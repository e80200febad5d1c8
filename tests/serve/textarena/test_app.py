"""Laws of the mounted application: one server, one token, one count of sessions."""

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from wordle_rl.serve.app import create_app
from wordle_rl.serve.serve_settings import ServeSettings


def test_routes_of_openenv_are_below_textarena() -> None:
    with TestClient(create_app(ServeSettings())) as client:
        assert client.get("/textarena/health").json() == {"status": "healthy"}
        assert client.get("/textarena/metadata").json()["name"] == "Wordle-v0"
        schema = client.get("/textarena/schema").json()
        assert set(schema["action"]["required"]) == {"message"}
        began = client.post("/textarena/reset", json={"seed": 4})
        assert began.json()["observation"]["prompt"].startswith("[GAME] You are Playing Wordle.")


def test_sessions_of_both_protocols_share_one_limit() -> None:
    app = create_app(ServeSettings(max_sessions=1))
    with (
        TestClient(app) as client,
        client.websocket_connect("/ws"),
        client.websocket_connect("/textarena/ws") as second,
    ):
        assert second.receive_json()["data"]["reason"] == "full"


def test_the_token_of_the_server_is_asked_for_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "open sesame")
    with TestClient(create_app(ServeSettings(token_variable="A_TOKEN"))) as client:
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/textarena/ws") as socket:
            socket.receive_json()
        bearer = {"Authorization": "Bearer open sesame"}
        with client.websocket_connect("/textarena/ws", headers=bearer) as socket:
            socket.send_json({"type": "reset", "data": {"seed": 1}})
            assert socket.receive_json()["type"] == "observation"


def test_openenvs_own_sockets_are_not_served() -> None:
    with (
        TestClient(create_app(ServeSettings())) as client,
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/textarena/mcp"),
    ):
        pass
