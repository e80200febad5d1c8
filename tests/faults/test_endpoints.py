"""Laws of endpoints that misbehave: play ends in time, a game is a win, a loss or an error, and no error is a loss."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

pytest.importorskip("openai")

from faulty_endpoint import FAULTS, OK, FaultyEndpoint, guesses_in_turn, mixed
from scripted import asked_of, opened

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.evaluation import PatienceSettings
from wordle_rl.config.teachers import LLMTeacherSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.asked import PlayerSpec
from wordle_rl.evaluate.figures import measure
from wordle_rl.evaluate.play import evaluate, record_of
from wordle_rl.policy.openai import OpenAISampler, check_endpoint
from wordle_rl.policy.providers import Endpoint
from wordle_rl.prompt import Prompter
from wordle_rl.rollout import play
from wordle_rl.teachers.llm import Job, LLMTeacher
from wordle_rl.words import WordList

TRY_S, GAME_S = 1.0, 6.0
SLACK = 4
"""A busy machine may take this many times as long."""
RETRIES = 2
GUESSES = ["crane", "abbey", "civic", "speed", "zonal", "kudzu"]
Start = Callable[[Callable[[int], str]], FaultyEndpoint]


@pytest.fixture
def start(monkeypatch) -> Iterator[Start]:
    monkeypatch.setattr("wordle_rl.policy.openai.PAUSE_S", 0.01)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01, raising=False)  # only to be quick
    servers = []

    def begin(choose: Callable[[int], str]) -> FaultyEndpoint:
        servers.append(FaultyEndpoint(guesses_in_turn(GUESSES), choose))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


def sampler(server: FaultyEndpoint, patience: PatienceSettings) -> OpenAISampler:
    return OpenAISampler(Endpoint(server.url, "NONE", "none"), "m", SamplingSettings(), patience, max_retries=RETRIES)


def evaluated(server: FaultyEndpoint, words: WordList, **limits: float) -> list[GameRecord]:
    patience = PatienceSettings(**{"timeout_s": TRY_S, "game_timeout_s": GAME_S, "max_failures": 0, **limits})
    asked = asked_of(words, words.answers, player=PlayerSpec(patience=patience))
    return evaluate(asked, opened(sampler(server, patience)), record_of)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_does_nothing_else_makes_an_error_in_time(fault: str, start: Start, small_words) -> None:
    server = start(lambda _: fault)
    patience = PatienceSettings(timeout_s=TRY_S, game_timeout_s=GAME_S)
    started = time.monotonic()
    [game] = play([InitialState("grape")], small_words, Prompter(), sampler(server, patience))
    assert game.error
    assert not game.transcript.turns
    assert server.num_requests == RETRIES + 1
    assert time.monotonic() - started < SLACK * (RETRIES + 1) * TRY_S


@pytest.mark.parametrize("fault", FAULTS)
def test_a_single_fault_costs_nothing_but_a_retry(fault: str, start: Start, small_words) -> None:
    server = start(lambda number: fault if number == 1 else OK)
    # Long enough that a sound answer is never too late on a busy machine, which would be asked for again.
    patience = PatienceSettings(timeout_s=3 * TRY_S, game_timeout_s=3 * GAME_S)
    [game] = play([InitialState("civic")], small_words, Prompter(), sampler(server, patience))
    assert game.error is None
    assert (game.transcript.won, game.transcript.turns_used) == (True, 3)
    assert server.met == {OK: 3, fault: 1}


@pytest.mark.slow
def test_in_an_evaluation_every_game_ends_and_no_error_is_a_loss(start: Start, small_words) -> None:
    server = start(mixed(seed=1, rate=0.5))
    started = time.monotonic()
    found = evaluated(server, small_words)
    seconds = time.monotonic() - started
    games = {record.secret: record for record in found}
    assert list(games) == list(small_words.answers)
    failed = [record for record in found if record.failed]
    assert 0 < len(failed) < len(games)
    for secret, record in games.items():
        if not record.failed:  # as with a server that never fails
            assert record.won == (secret in GUESSES)
            assert record.turns_used == (GUESSES.index(secret) + 1 if record.won else 6)
    figures = measure(found, max_turns=6)
    assert (figures.num_games, figures.num_errors) == (len(games) - len(failed), len(failed))
    assert figures.guess_distribution["loss"] == sum(not r.failed and not r.won for r in found)
    assert server.num_requests <= len(games) * 6 * (RETRIES + 1)
    assert seconds < SLACK * (len(games) / 16 + 1) * GAME_S
    assert len(server.met) > len(FAULTS) / 2, "the seed meets many of the faults"


def test_a_whole_evaluation_is_bounded_in_time_too(start: Start, small_words) -> None:
    started = time.monotonic()
    found = evaluated(start(lambda _: "hang"), small_words, max_minutes=0.02, game_timeout_s=600)
    assert time.monotonic() - started < 15.0
    assert all(record.failed for record in found)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_a_teacher_ends_and_none_of_its_errors_is_a_game(rate: float, start: Start, small_words) -> None:
    server = start(mixed(seed=2, rate=rate))
    settings = LLMTeacherSettings(
        model="m", max_retries=RETRIES, timeout_s=TRY_S, game_timeout_s=GAME_S, max_concurrent=16, max_failures=1000
    )
    games = []
    jobs = [Job(secret, 0) for secret in small_words.answers]
    started = time.monotonic()
    tally = LLMTeacher(small_words, Endpoint(server.url, "NONE", "none"), settings).play(jobs, games.append)
    assert time.monotonic() - started < SLACK * (len(jobs) / 16 + 1) * GAME_S
    assert tally.num_games + tally.num_errors == len(games) == len(jobs)
    assert sorted(game.secret for game in games) == sorted(small_words.answers)
    for game in games:
        if game.error is None:
            assert game.won == (game.secret in GUESSES)
            assert game.won or len(game.turns) == 6
        else:
            assert not game.won
    assert (tally.num_games > 0) == (rate < 1)
    assert server.num_requests <= len(jobs) * 6 * (RETRIES + 1)


def test_a_list_of_models_that_trickles_in_is_not_waited_for(monkeypatch, start: Start) -> None:
    monkeypatch.setattr("wordle_rl.policy.openai._LOOK_S", 0.3)
    server = start(lambda _: OK)

    def trickle(self: FaultyEndpoint, peer: socket.socket) -> None:
        with suppress(OSError), peer:
            self._trickle(peer, b"HTTP/1.1 200 OK")

    monkeypatch.setattr(FaultyEndpoint, "_converse", trickle)
    started = time.monotonic()
    with pytest.raises(ConfigError, match="no response from"):
        check_endpoint(Endpoint(server.url, "NONE", "none"))
    assert time.monotonic() - started < 6.0
