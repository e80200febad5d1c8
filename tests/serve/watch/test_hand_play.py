"""Laws of games by hand: the rules decide, the secret stays until the end, and forgotten games make room."""

import pytest

from wordle_rl.game import Dictionary
from wordle_rl.serve.watch import hand_play
from wordle_rl.serve.watch.hand_play import HandGames
from wordle_rl.serve.watch.review import Reviewer


@pytest.fixture
def games(solver, sixty) -> HandGames:
    return HandGames(Reviewer(solver), sixty.answers, 6)


def test_forgotten_games_make_room(games: HandGames, monkeypatch) -> None:
    monkeypatch.setattr(hand_play, "MAX_GAMES", 3)
    ids = [games.open(Dictionary.APP, False)["id"] for _ in range(3)]
    games.guess(ids[0], "zzzzz")
    ids.append(games.open(Dictionary.APP, False)["id"])
    assert [games.guess(each, "zzzzz") is None for each in ids] == [False, True, False, False]
