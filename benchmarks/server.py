"""Processor time of the server per turn, and its threads with many sessions open.

    python benchmarks/server.py [--sessions 64] [--games 20] [--repeats 5] [--open 2000] [--json]
        [--peer-python PYTHON --textarena-source DIR]

Clients in this process play scripted games of six guesses over as many WebSockets as there are sessions, and the
processor clock of the server's process is read before and after. A reset a game is part of a turn's share. "Rules" is
the same guesses without a server, on the answers in order. The stock no-op is an environment of openenv's that does
nothing, served by openenv as it comes. With an environment that has openenv and TextArena, and a directory with
openenv's `textarena_env`, that one is measured too. Servers take turns, so that a busy machine slows all of them alike.
"""

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from environment import lay_out_words
from measure import hardware
from rich.console import Console
from rich.table import Table
from server_process import ServerProcess, own_server, started
from websockets.asyncio.client import ClientConnection, connect

from wordle_rl.env import WordleEnv
from wordle_rl.prompt import Prompter
from wordle_rl.words import load_words

GUESSES = ("crane", "slips", "mould", "about", "fight", "jumpy")
PEERS = str(Path(__file__).with_name("server_peers.py"))


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        what: What was measured.
        value: Median over the repeats.
        lowest: Lowest repeat.
        highest: Highest repeat.
        unit: Of the three.
        note: Counts and versions.
    """

    what: str
    value: float
    lowest: float
    highest: float
    unit: str
    note: str = ""


def row(what: str, values: Sequence[float], unit: str, note: str = "") -> Row:
    """A row from repeats."""
    return Row(what, statistics.median(values), min(values), max(values), unit, note)


async def play(port: int, sessions: int, games: int, guess: Callable[[str], str]) -> tuple[int, float]:
    """Games on many sessions at once; the turns played and the seconds they took."""
    async with _connections(port, sessions) as sockets:

        async def one(place: int, socket: ClientConnection) -> int:
            turns = 0
            for game in range(games):
                await socket.send(json.dumps({"type": "reset", "data": {"seed": place * games + game}}))
                _checked(await socket.recv())
                for word in GUESSES:
                    await socket.send(json.dumps({"type": "step", "data": {"message": guess(word)}}))
                    turns += 1
                    if '"done":true' in _checked(await socket.recv()):
                        break
            return turns

        begun = time.perf_counter()
        turns = sum(await asyncio.gather(*(one(place, socket) for place, socket in enumerate(sockets))))
        return turns, time.perf_counter() - begun


class _connections:
    """Many connections, opened some at a time."""

    def __init__(self, port: int, count: int) -> None:
        self._address, self._count = f"ws://127.0.0.1:{port}/ws", count
        self._open: list[ClientConnection] = []

    async def __aenter__(self) -> list[ClientConnection]:
        for place in range(0, self._count, 50):
            opening = (
                connect(self._address, compression=None, ping_interval=None, open_timeout=120)
                for _ in range(min(50, self._count - place))
            )
            self._open += await asyncio.gather(*opening)
        return self._open

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(socket.close() for socket in self._open))


def _checked(text: str | bytes) -> str:
    text = str(text)
    if text.startswith('{"type":"error"'):
        raise RuntimeError(f"the server refused: {text}")
    return text


def cpu_per_turn(server: ServerProcess, sessions: int, games: int, guess: Callable[[str], str]) -> float:
    """Milliseconds of the server's processor time per turn."""
    asyncio.run(play(server.port, sessions, 1, guess))  # warm
    before = server.cpu_s()
    turns, _ = asyncio.run(play(server.port, sessions, games, guess))
    return 1000 * (server.cpu_s() - before) / turns


def rules_per_turn(games: int) -> float:
    """Milliseconds of processor time per turn of the same guesses without a server."""
    words, prompter = load_words(), Prompter()
    turns = 0
    begun = time.process_time()
    for place in range(games):
        env = WordleEnv(words.answers[place % len(words.answers)], words, prompter)
        for word in GUESSES:
            turns += 1
            if env.step(f"<guess>{word}</guess>").stop_reason is not None:
                break
    return 1000 * (time.process_time() - begun) / turns


