"""Laws of what the page asks for: wrong requests have defined answers, a running game's secret stays where it is."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from report_runs import make_run, training_game
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.game import Dictionary, score_guess
from wordle_rl.report.page import render as render_report
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.watch import live_games, watch_app
from wordle_rl.serve.watch.live_games import HandGames
from wordle_rl.serve.watch.review import Reviewer
from wordle_rl.serve.watch.watch_app import create_page_app, create_watch_app


@pytest.fixture
def client(word_directory: Path, tmp_path: Path) -> TestClient:
    make_run(tmp_path / "runs" / "one")
    config = {"words": {"source": str(word_directory)}, "game": {"max_turns": 6}}
    (tmp_path / "runs" / "one" / "config.json").write_text(json.dumps(config))
    settings = ServeSettings(words=WordSettings(source=str(word_directory)), runs=tmp_path / "runs")
    return TestClient(Starlette(routes=[Mount("/watch", create_watch_app(settings))]))


def events(client: TestClient, **wanted: object) -> list[dict]:
    with client.stream("POST", "/watch/api/watch", json=wanted) as response:
        assert response.status_code == 200, response.read()
        return [json.loads(line) for line in response.iter_lines()]


def test_a_run_is_sent_once_until_it_changes(client: TestClient, tmp_path: Path) -> None:
    first = client.get("/watch/api/runs/one")
    tag = {"If-None-Match": first.headers["etag"]}
    assert client.get("/watch/api/runs/one", headers=tag).status_code == 304
    with (tmp_path / "runs" / "one" / "games.jsonl").open("a") as file:
        file.write(json.dumps(training_game(4)) + "\n")
    changed = client.get("/watch/api/runs/one", headers=tag)
    assert changed.status_code == 200
    before, now = (response.json()["sources"][0]["size"] for response in (first, changed))
    games = client.get(f"/watch/api/runs/one/games?source=games&after={before}").json()
    assert [game["step"] for game in games["games"]] == [4]
    assert games["next"] == now


def test_an_offset_beyond_the_file_finds_its_end(client: TestClient) -> None:
    games = client.get(f"/watch/api/runs/one/games?source=games&after={2**53}")
    assert games.status_code == 200
    assert (games.json()["games"], games.json()["next"]) == ([], games.json()["size"])


def test_a_report_is_rendered_once_until_its_run_changes(client: TestClient, tmp_path: Path, monkeypatch) -> None:
    rendered: list[str] = []

    def render(run, watch_page: str) -> str:
        rendered.append(run.name)
        time.sleep(0.2)
        return render_report(run, watch_page)

    monkeypatch.setattr(watch_app, "render_report", render)
    with client, ThreadPoolExecutor(8) as browsers:  # all on one event loop, as on a server
        first = list(browsers.map(client.get, ["/watch/runs/one/report.html"] * 8))
        assert {(page.status_code, page.text) for page in first} == {(200, first[0].text)}
        assert len(rendered) == 1
        with (tmp_path / "runs" / "one" / "games.jsonl").open("a") as file:
            file.write(json.dumps(training_game(4)) + "\n")
        assert client.get("/watch/runs/one/report.html").text != first[0].text
    assert len(rendered) == 2


def test_the_page_is_reached_by_an_address_or_a_name_of_its_own(tmp_path: Path) -> None:
    client = TestClient(create_page_app(ServeSettings(runs=tmp_path, max_message_bytes=1024)), "http://127.0.0.1:8010")
    for host, status in (("127.0.0.1:8010", 200), ("localhost", 200), ("evil.example:8010", 400)):
        for path in ("/watch/", "/watch/api/runs", "/"):
            assert client.get(path, headers={"Host": host}).status_code == status
    assert client.post("/watch/api/play", content=b"{}" + b" " * 1024).status_code == 413


WRONG = {
    400: ["api/runs/one/games?after=x", "api/runs/one/games?after=99999999999999999999", "api/review?board=xx"],
    404: [
        "api/runs/none", "api/runs/%2e%2e", "api/runs/one/games?source=../config", "api/review?run=/nowhere",
        "runs/none/report.html",
    ],
}  # fmt: skip


@pytest.mark.parametrize("status", WRONG)
def test_a_wrong_address_has_a_defined_answer(client: TestClient, status: int) -> None:
    for path in WRONG[status]:
        response = client.get(f"/watch/{path}")
        assert response.status_code == status, path
        assert status == 404 or response.json()["error"]


def test_the_page_is_sent_with_its_policy_and_no_form_of_another_site_begins_a_game(client: TestClient) -> None:
    assert "default-src 'none'" in client.get("/watch/").headers["content-security-policy"]
    form = client.post("/watch/api/play", content=b"{}", headers={"content-type": "text/plain"})
    assert form.status_code == 400


def test_a_game_is_told_turn_by_turn(client: TestClient, sixty) -> None:
    start, *turns, end = events(client, player="solver", secret=sixty.answers[5])
    assert (start["event"], start["candidates"], start["has_probabilities"]) == ("start", 60, False)
    for number, turn in enumerate(turns, start=1):
        assert (turn["turn"], turn["marks"]) == (number, score_guess(sixty.answers[5], turn["guess"]))
        assert turn["left"] <= turn["candidates"]
        assert turn["guess"] in turn["reply"]
    assert (end["event"], end["won"], end["secret"]) == ("end", True, sixty.answers[5])


def test_two_secrets_that_are_marked_alike_are_told_alike(client: TestClient, sixty) -> None:
    """Until the end, events depend on the secret by its marks alone."""
    told: dict[tuple[str, ...], set[str]] = {}
    for secret in sixty.answers:
        *before, _ = events(client, player="solver", secret=secret)
        for turn in before:
            turn.pop("seconds", None)
        seen: list[str] = []
        for event in before:
            seen.append(f"{event.get('guess')}{event.get('marks')}")
            told.setdefault(tuple(seen), set()).add(json.dumps(event))
    assert len(told) > 60
    assert all(len(versions) == 1 for versions in told.values())


def test_a_game_by_hand_says_nothing_of_its_secret_before_the_end(client: TestClient, sixty) -> None:
    for seed in range(12):
        opened = client.post("/watch/api/play", json={"dictionary": "strict", "seed": seed})
        said = [opened]
        path = f"/watch/api/play/{opened.json()['id']}"
        for word in (*sixty.guesses[seed : seed + 4], "zzzzz", "\U0001f600", sixty.guesses[80]):
            said.append(client.post(path, json={"guess": word}))
            if said[-1].json()["over"]:
                break
        *before, last = said
        secret = last.json()["secret"]
        heard = b"".join(response.content + repr(response.headers).encode() for response in before).lower()
        guessed = {response.json().get("guess") for response in said}
        assert secret in guessed or secret.encode() not in heard
        assert client.post(path, json={"guess": "crane"}).status_code == 404


def test_only_parts_that_the_owner_allows_are_drawn_from(word_directory: Path, tmp_path: Path, split) -> None:
    words, game = WordSettings(source=str(word_directory)), GameSettings(max_turns=3)
    settings = ServeSettings(words=words, runs=tmp_path, allow_held_out=("test",), game=game)
    client = TestClient(create_watch_app(settings))
    assert client.get("/api/about").json()["parts"] == ["train", "test"]
    with client.stream("POST", "/api/watch", json={"player": "random", "part": "test", "seed": 4}) as response:
        last = json.loads(list(response.iter_lines())[-1])
    assert last["secret"] in split.test
    assert last["turns_used"] <= 6


def test_forgotten_games_make_room(solver, sixty, monkeypatch) -> None:
    monkeypatch.setattr(live_games, "MAX_GAMES", 3)
    games = HandGames(Reviewer(solver), sixty.answers, 6)
    ids = [games.open(Dictionary.APP, False)["id"] for _ in range(3)]
    games.guess(ids[0], "zzzzz")
    ids.append(games.open(Dictionary.APP, False)["id"])
    assert [games.guess(each, "zzzzz") is None for each in ids] == [False, True, False, False]
