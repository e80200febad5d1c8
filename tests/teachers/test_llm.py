"""Laws of language models as teachers: what failed is no loss, what was paid for is kept, and no key is ever shown."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable

import pytest

pytest.importorskip("openai")

from fake_endpoint import KEY, chat
from llm_games import SECRETS, play, teacher, winner

from wordle_rl.config import ConfigError, GameSettings, LLMTeacherSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.game import Outcome
from wordle_rl.prompt import Thinking
from wordle_rl.runs import append_jsonl, read_jsonl
from wordle_rl.samplers.endpoint.providers import Endpoint
from wordle_rl.teachers.llm import Job, LLMTeacher, Tally

SLOW_DOWN = {"error": {"message": f"slow down {KEY}"}}


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
    assert [turn.finish for turn in game.turns] == ["", "length", "", "", ""]
    assert [turn.thinking for turn in game.turns] == ["a start", "", "", "", "Only crane fits."]
    assert game.won
    assert (game.teacher, game.seed, game.error) == ("m", 0, None)
    assert (game.prompt_tokens, game.completion_tokens) == (500, 50)
    assert (tally.num_games, tally.num_wins, tally.num_errors, tally.tokens) == (1, 1, 0, 550)
    assert GameRecord.from_row(json.loads(json.dumps(game.to_row()))) == game
    assert [len(body["messages"]) for body in endpoint.requests] == [2, 4, 6, 8, 10]


def test_a_teacher_plays_inside_a_running_loop_too_as_in_a_notebook(serve, small_words) -> None:
    endpoint = serve(lambda *_: chat("<guess>crane</guess>"))

    async def notebook() -> tuple[Tally, list[GameRecord]]:
        return play(teacher(endpoint, small_words))

    tally, [game] = asyncio.run(notebook())
    assert (tally.num_games, game.won) == (1, True)


def test_reasoning_sent_apart_is_thinking_and_not_repeated_to_the_model(serve, small_words) -> None:
    endpoint = serve(
        lambda number, _: (
            chat("<guess>crate</guess>", reasoning_content="say <guess>abbey</guess>?")
            if number == 0
            else chat("<think>aloud</think><guess>crane</guess>", reasoning="silently")
        )
    )
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


@pytest.mark.parametrize("thinking", [Thinking.OFF, Thinking.OPTIONAL])
def test_reasoning_sent_apart_is_no_part_of_a_reply_that_need_not_think(thinking, serve, small_words) -> None:
    endpoint = serve(lambda *_: chat("<guess>crane</guess>", reasoning="silently"))
    _, [game] = play(teacher(endpoint, small_words, game=GameSettings(thinking=thinking)))
    assert (game.won, game.turns[0].thinking) == (True, "silently")


def test_a_reply_in_parts_is_their_text(serve, small_words) -> None:
    parts = [{"type": "text", "text": "<guess>cr"}, {"type": "image"}, {"type": "text", "text": "ane</guess>"}]
    _, [game] = play(teacher(serve(lambda *_: chat(parts)), small_words))
    assert (game.won, game.turns[0].reply) == (True, "<guess>crane</guess>")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (chat([{"type": "image"}]), "no text"),
        (chat(7), "no text"),
        (chat("<guess>cr", "error"), "an error broke the reply off"),
        ((200, {"error": {"message": "overloaded"}}), "the endpoint sent an error: overloaded"),
        ((200, {"error": f"bad {KEY}", "choices": []}), "the endpoint sent an error: bad (key)"),
        pytest.param((200, b"[" * 10**5 + b"]" * 10**5), "RecursionError", id="deeply nested"),
    ],
)
def test_what_is_no_reply_is_an_error_and_never_a_turn(answer, told: str, serve, small_words) -> None:
    _, [game] = play(teacher(serve(lambda *_: answer), small_words, max_retries=0))
    assert told in (game.error or "")
    assert game.turns == ()


def test_a_placeholder_for_a_key_changes_no_reply(serve, small_words) -> None:
    endpoint = serve(lambda *_: chat("<think>a plan</think><guess>crane</guess>"))
    asked = LLMTeacher(small_words, Endpoint(endpoint.url, "OPENAI_API_KEY", "a"), LLMTeacherSettings(model="m"))
    _, [game] = play(asked)
    assert (game.won, game.turns[0].guess, game.turns[0].thinking) == (True, "crane", "a plan")


def test_a_key_in_a_reply_is_neither_stored_nor_sent_back(serve, small_words) -> None:
    guesses = iter(["crate", "crane"])
    endpoint = serve(lambda *_: chat(f"<think>is it {KEY}?</think><guess>{next(guesses)}</guess>"))
    _, [game] = play(teacher(endpoint, small_words))
    assert (game.won, [turn.thinking for turn in game.turns]) == (True, ["is it (key)?"] * 2)
    assert KEY not in json.dumps(game.to_row())
    assert endpoint.requests[1]["messages"][-2]["content"] == "<think>is it (key)?</think><guess>crate</guess>"


def test_thinking_that_the_chat_template_opened_is_read(serve, small_words) -> None:
    text = "it must be crane</think>\n<guess>crane</guess>"
    _, [game] = play(teacher(serve(lambda *_: chat(text)), small_words))
    assert (game.won, game.turns[0].thinking, game.turns[0].reply) == (True, "it must be crane", text)


def test_a_refusal_costs_the_turn_and_says_so(serve, small_words) -> None:
    endpoint = serve(lambda number, _: chat(None, refusal="I must not") if number < 2 else chat("<guess>crane</guess>"))
    _, [game] = play(teacher(endpoint, small_words))
    assert [(t.reply, t.finish, t.outcome) for t in game.turns[:2]] == [("I must not", "refusal", "malformed")] * 2
    assert game.won


def test_settings_reach_the_endpoint_and_unset_ones_do_not(serve, small_words) -> None:
    endpoint = serve(winner)
    play(teacher(endpoint, small_words, max_completion_tokens=77, temperature=0.3))
    play(teacher(endpoint, small_words, max_completion_tokens=77, top_p=0.5))
    first, second = endpoint.requests
    assert (first["model"], first["max_tokens"], first["temperature"], first["seed"]) == ("m", 77, 0.3, 0)
    assert "top_p" not in first
    assert "temperature" not in second
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"


def test_no_more_games_are_in_play_than_allowed(serve, small_words) -> None:
    def slow(number: int, body: dict):
        time.sleep(0.03)
        return winner(number, body)

    endpoint = serve(slow)
    tally, games = play(teacher(endpoint, small_words, max_concurrent=3), 12)
    assert tally.num_wins == len(games) == 12
    assert 2 <= endpoint.busiest <= 3


def test_a_pause_the_server_asks_for_is_kept_by_every_game(serve, small_words) -> None:
    times: list[float] = []

    def answer(number: int, body: dict):
        times.append(time.monotonic())
        if number == 0:
            return 429, SLOW_DOWN, {"Retry-After": "0.4"}
        if number == 1:
            time.sleep(0.2)  # under way until the pause is known, so that no other request overtakes the news of it
        return winner(number, body)

    tally, _ = play(teacher(serve(answer), small_words, max_concurrent=2), 6)
    assert (tally.num_wins, tally.num_errors) == (6, 0)
    late = [seen for seen in times if seen - times[0] > 0.1]
    assert len(late) >= 5, "at most the request under way came in between"
    assert min(late) - times[0] >= 0.4


def test_a_storm_of_refusals_is_waited_out(serve, small_words) -> None:
    def answer(number: int, body: dict):
        return (429, SLOW_DOWN, {"Retry-After": "0.02"}) if number % 3 else winner(number, body)

    tally, games = play(teacher(serve(answer), small_words, max_retries=50, max_concurrent=4), 12)
    assert (tally.num_games, tally.num_errors) == (12, 0)
    assert all(game.won for game in games)


def test_a_server_error_is_tried_again(serve, small_words, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.samplers.endpoint.retry.FIRST_PAUSE_S", 0.01)
    broken = [(500, {}), (200, b"<html>"), (200, {"choices": []}), (200, {"choices": [{"message": None}]}), (503, {})]
    endpoint = serve(lambda number, body: broken[number] if number < len(broken) else winner(number, body))
    tally, [game] = play(teacher(endpoint, small_words, max_retries=5))
    assert (tally.num_wins, game.error) == (1, None)
    assert len(endpoint.requests) == 6


def test_a_game_that_keeps_failing_is_an_error_with_its_turns_and_no_loss(serve, small_words, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.samplers.endpoint.retry.FIRST_PAUSE_S", 0.01)
    bad = serve(lambda number, _: chat("<guess>crate</guess>", usage=(9, 1)) if number == 0 else (500, SLOW_DOWN))
    tally, [game] = play(teacher(bad, small_words, max_retries=1))
    assert "InternalServerError" in (game.error or "")
    assert (tally.num_games, tally.num_errors, tally.tokens) == (0, 1, 10)
    assert [turn.guess for turn in game.turns] == ["crate"]
    assert len(bad.requests) == 3


def test_a_request_no_retry_can_help_is_sent_once(serve, small_words) -> None:
    endpoint = serve(lambda *_: (400, SLOW_DOWN))
    tally, [game] = play(teacher(endpoint, small_words))
    assert "BadRequestError" in (game.error or "")
    assert (tally.num_errors, len(endpoint.requests)) == (1, 1)


def test_an_error_with_half_a_surrogate_pair_can_be_written_to_a_file(serve, small_words, tmp_path) -> None:
    endpoint = serve(lambda *_: (400, {"error": {"message": "too long \ud83d"}}))
    _, [game] = play(teacher(endpoint, small_words))
    assert "too long" in (game.error or "")
    append_jsonl(tmp_path / "games.jsonl", game.to_row())
    assert [GameRecord.from_row(row) for row in read_jsonl(tmp_path / "games.jsonl")] == [game]


@pytest.mark.parametrize("limit", ["timeout_s", "game_timeout_s"])
def test_time_is_bounded(limit: str, serve, small_words) -> None:
    def asleep(number: int, body: dict):
        time.sleep(0.5)
        return winner(number, body)

    started = time.monotonic()
    _, [game] = play(teacher(serve(asleep), small_words, max_retries=0, **{limit: 0.1}))
    assert ("no whole response within" if limit == "timeout_s" else limit) in (game.error or "")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, SLOW_DOWN),
        (402, SLOW_DOWN),
        (404, SLOW_DOWN),
        (429, {"error": {"message": "pay", "code": "insufficient_quota"}}),
    ],
)
def test_a_refusal_that_every_game_would_meet_ends_the_run(status: int, body: dict, serve, small_words) -> None:
    endpoint = serve(lambda number, asked: winner(number, asked) if number < 2 else (status, body))
    games: list[GameRecord] = []
    asked = teacher(endpoint, small_words, max_concurrent=1)
    with pytest.raises(ConfigError, match="what was finished is kept") as caught:
        asked.play([Job(secret, i) for i, secret in enumerate(SECRETS)], games.append)
    assert (len(games), len(endpoint.requests)) == (2, 3)
    assert KEY not in str(caught.value)


def test_a_run_in_which_every_game_fails_stops(serve, small_words) -> None:
    endpoint = serve(lambda *_: (400, SLOW_DOWN))
    games: list[GameRecord] = []
    asked = teacher(endpoint, small_words, max_concurrent=1, max_failures=3)
    with pytest.raises(ConfigError, match="3 games in a row failed"):
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

    def answer(number: int, body: dict):
        leak: list[Callable[[], tuple]] = [
            lambda: chat(f"{KEY}", reasoning=f"my key is {KEY}", usage=(1, 1)),
            lambda: (400, {"error": {"message": f"bad {KEY}"}}),
        ]
        return leak[number % 2]()

    asked = teacher(serve(answer), small_words, max_concurrent=1)
    tally, games = play(asked, 2)
    assert Counter("(key)" in (game.error or "") for game in games) == {True: 2}
    assert "(key)" in games[0].turns[0].reply
    for text in (repr(asked), str(tally), caplog.text, *(json.dumps(game.to_row()) for game in games)):
        assert KEY not in text
