"""Laws of the process: one command serves, a signal ends it in order, and what it cannot do is one line."""

import signal
import socket
import subprocess
import sys

import pytest

from wordle_rl.cli import main
from wordle_rl.serve.openenv_client import WordleAction, WordleClient
from wordle_rl.serve.server import listen

SERVE = [sys.executable, "-W", "error::ResourceWarning", "-m", "wordle_rl", "serve", "--port", "0"]


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_one_command_serves_until_a_signal(signal_number) -> None:
    process = subprocess.Popen(SERVE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().removeprefix("serving at ").partition(";")[0]
        with WordleClient(address).sync() as env:
            env.reset(seed=1)
            assert env.step(WordleAction(message="<guess>crane</guess>")).observation.marks is not None
        process.send_signal(signal_number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.wait()


def test_a_port_that_is_taken_is_one_line(capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert message.startswith(f"error: cannot listen on 127.0.0.1 port {port}")


def test_a_listener_drops_peers_that_take_in_nothing() -> None:
    with listen("127.0.0.1", 0, 7.5) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7500
