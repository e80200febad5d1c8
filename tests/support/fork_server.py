"""A process with everything imported that forks a child for each command, so that a kill costs no import of torch.

Started as a program it reads one JSON object a line (see `ForkServer.run`) and answers with one. A child can be killed
after a time, before its n-th write in its directory, or before or after a call of a function, and always by SIGKILL.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRELOADED = (
    "wordle_rl.__main__",
    "wordle_rl.pipeline",
    "wordle_rl.train.sft",
    "wordle_rl.train.grpo",
    "wordle_rl.train.distill",
    "wordle_rl.train.dpo",
    "wordle_rl.train.expert_iteration",
    "wordle_rl.policy.openai",
    "wordle_rl.teachers.llm",
    "wordle_rl.serve.app",
    "openai.resources.chat",
    "transformers.models.qwen3.modeling_qwen3",
)
LONGEST_S = 300
"""A command that takes longer has got stuck."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"}


@dataclass(frozen=True)
class Ended:
    """End of a command: its exit code (None: it was killed), seconds, writes in its directory, and output."""

    code: int | None
    seconds: float
    num_writes: int
    log: str


class ForkServer:
    """Runs commands in children of one process. `close` ends it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        source = Path(__file__).resolve().parents[2] / "src"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
        environment["GIT_DIR"] = os.devnull  # else a manifest tells the state of the source
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(
        self,
        arguments: list[str],
        directory: Path,
        *,
        kill_at_write: int = 0,
        kill_after_s: float | None = None,
        kill_at: str = "",
        before: str = "",
    ) -> Ended:
        """Run `wordle-rl` with these arguments in a directory.

        Args:
            arguments: As on the command line.
            directory: The working directory of the command.
            kill_at_write: Kill it just before its n-th write; 0: not so.
            kill_after_s: Kill it after that many seconds; None: not so.
            kill_at: `module:function:before:2` kills it before the second call of a function; or `after` it.
            before: Python that the child runs first.
        """
        asked = {"arguments": arguments, "directory": str(directory), "log": str(self._log)}
        asked |= {"kill_at_write": kill_at_write, "kill_after_s": kill_after_s, "kill_at": kill_at, "before": before}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return Ended(told["code"], told["seconds"], told["num_writes"], self._log.read_text(errors="replace"))

    def close(self) -> None:
        assert self._process.stdin is not None
        with self._process:  # closes its pipes, which it takes as the end
            self._process.stdin.close()
            self._process.wait(timeout=30)


def _serve() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        told = _run(asked)
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    count = Path(f"{asked['log']}.writes")
    count.unlink(missing_ok=True)
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _be_the_command(asked, count)
    limit = LONGEST_S if asked["kill_after_s"] is None else asked["kill_after_s"]
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - started >= limit:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            break
        time.sleep(0.002)
    seconds = time.monotonic() - started
    killed = os.WIFSIGNALED(status)
    assert not killed or os.WTERMSIG(status) == signal.SIGKILL, f"ended by signal {os.WTERMSIG(status)}"
    if killed and limit == LONGEST_S and seconds >= limit:
        raise TimeoutError(f"{asked['arguments']} took longer than {LONGEST_S} s")
    writes = int(count.read_text()) if count.is_file() else 0
    return {"code": None if killed else os.WEXITSTATUS(status), "seconds": seconds, "num_writes": writes}


def _be_the_command(asked: dict[str, Any], count: Path) -> None:
    """The child: output into the log, then the command, then out without any of the parent's cleaning up."""
    code = 70
    try:
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(asked["directory"])
        sys.argv = ["wordle-rl", *asked["arguments"]]
        if asked["before"]:
            exec(asked["before"], {})
        if asked["kill_at"]:
            _kill_at(asked["kill_at"])
        writes = _Writes(asked["directory"], asked["kill_at_write"])
        sys.addaudithook(writes)
        from wordle_rl.cli import main

        code = main(asked["arguments"])
        writes.directory = "\0"
        count.write_text(str(writes.count))
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


class _Writes:
    """An audit hook that counts what changes files of a directory, and kills the process before one of them."""

    def __init__(self, directory: str, kill_at: int) -> None:
        self.directory, self._kill_at, self.count = directory, kill_at, 0

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            if not (isinstance(args[2], int) and args[2] & _WRITES):
                return
        elif event not in _CHANGES:
            return
        path = args[0]
        if isinstance(path, int):
            return
        if not str(Path.cwd() / os.fsdecode(path)).startswith(self.directory):
            return
        self.count += 1
        if self.count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def _kill_at(told: str) -> None:
    """Have a function end the process before or after its n-th call."""
    module, name, moment, number = told.split(":")
    owner: Any = importlib.import_module(module)
    *outer, name = name.split(".")
    for part in outer:
        owner = getattr(owner, part)
    function, calls = getattr(owner, name), [0]

    def patched(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if moment == "before" and calls[0] == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **kwargs)
        if moment == "after" and calls[0] == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, patched)


if __name__ == "__main__":
    _serve()
