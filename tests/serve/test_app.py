"""Laws of the application: probes, tasks over HTTP, refusals with a status, who may reach it, and one command."""

import base64
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from http.client import HTTPConnection

import pytest
from websockets.exceptions import InvalidStatus
from wordle_server import ask, wordle_server

from wordle_rl.cli import main
from wordle_rl.serve.openenv_client import WordleAction, WordleClient
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets

TOKEN = "opensesameé"


@pytest.fixture(scope="module")
def server():
    settings = ServeSettings(max_sessions=3, host_names=("wordle.example",), max_message_bytes=2048)
    with wordle_server(settings) as running:
        yield running


@pytest.fixture(scope="module")
def guarded():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVE_TOKEN", TOKEN)
        with wordle_server(ServeSettings(token_variable="SERVE_TOKEN")) as running:
            yield running


def http(url: str, body: object = None, **headers: str) -> tuple[int, object]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if answer.headers.get_content_type() == "application/json" else text
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_readiness_is_lost_while_no_session_is_free_in_either_protocol(server) -> None:
    assert http(f"{server.address}/ready") == (200, {"status": "ready"})
    with server.connect() as one, server.connect("/textarena/ws") as two, server.connect():
        for opened in (one, two):
            ask(opened, "reset")
        assert http(f"{server.address}/ready") == (503, {"status": "full"})
        assert http(f"{server.address}/health") == (200, {"status": "healthy"})


def test_the_root_leads_to_the_page(server) -> None:
    with urllib.request.urlopen(f"{server.address}/", timeout=60) as answer:
        assert answer.url == f"{server.address}/watch/"
        assert answer.headers.get_content_type() == "text/html"


def test_tasks_are_listed_without_a_secret_and_held_out_ones_not_at_all(server) -> None:
    base = f"{server.address}/wordle_rl"
    kinds = {split["name"]: split["type"] for split in http(f"{base}/splits")[1]}
    assert kinds == {"train": "train", "val": "validation", "test": "test"}
    status, listed = http(f"{base}/tasks", {"split": "train"})
    assert status == 200
    assert len(listed["tasks"]) == http(f"{base}/num_tasks", {"split": "train"})[1]["num_tasks"]
    assert {frozenset(task) for task in listed["tasks"]} == {frozenset({"id", "split", "index", "difficulty"})}
    assert {task["difficulty"] for task in listed["tasks"]} == {"easy", "medium", "hard"}
    assert http(f"{base}/task", {"split": "train", "index": 5})[1]["task"] == listed["tasks"][5]
    assert http(f"{base}/task_range", {"split": "train", "start": 5, "stop": 7})[1]["tasks"] == listed["tasks"][5:7]
    for split, count in (("val", 136), ("test", 300)):
        assert http(f"{base}/num_tasks", {"split": split}) == (200, {"num_tasks": count})
        for route, body in (("tasks", {}), ("task", {"index": 0}), ("task_range", {"start": 0, "stop": 1})):
            status, refused = http(f"{base}/{route}", {"split": split, **body})
            assert (status, refused["detail"]["reason"]) == (403, "held_out")
    assert http(f"{base}/task", {"split": "train", "index": 10**6})[0] == 404
    assert http(f"{base}/num_tasks", {"split": "dev"})[0] == 404


@pytest.mark.parametrize(("path", "reply"), [("/ws", "<guess>fuzzy</guess>"), ("/textarena/ws", "[fuzzy]")])
def test_the_list_of_tasks_does_not_tell_which_one_is_played(server, path: str, reply: str) -> None:
    """Lists map ids to indices, and the word at an index is public: so no id of a task before the end of its game."""
    listed = http(f"{server.address}/wordle_rl/tasks", {"split": "train"})[1]["tasks"]
    index_of = {task["id"]: task["index"] for task in listed}
    words = split_secrets(load_words()).train

    def named(answer: dict) -> list[str]:
        return [words[index_of[text]] for text in re.findall("[0-9a-f]{32}", json.dumps(answer)) if text in index_of]

    told = []
    for number in range(100):
        with server.connect(path) as player:
            heard = [ask(player, "reset", max_given=number % 3)]
            while not heard[-1]["data"]["done"]:
                assert not named([*heard, ask(player, "state")])
                heard.append(ask(player, "step", message=reply))
            told += [(heard[-1]["data"]["observation"].get("secret"), word) for word in named(ask(player, "state"))]
    assert len(told) == (100 if path == "/ws" else 0)
    assert all(secret == word for secret, word in told)


def test_routes_without_a_session_have_defined_answers(server) -> None:
    assert http(f"{server.address}/reset", {"seed": 1})[0] == 200
    status, refused = http(f"{server.address}/step", {"action": {"message": "x"}})
    assert (status, refused["detail"]["reason"]) == (409, "no_game")
    status, refused = http(f"{server.address}/reset", {"bogus": 1})
    assert (status, refused["detail"]["reason"]) == (422, "bad_message")
    assert http(f"{server.address}/state")[1]["step_count"] == 0


