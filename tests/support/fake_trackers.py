"""Packages of trackers, faked by what is used of them, and fixtures that put them in place of the real ones."""

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest


class FakeWandb(ModuleType):
    """What is used of wandb, with its own parameters; `runs` are those it opened."""

    class Error(Exception):
        pass

    @dataclass
    class Table:
        columns: list[str] | None = None
        data: list[list[Any]] | None = None
        rows: list[list[Any]] | None = None
        dataframe: Any = None

    class Config(dict):
        def update(self, values: dict[str, Any], allow_val_change: bool | None = None) -> None:
            assert allow_val_change, "a resumed run has these settings already"
            super().update(values)

    class Run:
        def __init__(self, module: "FakeWandb", settings: dict[str, Any]) -> None:
            self._module, self.settings, self.config = module, settings, FakeWandb.Config()
            self.logged: list[dict[str, Any]] = []
            self.metrics: dict[str, str | None] = {}

        def define_metric(self, name: str, step_metric: str | None = None, step_sync: bool | None = None) -> None:
            self.metrics[name] = step_metric

        def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
            assert step is None, "wandb numbers its rows by itself"
            assert self._module.run is self, "it has ended"
            self.logged.append(data)

        def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:
            self._module.run = None

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__("wandb")
        self.__file__, self._failure = "wandb/__init__.py", failure
        self.run: FakeWandb.Run | None = None
        self.runs: list[FakeWandb.Run] = []
        self.logins = 0

    def init(
        self,
        project: str | None = None,
        id: str | None = None,
        name: str | None = None,
        resume: bool | str | None = None,
    ) -> "FakeWandb.Run":
        if self._failure is not None:
            raise self._failure
        assert self.run is None, "it would return the open run"
        self.run = FakeWandb.Run(self, {"project": project, "id": id, "name": name, "resume": resume})
        self.runs.append(self.run)
        return self.run

    def login(self) -> bool:
        self.logins += 1
        if self._failure is not None:
            raise self._failure
        return True


class FakeTrackio(ModuleType):
    """What is used of trackio, with its own parameters; tables as in releases that read data frames alone."""

    @dataclass
    class Table:
        columns: list[str] | None = None
        data: list[list[Any]] | None = None
        dataframe: Any = None

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__("trackio")
        self.__file__, self._failure = "trackio/__init__.py", failure
        self.opened: list[dict[str, Any]] = []
        self.logged: list[dict[str, Any]] = []
        self.is_open = False

    def init(
        self,
        project: str,
        name: str | None = None,
        space_id: str | None = None,
        config: dict[str, Any] | None = None,
        resume: str = "never",
    ) -> object:
        if self._failure is not None:
            raise self._failure
        assert not self.is_open
        self.opened.append({"project": project, "name": name, "space": space_id, "config": config, "resume": resume})
        self.is_open = True
        return object()

    def log(self, metrics: dict[str, Any], step: int | None = None) -> None:
        assert step is None, "it numbers its rows by itself, two of which may be of one step"
        assert self.is_open
        self.logged.append(metrics)

    def finish(self) -> None:
        assert self.is_open
        self.is_open = False


@pytest.fixture(name="wandb")
def fake_wandb(monkeypatch) -> FakeWandb:
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", module := FakeWandb())
    return module


@pytest.fixture(name="trackio")
def fake_trackio(monkeypatch) -> FakeTrackio:
    pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, "trackio", module := FakeTrackio())
    return module
