"""Laws of trackers: metrics and games arrive under their names and steps, and one that cannot be opened is refused."""

import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from fake_trackers import FakeTrackio, FakeWandb, fake_trackio, fake_wandb  # noqa: F401  # fixtures, two of them
from training_fixtures import make_run, rows

from wordle_rl.config.base import ConfigError
from wordle_rl.runs import Run, write_json
from wordle_rl.runs.run import Tracking
from wordle_rl.runs.trackers import GameLog, Tracker, check_trackers, opened_trackers

# --- laws ---

WON = {
    "secret": "crane", "won": True, "turns_used": 3, "reward": 1.5,
    "turns": [
        {"guess": "trace", "marks": "XGGYG", "outcome": "scored", "given": True},
        {"guess": "zzzzz", "marks": None, "outcome": "unlisted", "components": {"win": 0.0, "rules": -0.5}},
        {"guess": "crane", "marks": "GGGGG", "outcome": "scored", "components": {"win": 2.0, "rules": 0.0}},
    ],
}  # fmt: skip
NO_GUESS = {"guess": None, "marks": None, "outcome": "malformed"}
LOST = {"secret": "speed", "won": False, "turns_used": 1, "turns": [NO_GUESS]}
NAMES = Tracking("first", "wordle")
METRICS = {"train/loss": 0.5, "eval/loss": 0.75, "train/global_step": 1}


@pytest.fixture
def tracked(tmp_path):
    """Open trackers for a stage of a run."""

    @contextmanager
    def opened(*names: str, stage: str = "grpo", run: str = "mine", tracking: Tracking = NAMES, **config: Any):
        made = Run(tmp_path / run)
        made.tracking = tracking
        if config:
            write_json(made.directory / "config.json", config)
        with opened_trackers(made, names, stage, made.directory / stage) as trackers:
            yield trackers

    return opened


@pytest.fixture
def send(sixty, tmp_path):
    """Send a tracker metrics and games, of which those after it was detached do not arrive; all games of the run."""
    run = make_run(tmp_path / "run", sixty)

    def sent(tracker: Tracker) -> list[dict[str, object]]:
        tracker.log(1, {"loss": 0.5, "validation_loss": 0.75})
        log = GameLog(run, [tracker])
        log.add("grpo", 7, [WON])
        log.add("grpo/validation", 8, [LOST, WON])
        log.add("grpo", 9, [])
        log.detach_trackers()
        log.add("grpo", 10, [WON])
        return rows(tmp_path / "run" / "games.jsonl")

    return sent


def test_wandb_gets_metrics_and_games_by_step_beside_the_settings(wandb, tracked, send) -> None:
    with tracked("wandb", grpo={"steps": 2}) as (tracker,):
        written = [(row["stage"], row["step"], row["secret"]) for row in send(tracker)]
    (run,) = wandb.runs
    assert (run.settings["project"], run.settings["name"]) == ("wordle", "first-grpo")
    assert run.config == {"grpo": {"steps": 2}}
    assert run.metrics == {"train/global_step": None, "*": "train/global_step"}
    metrics, game, games = run.logged
    assert metrics == METRICS
    board = "TRACE XGGYG ⬛🟩🟩🟨🟩 (given)\nZZZZZ (unlisted)\nCRANE GGGGG 🟩🟩🟩🟩🟩"
    assert game["games/grpo"].data == [[7, "grpo", "crane", True, 3, 1.5, "win 2, rules -0.5", board]]
    assert [row[2:4] for row in games["games/grpo/validation"].data] == [["speed", False], ["crane", True]]
    assert wandb.run is None, "the next stage opens a run of its own"
    games = [(7, "crane"), (8, "speed"), (8, "crane"), (10, "crane")]
    assert written == [("grpo/validation" if step == 8 else "grpo", step, secret) for step, secret in games]


