"""Options and fixtures of the kill tests, and a table of the kills at the end (make test-faults)."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

DEFAULT_KILLS = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kill tests")
    group.addoption("--kills", type=int, default=DEFAULT_KILLS, help="kills over all commands together")
    group.addoption("--kill-seed", type=int, default=0, help="seed of their moments; -1: one drawn now, and shown")


class KillRecord:
    """The seed of the kills, and what became of them, by command."""

    def __init__(self, seed: int) -> None:
        self.seed = random.SystemRandom().getrandbits(31) if seed < 0 else seed
        self.rows: list[tuple[str, int, int, float]] = []


@pytest.fixture(scope="session")
def kill_record(request) -> KillRecord:
    record = KillRecord(request.config.getoption("--kill-seed", 0))
    request.config.stash[RECORD] = record
    return record


RECORD = pytest.StashKey[KillRecord]()


def pytest_terminal_summary(terminalreporter) -> None:
    record = terminalreporter.config.stash.get(RECORD, None)
    if record is None or not record.rows:
        return
    terminalreporter.section(f"kills, seed {record.seed}")
    for name, kills, trials, seconds in record.rows:
        terminalreporter.write_line(f"{name:<20}{kills:>4} kills in{trials:>4} trials, {seconds:6.1f} s")
    terminalreporter.write_line(f"{'all':<20}{sum(row[1] for row in record.rows):>4} kills")


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory) -> Iterator[object]:
    pytest.importorskip("torch")
    from fork_server import ForkServer

    server = ForkServer(tmp_path_factory.mktemp("fork") / "log")
    yield server
    server.close()


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """Address of a server that plays, with the key of none."""
    from fake_endpoint import FakeEndpoint
    from faulty_endpoint import guesses_in_turn

    from wordle_rl.words import load_words

    words = load_words().answers
    answer = guesses_in_turn([words[i] for i in (5, 900, 1500, 2100, 300, 2500)])
    server = FakeEndpoint(lambda _, body: answer(body))
    yield server.url
    server.close()


@pytest.fixture(scope="session")
def taught(fork_server, word_directory, tmp_path_factory) -> Path:
    """A run that is finished up to SFT."""
    from training_fixtures import write_config

    place = tmp_path_factory.mktemp("taught")
    write_config(place / "config.toml", word_directory)
    ended = fork_server.run(["run", "config.toml", "--out", "run", "--until", "sft"], place)
    assert ended.code == 0, ended.log
    return place / "run"
