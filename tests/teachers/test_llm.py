"""Laws of language models as teachers: what failed is no loss, what was paid for is kept, and no key is ever shown."""

import json
import time

import pytest

pytest.importorskip("openai")

from fake_endpoint import KEY, FakeEndpoint, chat

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings
from wordle_rl.config.teachers import LLMTeacherSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.game import Outcome
from wordle_rl.policy.providers import Endpoint
from wordle_rl.prompt import Thinking
from wordle_rl.teachers.llm import Job, LLMTeacher, Tally

SLOW_DOWN = {"error": {"message": f"slow down {KEY}"}}
SECRETS = ["crane", "grape", "abbey", "civic", "pesto", "kudzu"]


def winner(_number: int, body: dict):
    """Games of these tests tell their secret by the seed they send; a real teacher is never told."""
    return chat(f"<think>it is</think><guess>{SECRETS[body['seed']]}</guess>", usage=(100, 10))


def teacher(endpoint: FakeEndpoint, words, **settings: object) -> LLMTeacher:
    fields = {"model": "m", "max_retries": 2, "send_seed": True, "timeout_s": 5.0} | settings
    return LLMTeacher(words, Endpoint(endpoint.url, "OPENAI_API_KEY", KEY), LLMTeacherSettings(**fields))


def play(teacher: LLMTeacher, count: int = 1) -> tuple[Tally, list[GameRecord]]:
    games: list[GameRecord] = []
    tally = teacher.play([Job(SECRETS[i % len(SECRETS)], i % len(SECRETS)) for i in range(count)], games.append)
    return tally, games


def test_a_game_is_played_to_its_end_and_told_as_it_was(serve, small_words) -> None:
    said = [
        "<think>a start</think>\n<guess>crate</guess>",
        "no idea",
        "<guess>zzzzz</guess>",
        "<guess>cranes</guess>",
        "<think>Only crane fits.</think><guess>CRANE</guess>",
    ]
    endpoint = serve(lambda number, _: chat(said[number], "length" if number == 1 else "stop", usage=(100, 10)))
    tally, [game] = play(teacher(endpoint, small_words))
    assert [(t.guess, t.marks, t.outcome) for t in game.turns] == [
        ("crate", "GGGXG", Outcome.SCORED),
        (None, None, Outcome.MALFORMED),
        ("zzzzz", None, Outcome.UNLISTED),
        ("cranes", None, Outcome.WRONG_LENGTH),
        ("crane", "GGGGG", Outcome.SCORED),
    ]
    assert [turn.taught for turn in game.turns] == [True, False, False, False, True]
    assert [turn.reply for turn in game.turns] == said
    assert [turn.notes.finish for turn in game.turns] == ["", "length", "", "", ""]
    assert [turn.thinking for turn in game.turns] == ["a start", "", "", "", "Only crane fits."]
    assert game.won
    assert (game.notes.teacher, game.notes.seed, game.error) == ("m", 0, None)
    assert (game.notes.prompt_tokens, game.notes.completion_tokens) == (500, 50)
    assert (tally.num_games, tally.num_wins, tally.num_errors, tally.tokens) == (1, 1, 0, 550)
    assert GameRecord.from_row(json.loads(json.dumps(game.to_row()))) == game
    assert [len(body["messages"]) for body in endpoint.requests] == [2, 4, 6, 8, 10]


def test_reasoning_sent_apart_is_thinking_and_not_repeated_to_the_model(serve, small_words) -> None:
    said = [
        chat("<guess>crate</guess>", reasoning_content="say <guess>abbey</guess>?"),
        chat("<think>aloud</think><guess>crane</guess>", reasoning="silently"),
    ]
    endpoint = serve(lambda number, _: said[number])
    _, [game] = play(teacher(endpoint, small_words))
    assert [turn.thinking for turn in game.turns] == ["say <guess>abbey</guess>?", "silently\n\naloud"]
    assert "abbey" not in json.dumps(endpoint.requests[1])


def test_reasoning_sent_apart_is_the_thinking_that_is_required(serve, small_words) -> None:
    said = [
        chat("<guess>crate</guess>", reasoning_content="say <guess>abbey</guess>? </think>no"),
        chat("<guess>grape</guess>", reasoning=" "),
        chat("what?", reasoning="silently"),
        chat("<think>aloud</think><guess>crane</guess>", reasoning="silently"),
    ]
    endpoint = serve(lambda number, _: said[number])
    _, [game] = play(teacher(endpoint, small_words, game=GameSettings(thinking=Thinking.REQUIRED)))
    assert [(turn.outcome, turn.thinking) for turn in game.turns] == [
        (Outcome.SCORED, "say  abbey ?  no"),
        (Outcome.MALFORMED, ""),
        (Outcome.MALFORMED, "silently"),
        (Outcome.SCORED, "silently\n\naloud"),
    ]
    assert endpoint.requests[1]["messages"][-2]["content"] == "<think>say  abbey ?  no</think>\n<guess>crate</guess>"


def test_a_refusal_costs_the_turn_and_says_so(serve, small_words) -> None:
    endpoint = serve(lambda number, _: chat(None, refusal="I must not") if number < 2 else chat("<guess>crane</guess>"))
    _, [game] = play(teacher(endpoint, small_words))
    assert [(t.reply, t.notes.finish, t.outcome) for t in game.turns[:2]] == [
        ("I must not", "refusal", "malformed")
    ] * 2
    assert game.won