def test_a_resumed_stage_continues_its_wandb_run_and_no_other(wandb, tracked, monkeypatch) -> None:
    for run, stage in (("mine", "sft"), ("mine", "sft"), ("mine", "grpo"), ("other", "sft")):
        with tracked("wandb", stage=stage, run=run, tracking=Tracking("a #1 run?")):
            pass
    first, resumed, *others = (run.settings["id"] for run in wandb.runs)
    assert first == resumed
    assert len({first, *others}) == 3, "stages and directories have runs of their own"
    assert {run.settings["resume"] for run in wandb.runs} == {"allow"}
    assert not set("/\\#?%:") & set(first), "wandb refuses these in an id"
    monkeypatch.setenv("RANK", "1")
    with tracked("wandb") as trackers:
        assert (trackers, len(wandb.runs)) == ([], 4), "the first process alone has trackers"


def test_trackio_gets_metrics_games_and_settings_under_the_names_of_the_run(trackio, tracked, send) -> None:
    with tracked("trackio", tracking=Tracking("first", "wordle", "me/space"), grpo={"steps": 2}) as (tracker,):
        send(tracker)
    names = {"project": "wordle", "name": "first-grpo", "space": "me/space"}
    assert trackio.opened == [{**names, "config": {"grpo": {"steps": 2}}, "resume": "allow"}]
    assert trackio.logged[0] == METRICS
    assert [next(iter(logged)) for logged in trackio.logged[1:]] == ["games/grpo", "games/grpo/validation"]
    assert not trackio.is_open


def test_tensorboard_files_go_on_where_a_training_was_resumed(tracked, send, tmp_path) -> None:
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tracked("tensorboard", grpo={"steps": 2}) as (tracker,):
        send(tracker)
    with tracked("tensorboard") as (tracker,):
        tracker.log(2, {"loss": 0.25})
    found = event_accumulator.EventAccumulator(str(tmp_path / "mine" / "grpo" / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in found.Scalars("train/loss")] == [(1, 0.5), (2, 0.25)]
    assert [(event.step, event.value) for event in found.Scalars("eval/loss")] == [(1, 0.75)]
    assert {"games/grpo/text_summary", "games/grpo/validation/text_summary"} <= set(found.Tags()["tensors"])


BROKEN = {
    "wandb": [("wandb", None), ("wandb", FakeWandb(FakeWandb.Error("no\nnet")))],
    "trackio": [("trackio", None), ("pandas", None), ("trackio", FakeTrackio(ConnectionError("no\nnet")))],
    "tensorboard": [("tensorboard", None)],
}
"""Trackers, and packages that are missing or broken."""


@pytest.mark.parametrize(("name", "package", "module"), [(name, *each) for name in BROKEN for each in BROKEN[name]])
def test_a_tracker_that_cannot_open_is_one_line(name, package, module, wandb, trackio, tracked, monkeypatch) -> None:
    other = "wandb" if name == "trackio" else "trackio"
    monkeypatch.setitem(sys.modules, package, module)
    with pytest.raises(ConfigError, match=f"report_to '{name}'") as refused, tracked(other, name):
        pass
    assert len(str(refused.value).splitlines()) == 1
    assert (wandb.run, trackio.is_open) == (None, False)
    if module is None or name == "wandb":  # trackio is asked for nothing beforehand
        with pytest.raises(ConfigError, match=f"report_to '{name}'"):
            check_trackers([name], NAMES)


def test_a_check_asks_wandb_for_a_key_but_opens_nothing(wandb, trackio) -> None:
    check_trackers(["wandb", "trackio"], NAMES)
    assert (wandb.logins, wandb.runs, trackio.opened) == (1, [], [])


@pytest.mark.parametrize(("role", "name"), [("read", "Me"), ("write", "you"), ("write", "Me")])
def test_a_space_needs_a_token_that_can_write_there(role: str, name: str, trackio, monkeypatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    account = {"name": name, "orgs": [{"name": "lab"}], "auth": {"accessToken": {"role": role}}}
    monkeypatch.setattr(hub, "HfApi", lambda: SimpleNamespace(whoami=lambda: account))
    may = (role, name) == ("write", "Me")
    with nullcontext() if may else pytest.raises(ConfigError, match="trackio:me/space"):
        check_trackers(["trackio"], Tracking("first", None, "me/space"))
