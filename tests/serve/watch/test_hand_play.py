"""Laws of games by hand: the rules decide, the secret stays until the end, and forgotten games make room."""

import json

import pytest

from wordle_rl.game import Dictionary, score_guess
from wordle_rl.serve.watch import hand_play
from wordle_rl.serve.watch.hand_play import IDLE_S, HandGames, NotFoundError
from wordle_rl.serve.watch.review import Reviewer


@pytest.fixture
def games(solver, sixty) -> HandGames:
    return HandGames(Reviewer(solver), sixty.answers, 6)


def secret_of(games: HandGames, identity: str) -> str:
    env, _ = games._games[identity]
    return env._secret


def test_a_win_tells_the_secret_and_ends_the_game(games: HandGames, sixty) -> None:
    opened = games.open(Dictionary.APP, False, seed=1)
    secret = secret_of(games, opened["id"])
    other = next(word for word in sixty.answers if word != secret)
    first = games.guess(opened["id"], other.upper())
    assert (first["marks"], first["turns_left"], first["over"]) == (score_guess(secret, other), 5, False)
    last = games.guess(opened["id"], f" {secret} ")
    assert (last["won"], last["secret"], last["over"], last["left"]) == (True, secret, True, 1)
    assert len(games) == 0
    with pytest.raises(NotFoundError):
        games.guess(opened["id"], secret)


def test_nothing_before_the_end_holds_the_secret(games: HandGames, sixty) -> None:
    for seed in range(20):
        opened = games.open(Dictionary.STRICT, False, seed=seed)
        secret = secret_of(games, opened["id"])
        wrong = [word for word in sixty.guesses if word != secret][:5]
        said = json.dumps([opened, *(games.guess(opened["id"], word) for word in wrong)])
        assert secret not in said.lower()
        end = games.guess(opened["id"], "zzzzz")
        assert (end["won"], end["secret"], end["outcome"]) == (False, secret, "unlisted")


def test_the_same_seed_draws_the_same_secret(games: HandGames) -> None:
    drawn = {
        seed: {secret_of(games, games.open(Dictionary.APP, False, seed)["id"]) for _ in range(2)} for seed in range(9)
    }
    assert all(len(secrets) == 1 for secrets in drawn.values())
    assert len({secret for secrets in drawn.values() for secret in secrets}) > 3


def test_forgotten_games_make_room(solver, sixty, monkeypatch) -> None:
    monkeypatch.setattr(hand_play, "MAX_GAMES", 3)
    now = [0.0]
    games = HandGames(Reviewer(solver), sixty.answers, 6, clock=lambda: now[0])
    ids = [games.open(Dictionary.APP, False)["id"] for _ in range(3)]
    games.guess(ids[0], "zzzzz")
    ids.append(games.open(Dictionary.APP, False)["id"])
    assert len(games) == 3
    with pytest.raises(NotFoundError):
        games.guess(ids[1], "zzzzz")
    now[0] += IDLE_S / 2
    games.guess(ids[0], "zzzzz")
    now[0] += IDLE_S / 2 + 1
    games.guess(ids[0], "zzzzz")
    assert len(games) == 1
