"""Real model servers for tests: started on a free port, waited for, always stopped."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from wordle_rl.evaluate.records import Evaluation


@contextmanager
def model_server(
    command: Callable[[int], Sequence[str]], log: Path, environment: Mapping[str, str], limit_s: float
) -> Iterator[str]:
    """Run a server for as long as the block lasts.

    Args:
        command: The command line for a port.
        log: Where its output goes; shown if it does not come up.
        environment: Variables on top of this process's own.
        limit_s: Time it has to answer, in seconds.

    Returns:
        Address of its API.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(port),
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,  # so that its own children can be stopped with it
        )
    try:
        deadline = time.monotonic() + limit_s
        while not answers(f"{url}/models"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"no server after {limit_s:g} s:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.2)
        yield url
    finally:
        stop(process)


def plays_the_same_games(
    cli: Callable, url: str, name: str, directory: Path, words: Path, out: Path, style: str = "compact"
) -> None:
    """A server plays as this process plays from the directory; served.json and here.json are left in `out`."""
    game = ("--words", words, "--split", "test", "--max-completion-tokens", 12)
    wording = ("--style", style, "--shape", "state", "--thinking", "off")
    served, here = out / "served.json", out / "here.json"
    player = ("--player", f"openai:{name}", "--base-url", url, "--concurrency", 4)
    code, _, err = cli("eval", *player, *game, *wording, "--out", served)
    assert code == 0, err
    code, _, err = cli("eval", "--player", directory, *game, *wording, "--out", here)
    assert code == 0, err
    over_the_wire, in_process = Evaluation.load(served), Evaluation.load(here)
    assert over_the_wire.figures().num_errors == 0
    assert over_the_wire.records == in_process.records
    assert len({turn.reply for record in in_process.records for turn in record.turns}) > 1


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server and all it started: asked first, then made to."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=10)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait(timeout=10)
