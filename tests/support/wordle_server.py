"""The server in a thread of this process, and raw messages to it."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from websockets.sync.client import ClientConnection, connect

from wordle_rl.serve.app import create_app
from wordle_rl.serve.process import SessionServer, configured, listen
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.sessions import Sessions
from wordle_rl.serve.tasks import ServedGames


@dataclass(frozen=True)
class RunningServer:
    """A server that answers."""

    address: str
    games: ServedGames
    sessions: Sessions
    server: SessionServer

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def connect(self, path: str = "/ws", **options: Any) -> ClientConnection:
        return connect(self.address.replace("http", "ws") + path, compression=None, **options)


@contextlib.contextmanager
def wordle_server(settings: ServeSettings | None = None) -> Iterator[RunningServer]:
    """Serve on a free port until the block ends."""
    settings = settings or ServeSettings()
    app = create_app(settings)
    listener = listen("127.0.0.1", 0, 2 * settings.ping_timeout_s)
    ready = threading.Event()
    server = SessionServer(configured(app, settings), ready.set, app.state.sessions.drain)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        assert ready.wait(30)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield RunningServer(address, app.state.games, app.state.sessions, server)
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
        assert not thread.is_alive()


def ask(socket: ClientConnection, kind: str, **data: Any) -> dict[str, Any]:
    """Send a message and return the whole answer."""
    socket.send(json.dumps({"type": kind, "data": data}))
    return json.loads(socket.recv(timeout=20))


def say(socket: ClientConnection, word: str) -> dict[str, Any]:
    """Guess a word; returns the data of the answer, which must be an observation."""
    answered = ask(socket, "step", message=f"<guess>{word}</guess>")
    assert answered["type"] == "observation", answered
    return answered["data"]


def refusal(answered: dict[str, Any]) -> str:
    """The reason of an answer, which must be a refusal."""
    assert answered["type"] == "error", answered
    return answered["data"]["reason"]


def secret_of(games: ServedGames, seed: int) -> str:
    """The training secret of a seed, which no message of the server tells."""
    tasks = games.offered()
    return tasks.secret(tasks.pick("train", None, seed))
