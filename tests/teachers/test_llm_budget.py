"""Laws of a language model's budget: what was paid for is counted, and no more is asked than it allows."""

import pytest

pytest.importorskip("openai")

from fake_endpoint import chat
from llm_games import play, teacher, winner

from wordle_rl.config import ConfigError


@pytest.mark.parametrize("budget", [{"budget_tokens": 330}, {"budget_money": 0.33, "price_in": 1e3, "price_out": 1e3}])
def test_a_used_up_budget_ends_the_run_cleanly(budget: dict, serve, small_words) -> None:
    endpoint = serve(winner)
    tally, games = play(teacher(endpoint, small_words, max_concurrent=1, **budget), 6)
    assert tally.over_budget
    assert (len(games), len(endpoint.requests), tally.tokens) == (3, 3, 330)
    assert all(game.won for game in games)


def test_a_game_the_budget_cut_short_is_neither_finished_nor_an_error(serve, small_words) -> None:
    endpoint = serve(lambda *_: chat("<guess>abide</guess>", usage=(100, 10)))
    tally, games = play(teacher(endpoint, small_words, budget_tokens=200))
    assert (games, tally.num_errors, tally.num_unfinished, tally.over_budget) == ([], 0, 1, True)
    assert len(endpoint.requests) == 2


def test_a_budget_needs_an_endpoint_that_counts(serve, small_words) -> None:
    endpoint = serve(lambda *_: chat("<guess>crate</guess>"))
    with pytest.raises(ConfigError, match="no budget can be kept"):
        play(teacher(endpoint, small_words, budget_tokens=100))
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("said", [{"choices": []}, chat("<guess>cr", "error")[1], chat(7)[1]])
def test_a_budget_counts_what_answers_without_a_reply_cost(said: dict, serve, small_words, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.policy.openai.FIRST_PAUSE_S", 0.01)
    endpoint = serve(lambda *_: (200, said | {"usage": {"prompt_tokens": 100, "completion_tokens": 10}}))
    tally, games = play(teacher(endpoint, small_words, budget_tokens=300, max_retries=50), 1)
    assert (games, tally.tokens, tally.over_budget) == ([], 330, True)
    assert len(endpoint.requests) == 3


UNCOUNTED = [
    {"prompt_tokens": 10},
    {"prompt_tokens": 10, "completion_tokens": -3},
    {"prompt_tokens": float("nan"), "completion_tokens": 3},
]


@pytest.mark.parametrize("usage", UNCOUNTED)
def test_a_budget_needs_both_counts(usage: dict, serve, small_words) -> None:
    endpoint = serve(lambda *_: (200, chat("<guess>crate</guess>")[1] | {"usage": usage}))
    with pytest.raises(ConfigError, match="no budget can be kept"):
        play(teacher(endpoint, small_words, budget_tokens=1000))
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("usage", [None, *UNCOUNTED])
def test_tokens_of_a_game_are_known_only_if_those_of_every_reply_are(usage: dict | None, serve, small_words) -> None:
    uncounted = (200, chat("<guess>crate</guess>")[1] | {"usage": usage})
    endpoint = serve(lambda number, body: winner(number, body) if number else uncounted)
    tally, [game] = play(teacher(endpoint, small_words))
    assert (game.won, game.prompt_tokens, game.completion_tokens) == (True, 0, 0)
    assert tally.tokens >= 110


def test_an_error_without_counts_ends_no_budget(serve, small_words, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.policy.openai.FIRST_PAUSE_S", 0.01)
    overloaded = (200, {"error": {"message": "overloaded"}})
    endpoint = serve(lambda number, body: winner(number, body) if number else overloaded)
    tally, [game] = play(teacher(endpoint, small_words, budget_tokens=1000))
    assert (game.won, game.completion_tokens, tally.tokens) == (True, 10, 110)
