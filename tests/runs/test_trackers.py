"""Laws of trackers: metrics and games arrive under their names and steps, in the runs they belong to."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_trackers import FakeTrace, fake_trackio, fake_wandb  # noqa: F401  # fixtures, two of them
from training_fixtures import compact, make_run, rows

from wordle_rl.runs import Run
from wordle_rl.runs.trackers import (
    COLUMNS,
    GameLog,
    Tracking,
    as_markdown,
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
