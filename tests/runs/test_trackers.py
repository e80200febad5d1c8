"""Laws of trackers: metrics and games arrive under their names and steps, in the runs they belong to."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_trackers import FakeTrace, fake_trackio, fake_wandb  # noqa: F401  # fixtures, two of them
from training_fixtures import compact, make_run, rows

from wordle_rl.runs.trackers import (
    GameLog,
    Tracking,
    open_trackers,
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


def add_both_stages(log: GameLog) -> None:
    log.add("grpo", 7, [WON])
    log.add("validation", 8, [LOST, WON])


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
