"""Laws of the sessions: a full server, an idle session, a half-open socket, a shutdown end in one way."""

import json
import logging
import socket
import time

import pytest
from websockets.exceptions import ConnectionClosed
from wordle_server import RunningServer, ask, refusal, say, wordle_server

from wordle_rl.serve.serve_settings import ServeSettings


def sessions_left(running: RunningServer, count: int, within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while len(running.sessions) != count and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(running.sessions) == count


def test_a_full_server_says_so_and_takes_the_next_when_one_has_left() -> None:
    with wordle_server(ServeSettings(max_sessions=2)) as running:
        with running.connect() as first, running.connect("/textarena/ws") as second:
            ask(first, "reset")
            ask(second, "reset")
            with running.connect() as third:
                answer = json.loads(third.recv())
                assert refusal(answer) == "full"
                assert answer["data"]["code"] == "CAPACITY_REACHED"
                assert (answer["data"]["active_sessions"], answer["data"]["max_sessions"]) == (2, 2)
                with pytest.raises(ConnectionClosed) as closed:
                    third.recv()
                assert closed.value.rcvd.code == 1013
            assert ask(first, "reset")["type"] == "observation"
        assert sessions_left(running, 0)
        with running.connect() as again:
            assert ask(again, "reset")["type"] == "observation"


def test_one_client_does_not_take_the_sessions_of_others() -> None:
    other = {"X-Forwarded-For": "192.0.2.1"}  # a proxy on this machine is believed
    with wordle_server(ServeSettings(max_sessions=3, max_client_sessions=2)) as running:
        with running.connect() as first, running.connect("/textarena/ws"), running.connect() as third:
            answer = json.loads(third.recv())
            assert refusal(answer) == "full"
            assert (answer["data"]["active_sessions"], answer["data"]["max_sessions"]) == (2, 2)
            with running.connect(additional_headers=other) as elsewhere:
                assert ask(elsewhere, "reset")["type"] == ask(first, "reset")["type"] == "observation"
        assert sessions_left(running, 0)
        with running.connect() as again:
            assert ask(again, "reset")["type"] == "observation"


def test_a_request_must_arrive_in_time_and_a_session_need_not() -> None:
    host = b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    nothing, half_a_header, whole = b"", b"GET /health" + host, b"GET /health" + host + b"\r\n"
    half_a_body = b"POST /reset" + host + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    with_a_body = b"GET /ws" + host + b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 9\r\n\r\n"
    with wordle_server(ServeSettings(request_timeout_s=0.5)) as running, running.connect() as session:
        ask(session, "reset")
        for sent in ([nothing], [half_a_header], [half_a_body], [with_a_body], [whole, half_a_header]):
            # Less than the 5 s after which uvicorn ends a pause between requests.
            with socket.create_connection(("127.0.0.1", running.port), timeout=3) as raw:
                for part in sent[:-1]:
                    raw.sendall(part)
                    assert b" 200 " in raw.recv(4096)
                raw.sendall(sent[-1])
                begun = time.monotonic()
                while raw.recv(4096):  # until the server closes it
                    pass
                assert time.monotonic() - begun > 0.3, sent
        say(session, "crane")


def test_a_frame_that_is_no_text_ends_its_session_in_one_line(caplog) -> None:
    with wordle_server() as running, running.connect() as odd:
        logger = logging.getLogger("uvicorn.error")
        logger.addHandler(caplog.handler)
        try:
            odd.send(b"\xff\xfe", text=True)
            with pytest.raises(ConnectionClosed) as closed:
                odd.recv(timeout=10)
        finally:
            logger.removeHandler(caplog.handler)
        assert closed.value.rcvd.code == 1007
        assert "Traceback" not in caplog.text
        assert len(caplog.text.splitlines()) == 1


def test_clients_that_stop_at_their_own_turn_limit_hold_no_session() -> None:
    """ms-swift #9745: a rollout that its trainer ended at max_turns, in the middle of a game, was never closed."""
    with wordle_server(ServeSettings(max_sessions=2)) as running:
        for _ in range(3):  # more rollouts than sessions
            with running.connect() as first, running.connect() as second:
                for client in (first, second):
                    assert ask(client, "reset")["type"] == "observation"
                    say(client, "crane")
                first.socket.shutdown(socket.SHUT_RDWR)  # vanishes without a closing handshake
            assert sessions_left(running, 0)


def test_an_idle_session_ends_with_a_reason_and_a_busy_one_stays() -> None:
    settings = ServeSettings(idle_timeout_s=1.0)
    with wordle_server(settings) as running, running.connect() as idle, running.connect() as busy:
        ask(idle, "reset")
        ask(busy, "reset")
        for _ in range(6):
            time.sleep(0.4)
            assert ask(busy, "state")["type"] == "state"
        assert refusal(json.loads(idle.recv(timeout=5))) == "idle"
        with pytest.raises(ConnectionClosed) as closed:
            idle.recv()
        assert closed.value.rcvd.code == 1001
        assert len(running.sessions) == 1


def handshake(port: int) -> socket.socket:
    """A WebSocket opened by hand, which from then on neither reads nor answers pings."""
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(
        b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n" % port
    )
    assert b" 101 " in raw.recv(4096)
    return raw


def test_a_half_open_connection_is_found_by_pings() -> None:
    with wordle_server(ServeSettings(ping_timeout_s=0.3)) as running:
        raw = handshake(running.port)
        assert sessions_left(running, 1)
        with running.connect() as alive:
            assert sessions_left(running, 2)
            assert sessions_left(running, 1, within_s=5)
            assert ask(alive, "reset")["type"] == "observation"
        raw.close()


def test_messages_sent_ahead_are_answered_in_their_order() -> None:
    with wordle_server() as running, running.connect() as ahead:
        ahead.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
        for word in ("crane", "slips", "mould"):
            ahead.send(json.dumps({"type": "step", "data": {"message": f"<guess>{word}</guess>"}}))
        ahead.send("no json")
        ahead.send(json.dumps({"type": "state"}))
        answers = [json.loads(ahead.recv(timeout=10)) for _ in range(6)]
        assert [answer["data"]["observation"]["guess"] for answer in answers[1:4]] == ["crane", "slips", "mould"]
        assert refusal(answers[4]) == "bad_json"
        assert answers[5]["data"]["step_count"] == 3


def test_binary_and_overlong_messages_have_a_defined_end() -> None:
    with wordle_server(ServeSettings(max_message_bytes=2048)) as running:
        with running.connect() as odd, running.connect() as other:
            odd.send(b"\x00\x01")
            assert refusal(json.loads(odd.recv())) == "bad_json"
            odd.send("x" * 4096)
            with pytest.raises(ConnectionClosed) as closed:
                odd.recv()
            assert closed.value.rcvd.code == 1009
            assert ask(other, "reset")["type"] == "observation"
        assert sessions_left(running, 0)


def test_a_shutdown_answers_what_was_asked_refuses_what_is_new_and_says_goodbye() -> None:
    settings = ServeSettings(shutdown_timeout_s=60.0)
    with wordle_server(settings) as running, running.connect() as thinking, running.connect() as quiet:
        ask(thinking, "reset", seed=1, reward="shaped")  # judging its first turn takes the solver a while
        ask(quiet, "reset")
        thinking.send(json.dumps({"type": "step", "data": {"message": "<guess>slips</guess>"}}))
        deadline = time.monotonic() + 5
        while not any(session.busy for session in running.sessions._open) and time.monotonic() < deadline:
            time.sleep(0.001)
        running.server.should_exit = True
        answer = json.loads(thinking.recv(timeout=30))
        assert (answer["type"], answer["data"]["observation"]["guess"]) == ("observation", "slips")
        for socket_ in (thinking, quiet):
            assert refusal(json.loads(socket_.recv(timeout=30))) == "shutting_down"
            with pytest.raises(ConnectionClosed) as closed:
                socket_.recv()
            assert closed.value.rcvd.code == 1012
