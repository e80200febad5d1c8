"""A small chat server on this machine, for tests of everything that asks one."""

import json
import threading
from collections.abc import Callable, Iterator
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


class FakeEndpoint:
    """A chat server whose answer (status, body, headers if any) is a function of the request's number and body."""

    def __init__(self, answer: Callable[[int, dict], Answer]) -> None:
        self.answer, self.requests, self.headers = answer, [], []
        self.models: list[dict[str, str]] = []
        self.busy = self.busiest = 0
        lock, endpoint = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(200, {"object": "list", "data": endpoint.models})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    number = len(endpoint.requests)
                    endpoint.requests.append(body)
                    endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
                    endpoint.busy += 1
                    endpoint.busiest = max(endpoint.busiest, endpoint.busy)
                status, value, *headers = endpoint.answer(number, body)
                with lock:
                    endpoint.busy -= 1
                self.reply(status, value, *headers)

            def reply(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
                content = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(content)

            def handle(self) -> None:
                with suppress(ConnectionError):  # a client that ran out of patience, at whatever moment
                    super().handle()

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


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
