"""A storm on the server: connections opened and abandoned, slow readers, garbage, huge messages, while games go on.

    python benchmarks/soak.py [--connections 10000] [--json]

The storm comes four times. In the first three, buffers grow to what a storm needs, and the allocator keeps them: memory
then goes up and down by a tenth. During the last one some sessions play and check every answer. The server's memory,
threads and sockets are read after each, when its sessions are gone. The exit code is 1 if one of these ends more than
10 % above the reading of the most memory before, or if an answer was wrong or missing.
"""

import argparse
import asyncio
import itertools
import json
import random
import struct
import sys
import time
from dataclasses import asdict

from measure import hardware
from server_process import Footprint, ServerProcess, own_server, started
from websockets.asyncio.client import connect

PLAYERS = 4
AT_ONCE = 250
MOST = 1.10
UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
WORDS = ("crane", "slips", "mould", "about", "fight", "jumpy")
IDLE_S, PING_S = 20.0, 3.0


def frame(payload: bytes, opcode: int = 1) -> bytes:
    """A masked WebSocket frame with a mask of zeros."""
    head = bytes([0x80 | opcode])
    if len(payload) < 126:
        head += bytes([0x80 | len(payload)])
    elif len(payload) < 65536:
        head += bytes([0x80 | 126]) + struct.pack("!H", len(payload))
    else:
        head += bytes([0x80 | 127]) + struct.pack("!Q", len(payload))
    return head + bytes(4) + payload


RESET = frame(b'{"type":"reset","data":{"seed":1}}')
STEP = frame(b'{"type":"step","data":{"message":"<guess>crane</guess>"}}')
STATE = frame(b'{"type":"state"}')


async def abandon(port: int, number: int) -> None:
    """Open a connection and leave it in one of the ways that connections are left."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path = ("/ws", "/mcp", "/nowhere")[number % 97 % 3 if number % 5 == 0 else 0]
    writer.write(UPGRADE.format(path=path, port=port).encode())
    way = number % 8
    try:
        if way:
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 300)
        sends = {2: RESET, 3: RESET + STEP[: len(STEP) // 2], 4: frame(random.randbytes(40), 2), 5: frame(b"[" * 5000),
                 6: RESET + STEP * 50, 7: frame(b"x" * 70_000)}  # fmt: skip
        writer.write(sends.get(way, b""))
        await writer.drain()
        if way == 6:
            await reader.read(100)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the server may end a wrong connection at once
    finally:
        writer.transport.abort()


async def read_slowly(port: int) -> None:
    """Ask for far more than is read, until the server gives up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(UPGRADE.format(path="/ws", port=port).encode())
    try:
        writer.write(RESET)
        for _ in range(3000):
            writer.write(STATE * 20)
            await asyncio.wait_for(writer.drain(), 1)
            await reader.read(64)
    except (ConnectionError, TimeoutError):
        pass
    await asyncio.sleep(2 * PING_S)
    writer.transport.abort()


async def play(port: int, seed: int, stop: asyncio.Event, faults: list[str]) -> int:
    """Play correct games until told to stop; returns the number of turns."""
    turns = 0
    async with connect(f"ws://127.0.0.1:{port}/ws", compression=None, ping_interval=None, open_timeout=300) as socket:
        expected: list[str] = []
        while not stop.is_set():
            await socket.send(json.dumps({"type": "reset", "data": {"seed": seed, "episode_id": "same"}}))
            heard = [await socket.recv()]
            for word in WORDS:
                await socket.send(json.dumps({"type": "step", "data": {"message": f"<guess>{word}</guess>"}}))
                heard.append(str(await socket.recv()))
                turns += 1
            texts = [str(text) for text in heard]
            if expected and texts != expected:
                faults.append(f"seed {seed}: {texts}")
            expected = texts
            await asyncio.sleep(0.01)
    return turns


async def storm(port: int, connections: int, slow: int) -> None:
    """All of it, some hundreds at once."""
    numbers = itertools.count()

    async def one_after_another(count: int) -> None:
        for _ in range(count):
            await abandon(port, next(numbers))

    share, rest = divmod(connections, AT_ONCE)
    counts = [share + (place < rest) for place in range(AT_ONCE)]
    await asyncio.gather(*map(one_after_another, counts), *(read_slowly(port) for _ in range(slow)))


async def settled(server: ServerProcess, sockets: int, within_s: float) -> Footprint:
    """The footprint once no more sockets are open than before, or time is up."""
    deadline = time.monotonic() + within_s
    while server.footprint().sockets > sockets and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
    return server.footprint()


async def soak(server: ServerProcess, connections: int, slow: int) -> tuple[Footprint, Footprint, int, list[str]]:
    """Footprints before and after, turns played meanwhile, and faults."""
    fresh = server.footprint().sockets
    kept = []
    for _ in range(3):  # under load, the allocator has reached its size after the third
        await storm(server.port, connections, slow)
        kept.append(await settled(server, fresh, 90))
    before = max(kept, key=lambda footprint: footprint.memory_mib)
    stop, faults = asyncio.Event(), list[str]()
    players = [asyncio.create_task(play(server.port, seed, stop, faults)) for seed in range(PLAYERS)]
    await storm(server.port, connections, slow)
    stop.set()
    turns = sum(await asyncio.gather(*players))
    return before, await settled(server, before.sockets, 90), turns, faults


def main() -> int:
    """Run the storm and print what the server holds before and after it."""
    parser = argparse.ArgumentParser(description="Storm the server.")
    parser.add_argument("--connections", type=int, default=10_000, help="connections that are opened and abandoned")
    parser.add_argument("--slow", type=int, default=50, help="readers that ask for more than they read")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    options = parser.parse_args()
    command = own_server(
        "--idle-timeout-s", str(IDLE_S), "--ping-timeout-s", str(PING_S), "--max-message-bytes", "65536"
    )
    with started(command) as server:
        begun = time.monotonic()
        before, after, turns, faults = asyncio.run(soak(server, options.connections, options.slow))
        seconds = time.monotonic() - begun
    ratios = {name: getattr(after, name) / value for name, value in asdict(before).items()}
    held = not faults and turns > 0 and all(ratio <= MOST for ratio in ratios.values())
    report = {"connections": options.connections, "slow_readers": options.slow, "seconds": round(seconds, 1),
              "turns_meanwhile": turns, "before": asdict(before), "after": asdict(after), "ratios": ratios,
              "faults": faults[:5], "held": held, "hardware": hardware()}  # fmt: skip
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        for name, value in report.items():
            print(f"{name:<16} {value}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
