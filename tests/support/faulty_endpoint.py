"""A chat server on this machine that misbehaves as servers do: refusals, hangs, half responses, trickles, resets."""

import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from fake_endpoint import Answer, chat

OK = "ok"
FAULTS = (
    "429",
    "429 with a pause",
    "500",
    "503",
    "hang",
    "half a response",
    "half a header",
    "no JSON",
    "JSON of something else",
    "no choices",
    "a choice without a message",
    "an error sent as success",
    "a trickle",
    "a reset",
    "a close",
)
"""Every way to misbehave that this server knows."""

_LONGEST_S = 20.0
"""Time after which a hang or a trickle ends by itself, so that no thread of a test stays."""


class FaultyEndpoint:
    """A chat server whose n-th request meets the fault that `choose` names for it, or is answered.

    Args:
        answer: Response to a request's body, where there is no fault.
        choose: Number of a request -> a fault of `FAULTS`, or `OK`.
    """

    def __init__(self, answer: Callable[[dict], Answer], choose: Callable[[int], str]) -> None:
        self._answer, self._choose = answer, choose
        self.met: Counter[str] = Counter()
        self._lock, self._over = threading.Lock(), threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def num_requests(self) -> int:
        return self.met.total()

    def close(self) -> None:
        self._over.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while (asked := _read_request(connection)) is not None:
                method, body = asked
                if method == "GET":
                    connection.sendall(_response(200, json.dumps({"object": "list", "data": []}).encode()))
                    continue
                with self._lock:
                    fault = self._choose(self.num_requests)
                    self.met[fault] += 1
                if not self._meet(fault, connection, body):
                    return

    def _meet(self, fault: str, connection: socket.socket, body: dict) -> bool:
        """Answer a request by its fault; returns whether the connection stays open."""
        status, value, *_ = self._answer(body)
        good = json.dumps(value).encode()
        whole = {
            OK: _response(status, good),
            "429": _response(429, b'{"error": {"message": "slow down"}}'),
            "429 with a pause": _response(429, b'{"error": {"message": "slow down"}}', "Retry-After: 0.05\r\n"),
            "500": _response(500, b"oops"),
            "503": _response(503, b'{"error": {"message": "busy"}}'),
            "no JSON": _response(200, b"<html>a proxy says hello</html>"),
            "JSON of something else": _response(200, b'[1, 2, {"secret": "crane"}]'),
            "no choices": _response(200, json.dumps({**value, "choices": []}).encode()),
            "a choice without a message": _response(200, json.dumps({**value, "choices": [{"index": 0}]}).encode()),
            "an error sent as success": _response(200, b'{"error": {"message": "the model is gone", "code": 500}}'),
        }
        if fault in whole:
            connection.sendall(whole[fault])
            return True
        if fault == "hang":
            self._over.wait(_LONGEST_S)
        elif fault == "half a response":
            connection.sendall(_response(200, good)[: -len(good) // 2])
        elif fault == "half a header":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Le")
        elif fault == "a trickle":
            self._trickle(connection, _response(200, good))
        elif fault == "a reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def _trickle(self, connection: socket.socket, content: bytes) -> None:
        """One byte now and then, sooner than a client that times each read gives up."""
        started = time.monotonic()
        for place in range(len(content)):
            if self._over.wait(0.1) or time.monotonic() - started > _LONGEST_S:
                return
            connection.sendall(content[place : place + 1])


def mixed(seed: int, rate: float, faults: tuple[str, ...] = FAULTS) -> Callable[[int], str]:
    """Faults at random, at a rate: the same ones for the same seed."""

    def choose(number: int) -> str:
        rng = random.Random(f"{seed}:{number}")
        return rng.choice(faults) if rng.random() < rate else OK

    return choose


def guesses_in_turn(words: list[str]) -> Callable[[dict], Answer]:
    """A player that goes through a list of words, one a turn, by how many turns it is shown."""

    def answer(body: dict) -> Answer:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        return chat(f"<guess>{words[turn % len(words)]}</guess>", usage=(10, 2))

    return answer


def _response(status: int, content: bytes, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n{headers}\r\n"
    return head.encode() + content


def _read_request(connection: socket.socket) -> tuple[str, dict] | None:
    """Method and body of the next request; None if the client has gone."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    lengths = [int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")]
    while lengths and len(body) < lengths[0]:
        body += connection.recv(65536)
    return lines[0].split()[0], json.loads(body) if body else {}