@pytest.mark.parametrize(
    "text", ['{"seed": 1e400}', '{"seed": NaN}', '{"episode_id": "\\ud800"}', '{"\\ud800": 1}', "{"]
)
@pytest.mark.parametrize("path", ["/reset", "/wordle_rl/tasks", "/textarena/reset"])
def test_what_is_no_json_is_refused_over_http_too(server, path, text) -> None:
    status, refused = send(server, "POST", path, text.encode(), **{"Content-Type": "application/json"})
    assert (status, json.loads(refused)["detail"]["reason"]) == (422, "bad_message")


def send(server, method: str, path: str, body: object = None, **headers: str) -> tuple[int, bytes]:
    """Status and body of the answer to a request with just these headers, of which `Host` may be one."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read() if answer.status != 101 else b""
    finally:
        connection.close()


def upgrade(server, **headers: str) -> int:
    """Status of the answer to a handshake of a WebSocket."""
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
    return send(server, "GET", "/ws", Connection="Upgrade", Upgrade="websocket", **key, **headers)[0]


def test_only_an_address_or_a_name_of_the_server_reaches_it(server) -> None:
    for host in ("127.0.0.1", f"127.0.0.1:{server.port}", "[::1]:80", "LocalHost", "wordle.example"):
        assert (send(server, "GET", "/health", Host=host)[0], upgrade(server, Host=host)) == (200, 101), host
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "127.0.0.1, x", "x@127.0.0.1",
                 "127.0.0.1/x", "127.0.0.1:x", "[::1", ""):  # fmt: skip
        for path in ("/health", "/metadata", "/watch/api/runs"):
            assert send(server, "GET", path, Host=host)[0] == 400, host
        assert upgrade(server, Host=host) == 400, host


def test_an_origin_is_a_web_page_of_the_same_place(server) -> None:
    own = f"127.0.0.1:{server.port}"
    assert upgrade(server, Host=own, Origin=f"http://{own}") == 101
    assert upgrade(server, Host="wordle.example", Origin="https://wordle.example:443") == 101
    for origin in (f"//{own}", f"javascript://{own}", f"http://x@{own}", f"http://{own}/", f"http://{own}.evil.example",
                   "http://127.0.0.1:1", "http://evil.example", "http://[", "null", ""):  # fmt: skip
        assert upgrade(server, Host=own, Origin=origin) == 403, origin


@pytest.mark.parametrize("path", ["/reset", "/watch/api/play"])
def test_a_body_has_a_limit_whether_or_not_its_length_is_told(server, path) -> None:
    kind = {"Content-Type": "application/json"}
    fits, beyond = b"{}" + b" " * 2046, b"{}" + b" " * 2047
    for body, status in ((fits, 200), (beyond, 413)):
        assert send(server, "POST", path, body, **kind)[0] == status
        assert send(server, "POST", path, iter([body[:9], body[9:]]), **kind)[0] == status  # in chunks
    # Refused before it is sent.
    assert send(server, "POST", path, b"", **kind, **{"Content-Length": str(300 << 20)})[0] == 413


def header(scheme: str) -> str:
    return f"{scheme} {TOKEN}".encode().decode("latin-1")


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"me:{token}".encode()).decode()


WRONG = ["", "Bearer", "Bearer x", "Basic !!", header("Token"), basic("x"), basic("")]


@pytest.mark.parametrize("path", ["/", "/watch/", "/schema", "/openapi.json", "/textarena/metadata"])
def test_no_route_but_the_probes_is_served_without_the_token(guarded, path) -> None:
    for wrong in WRONG:
        assert http(guarded.address + path, Authorization=wrong)[0] == 401
    for right in (header("Bearer"), basic(TOKEN)):
        assert http(guarded.address + path, Authorization=right)[0] == 200
    assert [http(guarded.address + probe)[0] for probe in ("/health", "/ready")] == [200, 200]


@pytest.mark.parametrize("path", ["/ws", "/textarena/ws"])
def test_no_socket_is_opened_without_the_token(guarded, path) -> None:
    for wrong in WRONG:
        with pytest.raises(InvalidStatus) as refused:
            guarded.connect(path, additional_headers={"Authorization": wrong})
        assert refused.value.response.status_code == 401
    with guarded.connect(path, additional_headers={"Authorization": basic(TOKEN)}):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_one_command_serves_until_a_signal(signal_number) -> None:
    command = [sys.executable, "-W", "error::ResourceWarning", "-m", "wordle_rl", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().removeprefix("serving at ").partition(";")[0]
        with WordleClient(address).sync() as env:
            env.reset(seed=1)
            assert env.step(WordleAction(message="<guess>crane</guess>")).observation.marks is not None
        process.send_signal(signal_number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.wait()


def test_a_port_that_is_taken_is_one_line(capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert str(port) in capsys.readouterr().err
