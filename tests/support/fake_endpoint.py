"""A small chat server on this machine, for tests of everything that asks one."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

KEY = "sk-very-secret-key-123"
Answer = tuple[int, object] | tuple[int, object, dict[str, str]]


def chat(text: object, finish_reason: str = "stop", usage: tuple[int, int] | None = None, **fields: object) -> Answer:
    """A chat completion; `usage` are its prompt and completion tokens, `fields` go into the message."""
    message = {"role": "assistant", "content": text, **fields}
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return 200, body


def streamed_chat(text: str, finish_reason: str = "stop", usage: tuple[int, int] = (1, 1)) -> Answer:
    """A chat completion as a stream of two pieces, as servers send it to whoever asks for one."""
    about = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    pieces = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}], "usage": counts},
    ]
    lines = [f"data: {json.dumps({**about, **piece})}\n\n" for piece in pieces]
    return 200, "".join([*lines, "data: [DONE]\n\n"]).encode(), {"Content-Type": "text/event-stream"}


class LocalServer:
    """A server on loopback, from when it is made until `close`; those that derive from it say what it answers."""

    def __init__(self) -> None:
        answering = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, value, *more = answering.respond(self.command, self.path, self.headers, body)
                content = value if isinstance(value, bytes) else json.dumps(value).encode()
                headers = {"Content-Type": "application/json", "Content-Length": str(len(content))}
                self.send_response(status)
                for name, text in (headers | (more[0] if more else {})).items():
                    self.send_header(name, text)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_POST = do_HEAD = do_GET

            def handle(self) -> None:
                with suppress(ConnectionError):  # a client that ran out of patience, at whatever moment
                    super().handle()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer to a request: status, bytes or a value for JSON, headers if any."""
        raise NotImplementedError

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class FakeEndpoint(LocalServer):
    """A chat server whose answer is a function of the request's number and body."""

    def __init__(self, answer: Callable[[int, dict], Answer]) -> None:
        self.answer, self.requests, self.headers = answer, [], []
        self.models: list[dict[str, str]] = []
        self.busy = self.busiest = 0
        self._lock = threading.Lock()
        super().__init__()
        self.url += "/v1"

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        del path
        if method == "GET":
            return 200, {"object": "list", "data": self.models}
        asked = json.loads(body)
        with self._lock:
            number = len(self.requests)
            self.requests.append(asked)
            self.headers.append({name.lower(): value for name, value in headers.items()})
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        try:
            return self.answer(number, asked)
        finally:
            with self._lock:
                self.busy -= 1


@pytest.fixture
def serve(monkeypatch) -> Iterator[Callable[..., FakeEndpoint]]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    servers = []

    def start(answer: Callable[[int, dict], Answer]) -> FakeEndpoint:
        servers.append(FakeEndpoint(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