async def open_many(server: ServerProcess, count: int) -> tuple[int, float]:
    """Threads and memory (KiB a session) with so many sessions open, each in a game."""
    empty = server.footprint()
    async with _connections(server.port, count) as sockets:
        for socket in sockets:
            await socket.send('{"type":"reset","data":{"seed":1}}')
        await asyncio.gather(*(socket.recv() for socket in sockets))
        full = server.footprint()
    return full.threads, 1024 * (full.memory_mib - empty.memory_mib) / count


def _peers(options: argparse.Namespace, directory: Path) -> Iterator[tuple[str, list[str], Callable[[str], str], str]]:
    """Names, commands, forms of a guess, and notes of the servers beside ours."""
    yield "stock no-op", [sys.executable, PEERS, "noop"], str, f"openenv {version('openenv')}"
    if options.peer_python:
        lay_out_words(load_words(), directory)
        probe = "from importlib.metadata import version; print(version('openenv'), version('textarena'))"
        found = subprocess.run([options.peer_python, "-c", probe], capture_output=True, text=True, check=True)
        own, textarena = found.stdout.split()
        command = [options.peer_python, PEERS, "textarena", options.textarena_source, str(directory)]
        note = f"openenv {own}, TextArena {textarena}, our words"
        yield "openenv's textarena_env", command, lambda word: f"[{word}]", note


def turn_rows(options: argparse.Namespace, own: ServerProcess, stack: ExitStack, directory: Path) -> list[Row]:
    """Processor time per turn of every server, by turns."""
    jobs: dict[str, tuple[Callable[[], float], str]] = {
        "rules alone": (lambda: rules_per_turn(options.sessions * options.games), "no server"),
        "ours": (
            lambda: cpu_per_turn(own, options.sessions, options.games, lambda word: f"<guess>{word}</guess>"),
            f"openenv {version('openenv')}, uvicorn {version('uvicorn')}, uvloop {version('uvloop')}",
        ),
    }
    for name, command, guess, note in _peers(options, directory):
        server = stack.enter_context(started(command))
        jobs[name] = (
            lambda server=server, guess=guess: cpu_per_turn(server, options.sessions, options.games, guess),  # type: ignore[misc]
            note,
        )
    measured: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(options.repeats):
        for name, (job, _) in jobs.items():
            measured[name].append(job())
    rows = [row(f"{name}, processor a turn", measured[name], "ms", note) for name, (_, note) in jobs.items()]
    beyond = [ours - rules for ours, rules in zip(measured["ours"], measured["rules alone"], strict=True)]
    return [*rows, row("ours, beyond the rules", beyond, "ms", f"{options.sessions} sessions")]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time the server.")
    parser.add_argument("--sessions", type=int, default=64, help="sessions that play at once")
    parser.add_argument("--games", type=int, default=20, help="games of each session in a repeat")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each job; the median is shown")
    parser.add_argument("--open", type=int, default=2000, help="sessions that are open at once")
    parser.add_argument("--peer-python", default="", help="Python of an environment with openenv and textarena")
    parser.add_argument("--textarena-source", default="", help="directory that holds openenv's textarena_env")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, options.open + 256)), hard))
    with ExitStack() as stack, tempfile.TemporaryDirectory() as directory:
        own = stack.enter_context(started(own_server("--max-client-sessions", "4096")))
        rows = turn_rows(options, own, stack, Path(directory))
        threads, kib = asyncio.run(open_many(own, options.open))
        rows.append(row(f"ours, threads with {options.open} sessions open", [threads], "threads"))
        rows.append(row(f"ours, memory with {options.open} sessions open", [kib], "KiB/session"))
    if options.json:
        print(json.dumps({"hardware": hardware(), "rows": [asdict(each) for each in rows]}, indent=2))
        return
    table = Table(title="The server", caption=hardware())
    for heading in ("what", "median", "lowest", "highest", "unit", "note"):
        table.add_column(heading, justify="left" if heading in ("what", "unit", "note") else "right")
    for each in rows:
        figures = (
            f"{figure:,.3f}" if figure < 100 else f"{figure:,.0f}" for figure in (each.value, each.lowest, each.highest)
        )
        table.add_row(each.what, *figures, each.unit, each.note)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
