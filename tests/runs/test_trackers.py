"""Laws of trackers: metrics and games arrive under their names and steps, and what cannot be opened is refused."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from training_fixtures import compact, make_run, rows

from wordle_rl.config import ConfigError
from wordle_rl.runs import Run
from wordle_rl.runs.trackers import (
    COLUMNS,
    GameLog,
    Tracking,
    as_markdown,
    check_trackers,
    metric_names,
    open_trackers,
    table_rows,
)

WON = {
    "secret": "crane",
    "won": True,
    "turns_used": 3,
    "reward": 1.5,
    "turns": [
        {"guess": "trace", "marks": "XGGYG", "outcome": "scored", "given": True},
        {"guess": "zzzzz", "marks": None, "outcome": "unlisted", "components": {"win": 0.0, "rules": -0.5}},
        {"guess": "crane", "marks": "GGGGG", "outcome": "scored", "components": {"win": 2.0, "rules": 0.0}},
    ],
}
LOST = {
    "secret": "speed",
    "won": False,
    "turns_used": 1,
    "turns": [{"guess": None, "marks": None, "outcome": "malformed"}],
}
WON_BOARD = "TRACE XGGYG ⬛🟩🟩🟨🟩 (given)\nZZZZZ (unlisted)\nCRANE GGGGG 🟩🟩🟩🟩🟩"


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


@dataclass
class FakeTrace:
    """`trackio.Trace` with its own parameters and checks."""

    messages: list[dict[str, Any]]
    metadata: dict[str, Any] | None = None
    spans: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.messages, list) or not all(isinstance(message, dict) for message in self.messages):
            raise TypeError("`messages` must be a list of dictionaries.")


@dataclass
class Recorder:
    """A tracker of its own."""

    shown: list[tuple[int, int]] = field(default_factory=list)

    def log(self, step: int, numbers: dict[str, float]) -> None:
        raise AssertionError("a log of games sends no metrics")

    def add_games(self, step: int, games: list[dict[str, Any]]) -> None:
        self.shown.append((step, len(games)))

    def close(self) -> None:
        raise AssertionError("whoever opened it closes it")


NAMES = Tracking("first", "wordle")


@pytest.fixture
def wandb(monkeypatch) -> FakeWandb:
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", module := FakeWandb())
    return module


@pytest.fixture
def trackio(monkeypatch) -> FakeTrackio:
    pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, "trackio", module := FakeTrackio())
    return module


def add_both_stages(log: GameLog) -> None:
    log.add("grpo", 7, [WON])
    log.add("validation", 8, [LOST, WON])


def test_a_free_refusal_is_no_guess() -> None:
    refused, won = {"guess": "zzzzz", "marks": None, "outcome": "unlisted"}, WON["turns"][-1]
    game = {**WON, "stage": "grpo", "step": 1, "turns": [refused, won], "turns_used": 1}
    assert table_rows([game])[0][COLUMNS.index("guesses")] == 1
    assert as_markdown(game).startswith("**CRANE**: won in 1")


def test_metrics_are_named_as_transformers_names_them() -> None:
    rewritten = pytest.importorskip("transformers.integrations.integration_utils").rewrite_logs
    metrics = {"loss": 0.5, "win_rate": 0.25, "eval_loss": 0.7, "win_rate_by_turn/3": 0.1}
    assert metric_names(metrics) == rewritten(metrics)
    assert metric_names({"validation_loss": 0.7}) == rewritten({"eval_loss": 0.7})


def test_a_run_is_named_for_its_directory_or_as_asked_for_and_its_stages_apart(tmp_path) -> None:
    assert Run(tmp_path / "mine").tracking.run_name("sft") == "mine-sft"
    asked = Tracking.named(tmp_path / "mine", "wordle/first", "me/space")
    assert (asked.project, asked.run_name("grpo"), asked.space) == ("wordle", "first-grpo", "me/space")


def test_wandb_charts_metrics_by_step_beside_the_settings(wandb, tmp_path) -> None:
    config = {"grpo": {"steps": 2}, "out": Path("runs/mine")}
    (tracker,) = open_trackers(["wandb"], NAMES, "grpo", tmp_path / "grpo", config=config)
    tracker.log(1, {"loss": 0.5})
    (run,) = wandb.runs
    assert (run.settings["project"], run.settings["name"]) == ("wordle", "first-grpo")
    assert run.config == {"grpo": {"steps": 2}, "out": "runs/mine"}
    assert run.logged == [{"train/loss": 0.5, "train/global_step": 1}]
    assert run.metrics == {"train/global_step": None, "*": "train/global_step"}
    tracker.close()
    assert wandb.run is None, "the next stage opens a run of its own"


def test_wandb_gets_a_table_a_step(wandb, sixty, tmp_path) -> None:
    add_both_stages(GameLog(make_run(tmp_path / "run", sixty), open_trackers(["wandb"], NAMES, "grpo", tmp_path)))
    first, second = wandb.runs[0].logged
    assert first["train/global_step"] == 7
    table = first["games/grpo"]
    assert dict(zip(table.columns, table.data[0], strict=True)) == {
        "step": 7, "stage": "grpo", "secret": "crane", "won": True, "guesses": 3, "reward": 1.5,
        "components": "win 2, rules -0.5", "board": WON_BOARD,
    }  # fmt: skip
    assert [row[2:4] for row in second["games/validation"].data] == [["speed", False], ["crane", True]]


def test_a_resumed_stage_continues_its_wandb_run_and_no_other(wandb, tmp_path) -> None:
    for directory in ("mine/sft", "mine/sft", "mine/grpo", "other/sft"):
        stage = directory.partition("/")[2]
        (tracker,) = open_trackers(["wandb"], Tracking("a #1 run?"), stage, tmp_path / directory)
        tracker.close()
    first, resumed, *others = (run.settings["id"] for run in wandb.runs)
    assert first == resumed
    assert len({first, *others}) == 3, "stages and directories have runs of their own"
    assert {run.settings["resume"] for run in wandb.runs} == {"allow"}
    assert not set("/\\#?%:") & set(first), "wandb refuses these in an id"


@pytest.mark.parametrize(
    ("project", "variable", "expected"),
    [("wordle", "theirs", "wordle"), (None, "theirs", "theirs"), (None, None, "huggingface")],
)
def test_wandbs_project_is_the_given_one_then_that_of_the_environment(
    project, variable, expected, wandb, tmp_path, monkeypatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("WANDB_PROJECT", variable)
    open_trackers(["wandb"], Tracking("first", project), "sft", tmp_path)
    assert wandb.runs[0].settings["project"] == expected


def test_a_wandb_run_that_is_open_already_is_used_and_stays_open(wandb, tmp_path) -> None:
    mine = wandb.init(project="mine")
    (tracker,) = open_trackers(["wandb"], NAMES, "sft", tmp_path, config={"seed": 1})
    tracker.log(1, {"loss": 0.5})
    tracker.close()
    assert (wandb.run, wandb.runs, mine.config) == (mine, [mine], {"seed": 1})
    assert mine.logged == [{"train/loss": 0.5, "train/global_step": 1}]


def test_trackio_gets_metrics_and_settings_under_the_names_of_the_run(trackio, tmp_path) -> None:
    names = Tracking("first", "wordle", "me/space")
    (tracker,) = open_trackers(["trackio"], names, "grpo", tmp_path, config={"grpo": {"steps": 2}})
    tracker.log(1, {"loss": 0.5})
    tracker.close()
    assert trackio.opened == [
        {
            "project": "wordle",
            "name": "first-grpo",
            "space": "me/space",
            "config": {"grpo": {"steps": 2}},
            "resume": "allow",
        }
    ]
    assert trackio.logged == [{"train/loss": 0.5, "train/global_step": 1}]
    assert not trackio.is_open
    open_trackers(["trackio"], Tracking("first"), "sft", tmp_path)
    assert trackio.opened[1]["project"] == "huggingface"


def test_trackio_gets_a_data_frame_a_step(trackio, sixty, tmp_path) -> None:
    add_both_stages(GameLog(make_run(tmp_path / "run", sixty), open_trackers(["trackio"], NAMES, "grpo", tmp_path)))
    frame = trackio.logged[1]["games/validation"].dataframe
    assert list(frame.columns) == list(COLUMNS)
    assert list(frame["board"]) == ["– (malformed)", WON_BOARD]
    assert trackio.logged[1]["train/global_step"] == 8


def test_trackio_gets_a_trace_a_game(trackio, sixty, tmp_path) -> None:
    trackio.Trace = FakeTrace
    for prompter in (compact(), None):
        trackers = open_trackers(["trackio"], NAMES, "grpo", tmp_path, prompter=prompter)
        add_both_stages(GameLog(make_run(tmp_path / "run", sixty), trackers))
        trackers[0].close()
    with_prompts, without = trackio.logged[:2], trackio.logged[2:]
    assert len(with_prompts[0]["traces/grpo"]) == 1
    assert len(with_prompts[1]["traces/validation"]) == 2
    (trace,) = with_prompts[0]["traces/grpo"]
    assert [message["role"] for message in trace.messages][-2:] == ["user", "assistant"]
    assert (trace.metadata["secret"], trace.metadata["step"], trace.metadata["status"]) == ("crane", 7, "ok")
    assert not any(name.startswith("traces/") for logged in without for name in logged)


def test_games_jsonl_holds_every_game_whoever_else_gets_it(sixty, tmp_path) -> None:
    run, tracker = make_run(tmp_path / "run", sixty), Recorder()
    log = GameLog(run, [tracker])
    add_both_stages(log)
    log.add("grpo", 9, [])
    log.detach_trackers()
    log.add("grpo", 10, [WON])
    assert tracker.shown == [(7, 1), (8, 2)]
    assert [(row["stage"], row["step"], row["secret"]) for row in rows(run.directory / "games.jsonl")] == [
        ("grpo", 7, "crane"), ("validation", 8, "speed"), ("validation", 8, "crane"), ("grpo", 10, "crane"),
    ]  # fmt: skip


def test_only_the_first_process_opens_trackers(wandb, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert open_trackers(["wandb"], NAMES, "sft", tmp_path) == []
    assert wandb.runs == []


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_tracker_that_fails_to_open_is_one_line_and_the_others_are_closed(
    name, wandb, trackio, tmp_path, monkeypatch
) -> None:
    others = {"wandb": "trackio", "trackio": "wandb"}
    broken = {"wandb": FakeWandb(FakeWandb.Error("no\nnet")), "trackio": FakeTrackio(ConnectionError("no\nnet"))}
    monkeypatch.setitem(sys.modules, name, broken[name])
    with pytest.raises(ConfigError, match=f"report_to '{name}'") as refused:
        open_trackers([others[name], name], NAMES, "sft", tmp_path)
    assert len(str(refused.value).splitlines()) == 1
    assert (wandb.run, trackio.is_open) == (None, False)


@pytest.mark.parametrize(
    ("name", "package"),
    [("wandb", "wandb"), ("trackio", "trackio"), ("trackio", "pandas"), ("tensorboard", "tensorboard")],
)
def test_a_missing_package_is_refused_before_and_when_opening(name, package, trackio, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for attempt in (lambda: check_trackers([name], NAMES), lambda: open_trackers([name], NAMES, "sft", tmp_path)):
        with pytest.raises(ConfigError, match=f"report_to '{name}'.* pip install {package}"):
            attempt()


def test_a_folder_of_a_package_s_name_is_no_package(wandb, tmp_path, monkeypatch) -> None:
    (tmp_path / "wandb").mkdir()  # as wandb leaves them where it runs
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    del sys.modules["wandb"]
    with pytest.raises(ConfigError, match="pip install wandb"):
        check_trackers(["wandb"], NAMES)


def test_an_unknown_tracker_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="report_to 'paper'"):
        open_trackers(["paper"], NAMES, "sft", tmp_path)


def test_a_check_asks_wandb_for_a_key_but_opens_nothing(wandb, trackio, monkeypatch) -> None:
    check_trackers(["wandb", "trackio"], NAMES)
    assert (wandb.logins, wandb.runs, trackio.opened) == (1, [], [])
    monkeypatch.setitem(sys.modules, "wandb", FakeWandb(FakeWandb.Error("no key")))
    with pytest.raises(ConfigError, match="report_to 'wandb'"):
        check_trackers(["wandb"], NAMES)


class FakeHub:
    """`HfApi().whoami`, which returns or raises what was set."""

    def __init__(self, result: dict[str, Any] | Exception) -> None:
        self._result = result

    def __call__(self) -> "FakeHub":
        return self

    def whoami(self) -> dict[str, Any]:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def account(role: str) -> dict[str, Any]:
    return {"name": "me", "auth": {"type": "access_token", "accessToken": {"role": role}}}


def test_a_space_is_taken_with_a_token_that_may_write(trackio, monkeypatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked = []
    monkeypatch.setattr(hub, "HfApi", lambda: SimpleNamespace(whoami=lambda: asked.append(1) or account("write")))
    check_trackers(["trackio"], NAMES)
    assert asked == [], "without a space the network is not needed"
    check_trackers(["trackio"], Tracking("first", None, "me/space"))
    assert asked == [1]
    assert trackio.opened == []


@pytest.mark.parametrize("space", ["space", "me/my/space", "me/a space", "me/", "/space"])
def test_a_space_without_a_sound_name_is_refused(space, trackio, monkeypatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub, "HfApi", FakeHub(account("write")))
    with pytest.raises(ConfigError, match="trackio_space"):
        check_trackers(["trackio"], Tracking("first", None, space))


def test_an_unreachable_hub_and_a_token_without_rights_are_refused(trackio, monkeypatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    errors = pytest.importorskip("huggingface_hub.errors")
    refusals = (
        errors.LocalTokenNotFoundError("no token"),
        errors.OfflineModeIsEnabled("offline"),
        errors.HTTPError("not\nreached"),
        account("read"),
    )
    for refusal in refusals:
        monkeypatch.setattr(hub, "HfApi", FakeHub(refusal))
        with pytest.raises(ConfigError, match="trackio_space 'me/space'") as refused:
            check_trackers(["trackio"], Tracking("first", None, "me/space"))
        assert len(str(refused.value).splitlines()) == 1


def test_all_problems_are_refused_at_once(trackio, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"report_to 'wandb'.*; trackio_space 'space'"):
        check_trackers(["wandb", "trackio"], Tracking("first", None, "space"))
