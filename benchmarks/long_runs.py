"""Memory, threads and open files of a process over a long run, read all along.

    python benchmarks/long_runs.py training [--steps 2000]
    python benchmarks/long_runs.py games [--games 200000]
    python benchmarks/long_runs.py server [--hours 24]

`training` is `wordle-rl run` with the smallest model; `games` plays whole games through the environment, text in and
text out; `server` is a day of traffic under a clock that runs 240 times as fast: games that end, connections that are
left in eight ways, sessions that fall silent until the server closes them. The exit code is 1 if something grew: if
after a warm-up, the first quarter, memory rises by more than 5 % from end to end of its straight line, or if there are
always more threads or open files in the last quarter than there were in the first. --record and --svg write the
readings and their plot.
"""

import argparse
import asyncio
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from measure import hardware
from readings import Reading, draw, growth, read
from server_process import started
from soak import abandon, play
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from wordle_rl.env import WordleEnv
from wordle_rl.prompt import Prompter
from wordle_rl.words import load_words

MOST_GROWTH = 0.05
SPEED = 240.0
"""Seconds of the server's clock in a second."""
IDLE_S = 1800.0
HERE = Path(__file__).resolve().parent
SMALLEST = """
max_completion_tokens = 12
[game]
style = "compact"
thinking = "off"
[model]
hidden_size = 32
num_layers = 1
[traces]
num_games = 4000
[sft]
batch_size = 32
validations_per_epoch = 0
[sft.optimizer]
learning_rate = 3e-3
muon_learning_rate = 0.02
[grpo]
groups_per_step = 2
group_size = 4
save_steps = 250
[grpo.reward]
weights = { win = 1.0, valid_word = 1.0, greens = 1.0 }
keep_order = false
[eval]
max_games = 50
"""


def training(steps: int, every_s: float = 1.0) -> Iterator[Reading]:
    """Readings of a whole `wordle-rl run`, while its GRPO lasts."""
    with tempfile.TemporaryDirectory() as directory:
        config, out = Path(directory) / "smallest.toml", Path(directory) / "run"
        config.write_text(SMALLEST)
        command = [sys.executable, "-m", "wordle_rl", "run", str(config), "--out", str(out)]
        process = subprocess.Popen([*command, "--grpo.steps", str(steps), "--until", "grpo"], stdout=subprocess.DEVNULL)
        metrics, done = out / "metrics.jsonl", 0
        try:
            while process.poll() is None:
                time.sleep(every_s)
                # The last line may be half written.
                rows = metrics.read_text().rpartition("\n")[0].splitlines() if metrics.is_file() else []
                found = [json.loads(line) for line in rows[-1:]]
                if found and found[0].get("stage") == "grpo" and found[0]["step"] > done and process.poll() is None:
                    done = found[0]["step"]
                    yield read(process.pid, done)
        finally:
            process.terminate()
        if process.returncode:
            raise RuntimeError(f"the training ended with {process.returncode}")


def games(count: int, every: int = 5000) -> Iterator[Reading]:
    """Readings of this process while it plays games: listed, unlisted and unreadable replies, wins and losses."""
    words, prompter, rng = load_words(), Prompter(), random.Random(0)
    pid = int(Path("/proc/self").readlink().name)
    for number in range(1, count + 1):
        secret = rng.choice(words.answers)
        env = WordleEnv(secret, words, prompter)
        while env.stop_reason is None:
            guess = secret if rng.random() < 0.1 else rng.choice(words.guesses)
            env.step(rng.choice((f"<guess>{guess}</guess>", f"<think>{guess}?</think><guess>{guess}</guess>", guess)))
        if number % every == 0:
            yield read(pid, number)


async def fall_silent(port: int) -> float:
    """Begin a game and say no more; the seconds until the server ends the session."""
    async with connect(f"ws://127.0.0.1:{port}/ws", ping_interval=None, open_timeout=300) as socket:
        await socket.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
        begun = time.monotonic()
        try:
            while True:
                await socket.recv()
        except ConnectionClosed:
            return time.monotonic() - begun


async def day(port: int, pid: int, hours: float, told: Callable[[Reading], None]) -> dict[str, float]:
    """Traffic of so many hours of the server's clock, and what it was."""
    seconds, begun = hours * 3600 / SPEED, time.monotonic()
    stop, faults, silent, numbers = asyncio.Event(), list[str](), list[float](), itertools.count()

    async def until_end(work: Callable[[], object]) -> None:
        while not stop.is_set():
            await work()  # type: ignore[misc]  # all of them are coroutines

    async def leave() -> None:
        await abandon(port, next(numbers))
        await asyncio.sleep(0.02)

    async def be_silent() -> None:
        silent.append(await fall_silent(port))

    turns = 0

    async def visit() -> None:
        nonlocal turns
        gone = asyncio.Event()
        asyncio.get_running_loop().call_later(2, gone.set)
        turns += await play(port, random.randrange(1000), gone, faults)

    work = (visit, visit, leave, leave, be_silent, be_silent, be_silent)
    tasks = [asyncio.create_task(until_end(each)) for each in work]
    while (passed := time.monotonic() - begun) < seconds:
        await asyncio.sleep(min(1.0, seconds / 40))
        told(read(pid, passed * SPEED / 3600))
        for task in tasks:
            if task.done():
                task.result()  # raises what ended it
    stop.set()
    await asyncio.gather(*tasks)
    if faults:
        raise RuntimeError(f"wrong answers: {faults[:3]}")
    late = max(silent) * SPEED
    return {"turns": turns, "connections_left": next(numbers), "silent_sessions": len(silent), "ended_after_s": late}


def server(hours: float) -> tuple[list[Reading], dict[str, float]]:
    """Readings of the server over so many hours of its clock, and the traffic."""
    readings: list[Reading] = []
    command = [sys.executable, str(HERE / "fast_clock_server.py"), str(SPEED), "--port", "0", "--idle-timeout-s",
               str(IDLE_S), "--ping-timeout-s", "1200"]  # fmt: skip
    with started(command) as process:
        traffic = asyncio.run(day(process.port, process.pid, hours, readings.append))
    return readings, traffic


def main() -> int:
    """Run one of the three and tell what it held."""
    parser = argparse.ArgumentParser(description="Read what a long run holds.")
    parser.add_argument("run", choices=("training", "games", "server"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--games", type=int, default=200_000)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--record", type=Path, help="write the readings to this file")
    parser.add_argument("--svg", type=Path, help="write their plot to this file")
    asked = parser.parse_args()
    begun, unit = time.monotonic(), {"training": "steps", "games": "games", "server": "hours"}[asked.run]
    traffic: dict[str, float] = {}
    if asked.run == "server":
        readings, traffic = server(asked.hours)
    else:
        readings = list(training(asked.steps) if asked.run == "training" else games(asked.games, asked.games // 40))
    grew = growth(readings)
    flat = grew["memory"] <= MOST_GROWTH and max(grew["threads"], grew["files"]) <= 0
    report = {"run": asked.run, unit: readings[-1].done, "seconds": round(time.monotonic() - begun, 1),
              "first": asdict(readings[0]), "last": asdict(readings[-1]), "growth": grew, **traffic, "flat": flat,
              "hardware": hardware()}  # fmt: skip
    if asked.record is not None:
        asked.record.write_text(json.dumps(report | {"readings": [asdict(r) for r in readings]}, indent=1) + "\n")
    if asked.svg is not None:
        draw(readings, unit, asked.svg)
    print(json.dumps(report, indent=2))
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
