"""Laws of the batched route: its games are those of `/ws`, and a step that cannot be played takes no turn."""

import json

import pytest
from wordle_server import ask, refusal, say, secret_of, wordle_server

from wordle_rl.serve.serve_settings import ServeSettings

WORDS = ("crane", "slips", "mould", "zzzzz", "fight", "jumpy")


@pytest.fixture(scope="module")
def server():
    with wordle_server(ServeSettings(max_batch_games=40)) as running:
        yield running


@pytest.mark.parametrize("reward", ["sparse", "strict_xml", "shaped"])
def test_games_of_a_batch_are_those_of_single_sessions(server, reward) -> None:
    options = [{"seed": seed, "reward": reward, "style": style} for seed, style in ((1, "english"), (2, "compact"))]
    with server.connect("/batch") as batch:
        begun = ask(batch, "reset", games=options)["data"]
        steps = [ask(batch, "step", games=[1, 0], messages=[f"<guess>{word}</guess>"] * 2)["data"] for word in WORDS]
    for number, place in ((0, 1), (1, 0)):
        with server.connect() as single:
            alone = ask(single, "reset", **options[number])["data"]
            assert {**begun["observations"][number], "metadata": {}} == alone["observation"]
            for word, step in zip(WORDS, steps, strict=True):
                alone = say(single, word)
                assert {**step["observations"][place], "metadata": {}} == alone["observation"]
                assert (step["rewards"][place], step["dones"][place]) == (alone["reward"], alone["done"])


def test_finished_games_leave_the_batch(server) -> None:
    with server.connect("/batch") as batch:
        ask(batch, "reset", games=[{"seed": seed} for seed in range(3)])
        won = ask(batch, "step", games=[1], messages=[f"<guess>{secret_of(server.service, 1)}</guess>"])["data"]
        assert (won["dones"], won["observations"][0]["secret"]) == ([True], secret_of(server.service, 1))
        refused = ask(batch, "step", games=[0, 1], messages=["<guess>crane</guess>"] * 2)
        assert (refusal(refused), refused["data"]["games"]) == ("game_over", [1])
        played = ask(batch, "step", games=[0, 2], messages=["<guess>crane</guess>"] * 2)["data"]
        assert [row["turns_left"] for row in played["observations"]] == [5, 5]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"games": [0], "messages": []}, "bad_message"),
        ({"games": [0, 0], "messages": ["a", "b"]}, "bad_message"),
        ({"games": [2], "messages": ["a"]}, "bad_message"),
    ],
)
def test_a_wrong_step_takes_no_turn(server, data, reason) -> None:
    with server.connect("/batch") as batch:
        assert refusal(ask(batch, "step", games=[0], messages=["x"])) == "no_game"
        ask(batch, "reset", games=[{"seed": 1}, {"seed": 2}])
        assert refusal(ask(batch, "step", **data)) == reason
        played = ask(batch, "step", games=[0, 1], messages=["<guess>crane</guess>"] * 2)["data"]
        assert [row["turns_left"] for row in played["observations"]] == [5, 5]


def test_more_games_than_allowed_are_refused(server) -> None:
    with server.connect("/batch") as batch:
        assert refusal(ask(batch, "reset", games=[{}] * 41)) == "bad_option"
        assert len(ask(batch, "reset", games=[{}] * 40)["data"]["dones"]) == 40
        assert refusal(ask(batch, "reset", games=[{"bogus": 1}])) == "bad_message"
        batch.send(json.dumps({"type": "state"}))
        assert refusal(json.loads(batch.recv())) == "unknown_type"
