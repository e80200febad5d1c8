"""Laws of games by hand: the rules decide, the secret stays until the end, and forgotten games make room."""

import pytest

from wordle_rl.game import Dictionary, score_guess
from wordle_rl.serve.watch import hand_play
from wordle_rl.serve.watch.hand_play import HandGames
from wordle_rl.serve.watch.review import Reviewer


@pytest.fixture
def games(solver, sixty) -> HandGames:
    return HandGames(Reviewer(solver), sixty.answers, 6)


def secret_of(games: HandGames, identity: str) -> str:
    return games._games[identity]._secret


def test_a_win_tells_the_secret_and_ends_the_game(games: HandGames, sixty) -> None:
    opened = games.open(Dictionary.APP, False, seed=1)
    secret = secret_of(games, opened["id"])
    other = next(word for word in sixty.answers if word != secret)
    first = games.guess(opened["id"], other.upper())
    assert (first["marks"], first["turns_left"], first["over"]) == (score_guess(secret, other), 5, False)
    last = games.guess(opened["id"], f" {secret} ")
    assert (last["won"], last["secret"], last["over"], last["left"]) == (True, secret, True, 1)
    assert games.guess(opened["id"], secret) is None


def test_forgotten_games_make_room(games: HandGames, monkeypatch) -> None:
    monkeypatch.setattr(hand_play, "MAX_GAMES", 3)
    ids = [games.open(Dictionary.APP, False)["id"] for _ in range(3)]
    games.guess(ids[0], "zzzzz")
    ids.append(games.open(Dictionary.APP, False)["id"])
    assert [games.guess(each, "zzzzz") is None for each in ids] == [False, True, False, False]
