"""Laws of sample games in trackers: every game is readable there as in games.jsonl, under its stage and step."""

import os
import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from contexts import context_for
from training_fixtures import compact, make_run, rows
from transformers import TrainingArguments

from wordle_rl.runs.trackers import COLUMNS, GameLog, Tracking, as_markdown, game_trackers, keep_tensorboard, table_rows
from wordle_rl.solver import Solver

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
    """`wandb.log` and `wandb.Table` with their own parameters."""

    @dataclass
    class Table:
        columns: list[str] | None = None
        data: list[list[Any]] | None = None
        rows: list[list[Any]] | None = None
        dataframe: Any = None

    def __init__(self) -> None:
        super().__init__("wandb")
        self.run: object | None = object()
        self.logged: list[dict[str, Any]] = []

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        assert step is None, "transformers numbers the rows by itself"
        self.logged.append(data)


class FakeTrackio(ModuleType):
    """`trackio.log` and `trackio.Table` as in the releases that read data frames alone."""

    @dataclass
    class Table:
        columns: list[str] | None = None
        data: list[list[Any]] | None = None
        dataframe: Any = None

    def __init__(self) -> None:
        super().__init__("trackio")
        self.logged: list[dict[str, Any]] = []

    def log(self, metrics: dict[str, Any], step: int | None = None) -> None:
        assert step is None
        self.logged.append(metrics)


@dataclass
class FakeWriter:
    """`SummaryWriter.add_text` with its own parameters."""

    logged: list[tuple[str, str, int | None]] = field(default_factory=list)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        self.logged.append((tag, text_string, global_step))


@dataclass
class FakeTensorBoardCallback:
    """What transformers' callback has: a writer, once training began, and where it writes."""

    tb_writer: FakeWriter | None = None
    logging_dir: str | None = None


def put_down(log: GameLog) -> None:
    log.add("grpo", 7, [WON])
    log.add("validation", 8, [LOST, WON])


def test_a_free_refusal_is_no_guess() -> None:
    refused, won = {"guess": "zzzzz", "marks": None, "outcome": "unlisted"}, WON["turns"][-1]
    game = {**WON, "stage": "grpo", "step": 1, "turns": [refused, won], "turns_used": 1}
    assert table_rows([game])[0][COLUMNS.index("guesses")] == 1
    assert as_markdown(game).startswith("**CRANE**: won in 1")


def test_wandb_gets_a_table_a_step(sixty, tmp_path, monkeypatch) -> None:
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    put_down(GameLog(make_run(tmp_path / "run", sixty), game_trackers(["wandb"], [])))
    first, second = wandb.logged
    assert first["train/global_step"] == 7
    table = first["games/grpo"]
    assert dict(zip(table.columns, table.data[0], strict=True)) == {
        "step": 7, "stage": "grpo", "secret": "crane", "won": True, "guesses": 3, "reward": 1.5,
        "components": "win 2, rules -0.5", "board": WON_BOARD,
    }  # fmt: skip
    assert [row[2:4] for row in second["games/validation"].data] == [["speed", False], ["crane", True]]
    wandb.run = None
    put_down(GameLog(make_run(tmp_path / "run", sixty), game_trackers(["wandb"], [])))
    assert len(wandb.logged) == 2


def test_trackio_gets_a_data_frame_a_step(sixty, tmp_path, monkeypatch) -> None:
    pytest.importorskip("pandas")
    trackio = FakeTrackio()
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    put_down(GameLog(make_run(tmp_path / "run", sixty), game_trackers(["trackio"], [])))
    frame = trackio.logged[1]["games/validation"].dataframe
    assert list(frame.columns) == list(COLUMNS)
    assert list(frame["board"]) == ["– (malformed)", WON_BOARD]
    assert trackio.logged[1]["train/global_step"] == 8


@dataclass
class FakeTrace:
    """`trackio.Trace` with its own parameters and checks."""

    messages: list[dict[str, Any]]
    metadata: dict[str, Any] | None = None
    spans: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.messages, list) or not all(isinstance(message, dict) for message in self.messages):
            raise TypeError("`messages` must be a list of dictionaries.")


def test_trackio_gets_a_trace_a_game(sixty, tmp_path, monkeypatch) -> None:
    pytest.importorskip("pandas")
    trackio = FakeTrackio()
    trackio.Trace = FakeTrace
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    put_down(GameLog(make_run(tmp_path / "run", sixty), game_trackers(["trackio"], [], compact())))
    assert [
        len(logged["traces/" + stage]) for logged, stage in zip(trackio.logged, ("grpo", "validation"), strict=True)
    ] == [1, 2]
    (trace,) = trackio.logged[0]["traces/grpo"]
    assert [message["role"] for message in trace.messages][-2:] == ["user", "assistant"]
    assert (trace.metadata["secret"], trace.metadata["step"], trace.metadata["status"]) == ("crane", 7, "ok")
    put_down(GameLog(make_run(tmp_path / "other", sixty), game_trackers(["trackio"], [])))
    assert all("traces/grpo" not in logged for logged in trackio.logged[2:])


