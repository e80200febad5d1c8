"""Laws of OpenEnv targets: a server is examined by address alone, and ours passes every check."""

from collections.abc import Iterator

import pytest

pytest.importorskip("openenv")

from faulty_games import WORDS, write_words
from wordle_server import RunningServer, secret_of, wordle_server

from wordle_rl.config.model import WordSettings
from wordle_rl.conformance.environment_checks import examine
from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.openenv import OpenEnvTarget
from wordle_rl.conformance.targets import Dialect, SessionLostError, TargetError
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.solver import Solver


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> ServeSettings:
    words = write_words(tmp_path_factory.mktemp("some-words"))
    return ServeSettings(words=WordSettings(source=words), reward_preset="notebook")


@pytest.fixture(scope="module")
def server(settings: ServeSettings) -> Iterator[RunningServer]:
    with wordle_server(settings) as running:
        yield running


@pytest.mark.slow
def test_our_server_passes_every_check(server: RunningServer) -> None:
    examiner = Examiner(OpenEnvTarget(server.address), Solver(WORDS), Dialect.TAGGED, num_games=10)
    assert {each.check_id: each.evidence for each in examine(examiner) if each.status != "pass"} == {}


def test_a_session_plays_and_shows_its_state(server: RunningServer) -> None:
    session = OpenEnvTarget(server.address).open(5)
    secret = secret_of(server.service, 5)
    other = next(word for word in WORDS.answers if word != secret)
    step = session.send(f"<guess>{other}</guess>")
    assert other in step.text
    assert (step.done, step.refused) == (False, False)
    assert "turns_left" in session.beside()
    assert secret not in session.opening.raw + step.raw + session.beside()
    last = session.send(f"<guess>{secret}</guess>")
    assert last.done
    assert last.earned > step.earned
    assert session.send(f"<guess>{other}</guess>").refused
    session.close()


def test_a_token_is_borne(settings: ServeSettings, monkeypatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "tell-nobody")
    with wordle_server(settings.model_copy(update={"token_variable": "SOME_TOKEN"})) as running:
        session = OpenEnvTarget(running.address, token="tell-nobody").open(0)
        assert not session.send("<guess>crane</guess>").done
        session.close()
        with pytest.raises(TargetError):
            OpenEnvTarget(running.address, token="another").open(0)


def test_a_connection_that_breaks_is_a_lost_session(settings: ServeSettings) -> None:
    with wordle_server(settings) as running:
        session = OpenEnvTarget(running.address).open(0)
    with pytest.raises(SessionLostError):
        session.send("<guess>crane</guess>")
    session.close()
