"""OpenEnv's validation of our environment without Docker: the server runs as a process of this machine.

    python environments/openenv/validation/local.py environments/openenv

It prints OpenEnv's report, and the ids of checks that OpenEnv lists and nothing implements.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openenv.validation import Level, run_validation
from openenv.validation.manifest import ExecutionDeclaration
from openenv.validation.policy import SeverityPolicy, load_policy
from openenv.validation.providers import ExecResult, ProviderError, StartupError
from openenv.validation.report import ValidationReport, ValidationReportV2
from openenv.validation.runner import default_grader_registry, source_digest
from openenv.validation.runtime.contracts import LaunchSpec
from openenv.validation.types import ProviderCapability

_READY = "serving at "
_PROBE = """
import json, socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5).close()
    print(json.dumps({"result": "reachable"}))
except OSError as error:
    print(json.dumps({"result": "inconclusive", "errno": error.errno}))
"""


class ServerProcess:
    """A server that was started for validation: OpenEnv's `RunningSubject`."""

    def __init__(self, spec: LaunchSpec, startup_timeout_s: float) -> None:
        self._spec = spec
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by stop
        command = [sys.executable, "-m", "wordle_rl", "serve", "--port", "0"]
        environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment | spec.env_vars
        )
        self._limit()
        try:
            self.base_url = self._address(startup_timeout_s)
        except BaseException:
            self.stop()
            raise

    def _limit(self) -> None:
        """Hold the process to the cores and the size of files that the package declares."""
        cores = sorted(os.sched_getaffinity(0))[: max(1, round(self._spec.resources.cpu))]
        os.sched_setaffinity(self._process.pid, cores)
        most = self._spec.resources.disk_mb * 2**20
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (most, most))

    def _address(self, timeout_s: float) -> str:
        lines: queue.Queue[str] = queue.Queue()
        output = self._process.stdout
        assert output is not None
        threading.Thread(target=lambda: lines.put(output.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=timeout_s)
        except queue.Empty:
            raise StartupError(f"the server printed nothing for {timeout_s:g} s") from None
        if not line.startswith(_READY):
            raise StartupError(f"the server did not start: {self.logs()[-500:]}")
        return line.removeprefix(_READY).partition(";")[0]

    def inspect(self) -> dict[str, Any]:
        """Its process id and its peak memory, which must be within what the package declares."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        peak_kib = int(status.partition("VmHWM:")[2].split()[0])
        if peak_kib > self._spec.resources.memory_mb * 1024:
            raise ProviderError(f"{peak_kib // 1024} MiB are more than the {self._spec.resources.memory_mb} declared")
        return {"pid": self._process.pid, "peak_memory_mb": peak_kib // 1024}

    def logs(self, max_bytes: int = 65536) -> str:
        """The end of what it wrote to standard error."""
        self._log.seek(0)
        return self._log.read()[-max_bytes:]

    def exec(self, argv: list[str], timeout_s: float) -> ExecResult:  # noqa: ARG002  # the signature is given
        """Refused: a process without a container of its own has no inside."""
        raise ProviderError("a local process runs no further commands")

    def measure_network(self) -> dict[str, Any]:
        """Reachability of a sink of ours, from here and from the server's namespace, which must be the same one."""
        if _network_of("self") != _network_of(str(self._process.pid)):
            raise ProviderError("the server runs in a network namespace of its own, which is not measured")
        with socket.create_server(("127.0.0.1", 0)) as sink:
            outcomes = [
                json.loads(subprocess.run(
                    [sys.executable, "-c", _PROBE, str(sink.getsockname()[1])],
                    capture_output=True, text=True, check=True, timeout=30,
                ).stdout)
                for _ in range(2)
            ]  # fmt: skip
        return {
            "requested_mode": self._spec.network.mode,
            "subject_network_mode": "host",
            "namespace": _namespace(),
            "probes": [{"kind": "tcp", "control": outcomes[0], "subject": outcomes[1]}],
        }

    def stop(self) -> None:
        """Stop it as Ctrl-C does, or by force where that does not help."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


class LocalProcessProvider:
    """OpenEnv's `ValidationProvider` for a process of this machine. `patience` times the deadline of the start."""

    name = "local-process"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD, ProviderCapability.NETWORK_POLICY})
    supported_network_modes = frozenset({"public"})

    def __init__(self, patience: float = 1.0) -> None:
        self._patience = patience

    def build(self, root: Path, execution: ExecutionDeclaration) -> str:
        """The digest of the package; there is no image, as the installed package is what runs."""
        if not (root / execution.dockerfile).is_file():
            raise ProviderError(f"{execution.dockerfile} is missing")
        return f"sha256:{source_digest(root)}"

    def start(self, spec: LaunchSpec) -> ServerProcess:
        """Start a server."""
        return ServerProcess(spec, self._patience * spec.startup_timeout_s)


def validate(package: Path, patience: float = 1.0) -> ValidationReport | ValidationReportV2:
    """OpenEnv's report on a package, up to the runtime level; see `LocalProcessProvider` for `patience`."""
    return run_validation(package, max_level=Level.RUNTIME, provider=LocalProcessProvider(patience))


def unimplemented_checks(policy: SeverityPolicy | None = None) -> list[str]:
    """Ids that OpenEnv's policy lists and this release of it has no grader for."""
    policy = policy or load_policy("v2")
    registry = default_grader_registry(policy)
    ids = [entry.check_id for entry in policy.entries]
    return [check for check in ids if registry.get(check) is None and check != "runtime.startup"]


def main(arguments: Sequence[str]) -> int:
    """Validate a package and print the report; 0 if nothing failed."""
    report = validate(Path(arguments[0]))
    graded = [result for result in report.results if result.status.value != "skip"]
    for result in graded:
        why = "" if result.status.value == "pass" else f": {'; '.join(result.evidence)}"
        sys.stdout.write(f"{result.status.value.upper():5} {result.check_id}{why}\n")
    missing = unimplemented_checks()
    sys.stdout.write(f"verdict {report.verdict.value}; {len(missing)} checks are listed and implemented by nobody:\n")
    sys.stdout.write("".join(f"      {check}\n" for check in missing))
    return int(any(result.status.value in ("fail", "error") for result in graded))


def _network_of(process: str) -> str:
    return str(Path(f"/proc/{process}/ns/net").readlink())


def _namespace() -> dict[str, Any]:
    """Interfaces and routes of this process's network namespace."""
    interfaces = [line.partition(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    inet6 = Path("/proc/net/if_inet6")
    addresses = [line.split() for line in inet6.read_text().splitlines()] if inet6.exists() else []
    return {
        "interfaces": interfaces,
        "default_route": any(route[1] == "00000000" for route in routes),
        "ipv6_non_loopback": sum(address[-1] != "lo" for address in addresses),
        "listening_ports": [],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