def test_a_game_that_keeps_failing_is_an_error_with_its_turns_and_no_loss(serve, small_words, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.policy.openai.PAUSE_S", 0.01)
    bad = serve(lambda number, _: chat("<guess>crate</guess>", usage=(9, 1)) if number == 0 else (500, SLOW_DOWN))
    tally, [game] = play(teacher(bad, small_words, max_retries=1))
    assert "InternalServerError" in (game.error or "")
    assert (tally.num_games, tally.num_errors, tally.tokens) == (0, 1, 10)
    assert [turn.guess for turn in game.turns] == ["crate"]
    assert len(bad.requests) == 3


@pytest.mark.parametrize("limit", ["timeout_s", "game_timeout_s"])
def test_time_is_bounded(limit: str, serve, small_words) -> None:
    def asleep(number: int, body: dict):
        time.sleep(0.5)
        return winner(number, body)

    started = time.monotonic()
    _, [game] = play(teacher(serve(asleep), small_words, max_retries=0, **{limit: 0.1}))
    assert ("response within" if limit == "timeout_s" else "game took longer") in (game.error or "")
    assert time.monotonic() - started < 5


UNPAID = {"error": {"message": f"pay {KEY}", "code": "insufficient_quota"}}


@pytest.mark.parametrize(("status", "body"), [(401, SLOW_DOWN), (402, SLOW_DOWN), (404, SLOW_DOWN), (429, UNPAID)])
def test_a_refusal_that_every_game_would_meet_ends_the_run(status: int, body: dict, serve, small_words) -> None:
    endpoint = serve(lambda number, asked: winner(number, asked) if number < 2 else (status, body))
    games: list[GameRecord] = []
    asked = teacher(endpoint, small_words, max_concurrent=1)
    with pytest.raises(ConfigError, match="refused") as caught:
        asked.play([Job(secret, i) for i, secret in enumerate(SECRETS)], games.append)
    assert (len(games), len(endpoint.requests)) == (2, 3)
    assert KEY not in str(caught.value)


def test_a_run_in_which_every_game_fails_stops(serve, small_words) -> None:
    endpoint = serve(lambda *_: (400, SLOW_DOWN))
    games: list[GameRecord] = []
    asked = teacher(endpoint, small_words, max_concurrent=1, max_failures=3)
    with pytest.raises(ConfigError, match="3 games"):
        asked.play([Job("crane", i) for i in range(5)], games.append)
    assert len(endpoint.requests) == len(games) == 3


def test_trouble_with_the_file_stops_the_run_as_it_is(serve, small_words) -> None:
    def full(_game: GameRecord) -> None:
        raise OSError("disk full")

    asked = teacher(serve(winner), small_words, max_concurrent=2)
    with pytest.raises(OSError, match="disk full"):
        asked.play([Job("crane", 0)] * 4, full)


def test_the_key_is_nowhere(serve, small_words, caplog) -> None:
    caplog.set_level("DEBUG")

    leaks = [chat(KEY, reasoning=f"my key is {KEY}", usage=(1, 1)), (400, {"error": {"message": f"bad {KEY}"}})]
    asked = teacher(serve(lambda number, _: leaks[number % 2]), small_words, max_concurrent=1)
    tally, games = play(asked, 2)
    assert len(games) == 2
    assert all("(key)" in game.error for game in games)
    assert "(key)" in games[0].turns[0].reply
    for text in (repr(asked), str(tally), caplog.text, *(json.dumps(game.to_row()) for game in games)):
        assert KEY not in text


# Budget: what was paid for is counted, and no more is asked than it allows


def test_a_game_the_budget_cut_short_is_neither_finished_nor_an_error(serve, small_words) -> None:
    endpoint = serve(lambda *_: chat("<guess>abide</guess>", usage=(100, 10)))
    tally, games = play(teacher(endpoint, small_words, budget_tokens=200))
    assert (games, tally.num_errors, tally.num_unfinished, tally.over_budget) == ([], 0, 1, True)
    assert len(endpoint.requests) == 2


def test_a_budget_counts_what_answers_without_a_reply_cost(serve, small_words, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.policy.openai.PAUSE_S", 0.01)
    endpoint = serve(lambda *_: (200, {"choices": []} | {"usage": {"prompt_tokens": 100, "completion_tokens": 10}}))
    tally, games = play(teacher(endpoint, small_words, budget_tokens=300, max_retries=50))
    assert (games, tally.tokens, tally.over_budget) == ([], 330, True)
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize("counts", [(), (10,), (10, -3), (float("nan"), 3)])
def test_without_both_counts_tokens_are_unknown_and_no_budget_can_be_kept(counts, serve, small_words) -> None:
    usage = dict(zip(("prompt_tokens", "completion_tokens"), counts, strict=False)) or None
    uncounted = (200, chat("<guess>crate</guess>")[1] | {"usage": usage})
    tally, [game] = play(teacher(serve(lambda n, body: winner(n, body) if n else uncounted), small_words))
    assert (game.won, game.notes.prompt_tokens, game.notes.completion_tokens) == (True, 0, 0)
    assert tally.tokens >= 110
    endpoint = serve(lambda *_: uncounted)
    with pytest.raises(ConfigError, match="budget"):
        play(teacher(endpoint, small_words, budget_tokens=1000))
    assert len(endpoint.requests) == 1


def test_an_error_without_counts_ends_no_budget(serve, small_words, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.policy.openai.PAUSE_S", 0.01)
    overloaded = (200, {"error": {"message": "overloaded"}})
    endpoint = serve(lambda number, body: winner(number, body) if number else overloaded)
    tally, [game] = play(teacher(endpoint, small_words, budget_tokens=1000))
    assert (game.won, game.notes.completion_tokens, tally.tokens) == (True, 10, 110)
