"""Our server in a thread of this process."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def game_server() -> Iterator[str]:
    """Address of a server whose games are paid as `other_loops.SETTINGS` says."""
    pytest.importorskip("openenv")
    import uvicorn
    from other_loops import SETTINGS

    from wordle_rl.serve.app import create_app
    from wordle_rl.serve.settings import ServeSettings

    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(ServeSettings(reward_preset=SETTINGS.reward_preset))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while thread.is_alive() and not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()
