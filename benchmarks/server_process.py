"""A server as a process of its own, and what the system knows of it; shared by the benchmarks of the server."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Footprint:
    """Resources that a process holds.

    Attributes:
        memory_mib: Resident memory.
        threads: Threads.
        sockets: Open sockets.
    """

    memory_mib: float
    threads: int
    sockets: int


@dataclass(frozen=True)
class ServerProcess:
    """A server that answers."""

    pid: int
    port: int

    def cpu_s(self) -> float:
        """Processor seconds it has used, all threads, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def footprint(self) -> Footprint:
        """Resources held now."""
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if ":" in line
        )
        names = []
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                names.append(str(entry.readlink()))
            except FileNotFoundError:  # closed meanwhile
                continue
        sockets = sum(name.startswith("socket:") for name in names)
        return Footprint(int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), sockets)


@contextmanager
def started(command: Sequence[str], **variables: str) -> Iterator[ServerProcess]:
    """Start a server that prints its address, ending in the port, and stop it when the block ends.

    Raises:
        RuntimeError: If it prints something else.
    """
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | variables)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        address = line.partition(";")[0].strip()
        if "http://" not in address:
            raise RuntimeError(f"{command[0]} did not start: {line!r}")
        yield ServerProcess(process.pid, int(address.rpartition(":")[2]))
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def own_server(*options: str) -> list[str]:
    """The command of `wordle-rl serve` on a free port."""
    return [sys.executable, "-m", "wordle_rl", "serve", "--port", "0", *options]
