"""Laws of a server that is killed and started again: it keeps nothing, and a game asked for again is the same game."""

import json
import random
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("openenv")

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

pytestmark = pytest.mark.faults

NUM_GAMES = 40
GUESSES = ("crane", "pilot", "dumbo", "abbey", "civic", "speed")
LONGEST_S = 240.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def play(port: int, seed: int) -> list[Any]:
    """One game of a seed, as the client sees it: marks, rewards and the end; an error if the server is gone."""
    seen = []
    with connect(f"ws://127.0.0.1:{port}/ws", compression=None, open_timeout=2) as peer:
        answered = ask(peer, "reset", seed=seed)
        seen.append(answered["observation"]["messages"])
        for guess in GUESSES:
            if answered["done"]:
                break
            answered = ask(peer, "step", message=f"<guess>{guess}</guess>")
            seen.append([answered["observation"]["messages"], answered["reward"], answered["done"]])
    return seen


def ask(peer: Any, kind: str, **data: Any) -> dict[str, Any]:
    peer.send(json.dumps({"type": kind, "data": data}))
    answered = json.loads(peer.recv(timeout=10))
    assert answered["type"] == "observation", answered
    return dict(answered["data"])


class Server:
    """`wordle-rl serve` on one port, killed when it has been up for a time, and started again until `over`."""

    def __init__(self, fork_server: Any, directory: Path, port: int, kills: list[float]) -> None:
        self._fork_server, self._directory, self._kills = fork_server, directory, kills
        self._arguments = ["serve", "--port", str(port)]
        self.num_killed, self.over = 0, False
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        patience = 3.0
        while not self.over:
            left = self._kills.pop() if self._kills else patience
            patience *= 1 if self._kills else 2  # a busy machine may need long to start
            ended = self._fork_server.run(self._arguments, self._directory, kill_after_s=left)
            assert ended.code is None, ended.log
            self.num_killed += not self.over


def test_a_server_killed_at_any_moment_loses_no_game_that_is_asked_for_again(
    fork_server, kill_record, tmp_path, request
) -> None:
    wanted = max(1, request.config.getoption("--kills", 20) // 10)
    rng = random.Random(f"{kill_record.seed}:serve")
    started = time.monotonic()
    server = Server(fork_server, tmp_path, port := free_port(), [rng.uniform(0.3, 4.0) for _ in range(wanted)])
    first: dict[int, list[Any]] = {}
    interrupted = seed = 0
    try:
        while server.num_killed < wanted or len(first) < NUM_GAMES:
            assert time.monotonic() - started < LONGEST_S, server.num_killed
            try:
                seen = play(port, seed % NUM_GAMES)
            except (OSError, WebSocketException, TimeoutError):  # no result: the game is asked for again
                interrupted += 1
                time.sleep(0.02)
                continue
            assert first.setdefault(seed % NUM_GAMES, seen) == seen
            seed += 1
    finally:
        server.over = True
        server.thread.join()
    assert sorted(first) == list(range(NUM_GAMES))
    assert interrupted
    assert list(tmp_path.iterdir()) == [], "it writes nothing, so nothing can be damaged"
    kill_record.rows.append(("serve", server.num_killed, 1, time.monotonic() - started))
