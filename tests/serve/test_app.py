"""Laws of the application: probes, metrics, tasks over HTTP, refusals with a status."""

import json
import urllib.error
import urllib.request

import pytest
from wordle_server import ask, say, secret_of, wordle_server

from wordle_rl.serve.serve_settings import ServeSettings


@pytest.fixture(scope="module")
def server():
    with wordle_server(ServeSettings(max_sessions=3)) as running:
        yield running


def http(url: str, body: object = None) -> tuple[int, object]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_readiness_is_lost_while_no_session_is_free(server) -> None:
    assert http(f"{server.address}/health") == (200, {"status": "healthy"})
    assert http(f"{server.address}/ready") == (200, {"status": "ready"})
    with server.connect() as one, server.connect() as two, server.connect() as three:
        for socket in (one, two, three):
            ask(socket, "reset")
        assert http(f"{server.address}/ready") == (503, {"status": "full"})
        assert http(f"{server.address}/health")[0] == 200


def test_the_root_leads_to_the_page(server) -> None:
    for method in ("GET", "HEAD"):
        request = urllib.request.Request(f"{server.address}/", method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.url == f"{server.address}/watch/"
            assert answer.headers.get_content_type() == "text/html"
    assert "/" not in http(f"{server.address}/openapi.json")[1]["paths"]


def test_tasks_are_listed_without_a_secret_and_held_out_ones_not_at_all(server) -> None:
    base = f"{server.address}/wordle_rl"
    status, splits = http(f"{base}/splits")
    assert status == 200
    assert {split["name"]: split["type"] for split in splits} == {
        "train": "train", "val": "validation", "test": "test",
    }  # fmt: skip
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


def test_routes_without_a_session_have_defined_answers(server) -> None:
    assert http(f"{server.address}/reset", {"seed": 1})[0] == 200
    status, refused = http(f"{server.address}/step", {"action": {"message": "x"}})
    assert (status, refused["detail"]["reason"]) == (409, "no_game")
    status, refused = http(f"{server.address}/reset", {"bogus": 1})
    assert (status, refused["detail"]["reason"]) == (422, "bad_message")
    assert http(f"{server.address}/state")[1]["step_count"] == 0


def test_metrics_count_turns_games_and_refusals_and_name_no_word(server) -> None:
    def figures() -> dict[str, float]:
        text = server.service.metrics.text().decode()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}

    secret = secret_of(server.service, 77)
    before = figures()
    with server.connect() as socket:
        ask(socket, "reset", seed=77)
        say(socket, "zzzzz")
        say(socket, secret)
        ask(socket, "step", message="more")
    after = figures()
    for name, change in {
        'wordle_turns_total{outcome="unlisted"}': 1,
        'wordle_turns_total{outcome="scored"}': 1,
        'wordle_games_ended_total{stop_reason="solved"}': 1,
        'wordle_refusals_total{reason="game_over"}': 1,
        "wordle_games_begun_total": 1,
        "wordle_sessions_total": 1,
        "wordle_message_seconds_count": 4,
    }.items():
        assert after[name] - before[name] == change, name
    assert secret not in server.service.metrics.text().decode()