def test_tensorboard_gets_text_from_its_callbacks_writer(sixty, tmp_path) -> None:
    callback = FakeTensorBoardCallback()
    log = GameLog(make_run(tmp_path / "run", sixty), game_trackers(["tensorboard"], [object(), callback]))
    callback.tb_writer = FakeWriter()  # opened when training begins, after the trackers were made
    put_down(log)
    (tag, text, step), (other, _, _) = callback.tb_writer.logged
    assert (tag, step, other) == ("games/grpo", 7, "games/validation")
    assert text.splitlines()[0] == "**CRANE**: won in 3, reward 1.5 (win 2, rules -0.5)"
    assert "    CRANE GGGGG 🟩🟩🟩🟩🟩" in text.splitlines()


def test_games_jsonl_holds_every_game_whoever_else_gets_it(sixty, tmp_path) -> None:
    run = make_run(tmp_path / "run", sixty)
    seen = []
    put_down(GameLog(run, [lambda step, games: seen.append((step, len(games)))]))
    GameLog(run, [lambda step, games: seen.append(step)]).add("grpo", 9, [])
    written = rows(run.directory / "games.jsonl")
    assert [(row["stage"], row["step"], row["secret"]) for row in written] == [
        ("grpo", 7, "crane"), ("validation", 8, "speed"), ("validation", 8, "crane"),
    ]  # fmt: skip
    assert seen == [(7, 1), (8, 2)]


def test_tensorboards_files_outlive_the_checkpoints_unless_a_place_was_named(tmp_path) -> None:
    free, named = FakeTensorBoardCallback(), FakeTensorBoardCallback(logging_dir="elsewhere")
    other = object()
    keep_tensorboard([free, named, other], tmp_path)
    assert (free.logging_dir, named.logging_dir) == (str(tmp_path), "elsewhere")


@pytest.fixture
def opened(monkeypatch) -> list[FakeTensorBoardCallback]:
    """The callbacks that transformers makes for TensorBoard, faked since that is an optional package."""
    pytest.importorskip("torch")
    from transformers import TrainerCallback
    from transformers.integrations import integration_utils

    made: list[FakeTensorBoardCallback] = []

    class Callback(FakeTensorBoardCallback, TrainerCallback):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def on_train_begin(self, *_: object, **__: object) -> None:
            self.tb_writer = FakeWriter()

    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "tensorboard", Callback)
    return made


def test_grpo_shows_its_games_and_those_of_validation_from_the_first(
    tokenizer, codec, sixty, split, tmp_path, opened
) -> None:
    from grpo_training import SETTINGS
    from training_fixtures import small_model

    from wordle_rl.rl.grpo.train import train_grpo
    from wordle_rl.rl.setup import GameSetup

    run = make_run(tmp_path / "run", sixty)
    setup = GameSetup(context_for(sixty, compact(max_turns=2), Solver(sixty, use_cache=False)), split.train, split.val)
    settings = SETTINGS.model_copy(update={"validate_every_steps": 1, "sample_games": 1})
    train_grpo(small_model(tokenizer), codec, setup, settings, run, report_to=["tensorboard"])
    (callback,) = opened
    shown = [(tag, step) for tag, _, step in callback.tb_writer.logged]
    assert shown == [
        ("games/validation", 0), ("games/grpo", 0), ("games/validation", 1), ("games/grpo", 1), ("games/validation", 2),
    ]  # fmt: skip
    written = dict.fromkeys((f"games/{row['stage']}", row["step"]) for row in rows(run.directory / "games.jsonl"))
    assert list(written) == shown
    assert callback.logging_dir == str(run.directory / "grpo" / "tensorboard")


def test_what_sft_writes_for_tensorboard_outlives_its_checkpoints(
    tokenizer, codec, sixty, plain_traces, tmp_path, opened
) -> None:
    from training_fixtures import small_model

    from wordle_rl.config import SFTSettings
    from wordle_rl.data.dataset import encode_traces
    from wordle_rl.training.sft import train_sft

    run = make_run(tmp_path / "run", sixty)
    examples = encode_traces(plain_traces, compact(), codec, 256).examples
    settings = SFTSettings(batch_size=32, precision="fp32")
    train_sft(small_model(tokenizer), codec, examples, settings, run, report_to=["tensorboard"])
    assert opened[0].logging_dir == str(run.directory / "sft" / "tensorboard")


def test_a_run_is_named_for_its_directory_or_as_asked_for_and_its_stages_apart(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    plain = Tracking.named(tmp_path / "mine", None, None)
    assert plain.arguments("sft") == {"run_name": "mine-sft"}
    assert "WANDB_PROJECT" not in os.environ, "the tracker's own project stays"
    asked = Tracking.named(tmp_path / "mine", "wordle/first", "me/space").arguments("grpo")
    assert asked == {"run_name": "first-grpo", "project": "wordle", "trackio_space_id": "me/space"}
    assert os.environ["WANDB_PROJECT"] == "wordle"
    assert TrainingArguments(str(tmp_path), use_cpu=True, **asked).project == "wordle"
