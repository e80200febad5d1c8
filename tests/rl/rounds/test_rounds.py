"""Laws of training by rounds: what was played is stored, what was stopped goes on, and the model keeps its shape."""

import json
import os
import signal
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from contexts import context_for
from failing_games import REASON, fail
from group_games import Schedule
from training_fixtures import compact, fast, make_run, rows, small_model, weights_of

from wordle_rl.config import (
    LARGEST_SEED,
    ConfigError,
    LoraSettings,
    ModelSettings,
    RoundTraining,
    SamplingSettings,
)
from wordle_rl.models.adapters import add_adapters
from wordle_rl.models.loading import load_model
from wordle_rl.rl.rounds.rounds import Rounds, fit_round, forward_restored, rounds_done
from wordle_rl.rl.setup import GameSetup
from wordle_rl.runs import RunError
from wordle_rl.solver import Solver

SETTINGS = RoundTraining(
    rounds=3,
    groups_per_round=3,
    group_size=2,
    sampling=SamplingSettings(max_completion_tokens=6),
    optimizer=fast(),
    precision="fp32",
    sample_games=2,
)


class Counting:
    """A method that learns nothing but to add one to every trained weight, and remembers what it was given."""

    def __init__(self, model) -> None:
        self.model = model
        self.played, self.fitted = [], []

    def choose(self, played):
        self.played.append(played)
        return [{"input_ids": [played.number]}], {"chosen": 1.0}

    def fit(self, rows, callback, checkpoints, seed) -> None:
        self.fitted.append((rows, checkpoints.name, seed))
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.requires_grad:
                    parameter.add_(1.0)
        callback.write(1, {"loss": 3.0, "epoch": 1.0})
        callback.write(2, {"loss": 1.0, "epoch": 2.0})


class Training:
    """One training by rounds with the method above."""

    def __init__(self, tokenizer, codec, words, directory: Path, settings=SETTINGS, progress=None, model=None) -> None:
        self.model = model or small_model(tokenizer)
        setup = GameSetup(context_for(words, compact(max_turns=3), Solver(words, use_cache=False)), words.answers)
        run = make_run(directory, words)
        self.rounds = Rounds("practice", self.model, codec, setup, settings, run, progress=progress)
        self.rounds._schedule = self.schedule = Schedule()
        self.method = Counting(self.model)

    def __call__(self) -> Path:
        return self.rounds.train(self.method)


def close(a: dict, b: dict) -> bool:
    return all(torch.allclose(a[name], b[name], atol=1e-6) for name in a)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_largest_seed_has_rounds_of_seeds_that_can_be_taken(tokenizer, codec, sixty, tmp_path) -> None:
    training = Training(tokenizer, codec, sixty, tmp_path)
    training.rounds.seed = LARGEST_SEED
    training()
    assert [seed for _, _, seed in training.method.fitted] == [0, 1, 2]


def test_a_training_leaves_a_model_and_a_line_per_round(tokenizer, codec, sixty, tmp_path) -> None:
    told = []
    training = Training(tokenizer, codec, sixty, tmp_path, progress=lambda *a: told.append(a))
    directory = training()
    assert directory == tmp_path / "practice"
    saved, _ = load_model(ModelSettings(path=str(directory)), 0)
    assert close(weights_of(training.model), weights_of(saved))
    assert not (directory / "checkpoints").exists()
    found = rows(tmp_path / "metrics.jsonl")
    assert [(row["stage"], row["step"]) for row in found] == [("practice", 1), ("practice", 2), ("practice", 3)]
    for row in found:
        assert {"win_rate", "reward", "reward/said", "format_compliance"} <= set(row)
        assert {"seconds/play", "seconds/training"} <= set(row)
        assert (row["loss"], row["chosen"]) == (2.0, 1.0)
        assert "epoch" not in row
    assert [row["step"] for row in rows(tmp_path / "secrets.jsonl")] == [0, 1, 2]
    assert [row["step"] for row in rows(tmp_path / "games.jsonl")] == [0, 0, 1, 1, 2, 2]
    assert [total for _, total, _ in told] == [18] * len(told)
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert told[-1][0] == 18


def test_a_round_plays_the_groups_it_was_asked_for_with_the_weights_of_its_time(
    tokenizer, codec, sixty, tmp_path
) -> None:
    training = Training(tokenizer, codec, sixty, tmp_path)
    training()
    secrets = [row["secrets"] for row in rows(tmp_path / "secrets.jsonl")]
    for played, drawn in zip(training.method.played, secrets, strict=True):
        assert [len(group) for group in played.groups] == [2, 2, 2]
        assert [{game.trajectory.transcript.secret for game in group} for group in played.groups] == [
            {secret} for secret in drawn
        ]
        assert played.sampler.model is training.model
    assert len({played.seed for played in training.method.played}) == 3
    assert training.method.fitted == [
        ([{"input_ids": [number]}], f"round-{number}-training", number) for number in (1, 2, 3)
    ]


def test_a_schedule_counts_rounds_and_sees_the_best_compliance_so_far(tokenizer, codec, sixty, tmp_path) -> None:
    training = Training(tokenizer, codec, sixty, tmp_path)
    training()
    compliance = [row["format_compliance"] for row in rows(tmp_path / "metrics.jsonl")]
    assert training.schedule.asked == [None, compliance[0], max(compliance[:2])]


def test_stopped_between_rounds_it_goes_on_with_the_weights_and_the_record(tokenizer, codec, sixty, tmp_path) -> None:
    whole = Training(tokenizer, codec, sixty, tmp_path / "whole")
    whole()

    def stopping(done: int, _total: int, note: str) -> None:
        if note.startswith("win_rate") and done == 12:
            stop()

    broken = Training(tokenizer, codec, sixty, tmp_path / "broken", progress=stopping)
    with pytest.raises(KeyboardInterrupt):
        broken()
    checkpoints = tmp_path / "broken" / "practice" / "checkpoints"
    assert [path.name for path in checkpoints.iterdir()] == ["round-2"]
    record = json.loads((checkpoints / "round-2" / "wordle_rl_state.json").read_text())
    assert record == {"rounds": 2, "best_compliance": broken.rounds.record.best_compliance, "cumulative_wins": 0}

    # every weight must come from the checkpoint
    resumed = Training(tokenizer, codec, sixty, tmp_path / "broken", model=small_model(tokenizer, seed=5))
    resumed()
    assert [played.number for played in resumed.method.played] == [3]
    assert close(weights_of(whole.model), weights_of(resumed.model))
    for name in ("secrets.jsonl", "games.jsonl"):
        assert rows(tmp_path / "whole" / name) == rows(tmp_path / "broken" / name)
    assert resumed.schedule.asked == whole.schedule.asked[2:]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_adapters_go_on_without_a_second_look_at_their_base(tokenizer, codec, sixty, tmp_path) -> None:
    def adapted(seed: int):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return add_adapters(small_model(tokenizer), LoraSettings(rank=2), "some/base")

    whole = Training(tokenizer, codec, sixty, tmp_path / "whole", model=adapted(0))
    whole()
    broken = Training(
        tokenizer, codec, sixty, tmp_path / "broken", model=adapted(0),
        progress=lambda _done, _total, note: note.startswith("win_rate") and stop(),
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        broken()
    resumed = Training(tokenizer, codec, sixty, tmp_path / "broken", model=adapted(5))
    resumed()
    assert [played.number for played in resumed.method.played] == [2, 3]
    assert close(weights_of(whole.model), weights_of(resumed.model))
    trained = [parameter.requires_grad for parameter in whole.model.parameters()]
    assert [parameter.requires_grad for parameter in resumed.model.parameters()] == trained


def test_of_a_round_means_are_written_and_of_skipped_steps_how_many(tokenizer, codec, sixty, tmp_path) -> None:
    training = Training(tokenizer, codec, sixty, tmp_path, SETTINGS.model_copy(update={"rounds": 1}))

    def fit(_rows, callback, _checkpoints, _seed) -> None:
        for numbers in ({"loss": 3.0}, {"skipped_steps": 1}, {"loss": 1.0}, {"skipped_steps": 2}):
            callback.write(1, numbers)

    training.method.fit = fit
    training()
    [row] = rows(tmp_path / "metrics.jsonl")
    assert (row["loss"], row["skipped_steps"]) == (2.0, 3)


def test_killed_while_training_it_trains_on_the_games_already_played(tokenizer, codec, sixty, tmp_path) -> None:
    training = Training(tokenizer, codec, sixty, tmp_path)

    def die(*_: object) -> None:
        raise RuntimeError("out of memory")

    training.method.fit = die
    with pytest.raises(RuntimeError, match="out of memory"):
        training()
    again = Training(tokenizer, codec, sixty, tmp_path)
    again()
    assert [played.number for played in again.method.played] == [2, 3]
    assert again.method.fitted[0][0] == [{"input_ids": [1]}]
    assert [row["step"] for row in rows(tmp_path / "metrics.jsonl")] == [1, 2, 3]


def test_ctrl_c_while_playing_stops_at_once_and_the_round_is_played_again(tokenizer, codec, sixty, tmp_path) -> None:
    training = Training(tokenizer, codec, sixty, tmp_path, progress=lambda done, *_: done == 1 and stop())
    with pytest.raises(KeyboardInterrupt):
        training()
    assert not training.method.played
    assert not (tmp_path / "practice" / "checkpoints").exists()
    again = Training(tokenizer, codec, sixty, tmp_path)
    again()
    assert [played.number for played in again.method.played] == [1, 2, 3]


def test_a_round_that_teaches_nothing_changes_nothing(tokenizer, codec, sixty, tmp_path) -> None:
    training = Training(tokenizer, codec, sixty, tmp_path)
    training.method.choose = lambda played: ([], {"chosen": 0.0})
    before = weights_of(training.model)
    training()
    assert not training.method.fitted
    assert close(before, weights_of(training.model))
    assert ["loss" in row for row in rows(tmp_path / "metrics.jsonl")] == [False] * 3


def test_a_model_gets_its_own_forward_back(tokenizer) -> None:
    model = small_model(tokenizer)
    plain = model.forward
    with forward_restored(model):
        model.forward = lambda *_: None
    assert model.forward == plain
    model.forward = wrapped = lambda *_: None
    with forward_restored(model):
        model.forward = plain
    assert model.forward is wrapped


def test_trackers_hear_of_every_round(tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    heard = []

    class Tracker:
        def on_log(self, args, state, control, model=None, logs=None) -> None:
            heard.append((args.report_to, state.global_step, logs["win_rate"]))

    monkeypatch.setattr(
        "wordle_rl.rl.rounds.rounds.get_reporting_integration_callbacks", lambda names: [Tracker for _ in names]
    )
    setup = GameSetup(context_for(sixty, compact(max_turns=3), Solver(sixty, use_cache=False)), sixty.answers)
    model, run = small_model(tokenizer), make_run(tmp_path, sixty)
    Rounds("practice", model, codec, setup, SETTINGS, run, report_to=["tensorboard"]).train(Counting(model))
    assert [(names, step) for names, step, _ in heard] == [(["tensorboard"], step) for step in (1, 2, 3)]


def test_what_cannot_work_is_refused(tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    long = SETTINGS.model_copy(update={"sampling": SamplingSettings(max_completion_tokens=5000)})
    with pytest.raises(ConfigError, match=r"max_completion_tokens 5000 leaves no room"):
        Training(tokenizer, codec, sixty, tmp_path, long)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="practice trains in one process"):
        Training(tokenizer, codec, sixty, tmp_path)


def test_rounds_done_are_those_with_a_record(tmp_path) -> None:
    assert rounds_done(tmp_path) == 0
    for number, finished in ((2, True), (10, True), (11, False)):
        (tmp_path / f"round-{number}").mkdir()
        if finished:
            (tmp_path / f"round-{number}" / "wordle_rl_state.json").write_text("{}")
    assert rounds_done(tmp_path) == 10


def test_a_game_that_its_player_fails_in_is_no_sample(tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    failed = fail(monkeypatch, lambda request: request.game_id in (0, 2, 3))
    training = Training(tokenizer, codec, sixty, tmp_path)
    training()
    assert failed
    for played in training.method.played:
        assert [len(group) for group in played.groups] == [1, 0, 2]
        assert all(game.trajectory.error is None for group in played.groups for game in group)
    assert [row["failed_games"] for row in rows(tmp_path / "metrics.jsonl")] == [3.0, 3.0, 3.0]
    assert [row["stop_reason"] for row in rows(tmp_path / "games.jsonl")].count("request_failed") == 0


def test_a_round_without_a_game_is_an_error_and_no_round(tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    fail(monkeypatch, lambda _: True)
    with pytest.raises(RunError, match=f"no game of round 1 could be played: {REASON}"):
        Training(tokenizer, codec, sixty, tmp_path)()
    assert not (tmp_path / "metrics.jsonl").exists()


def test_every_round_is_trained_in_the_precision_that_was_asked_for(tokenizer, codec, sixty, tmp_path) -> None:
    """accelerate wraps a model once; a second round in one process must be as the first one of another."""
    settings = SETTINGS.model_copy(update={"precision": "bf16", "rounds": 2})
    training = Training(tokenizer, codec, sixty, tmp_path, settings)
    found: list[tuple[int, torch.dtype]] = []
    rounds_begun: list[int] = []

    class Fitting(Counting):
        def fit(self, rows, callback, checkpoints, seed) -> None:
            rounds_begun.append(seed)
            fit_round(training.rounds, [{"token_ids": [5, 6, 7], "loss_mask": [0, 1, 1]}], callback, checkpoints, seed)

    head = training.model.get_output_embeddings()
    head.register_forward_hook(
        lambda module, _, said: found.append((len(rounds_begun), said.dtype)) if module.training else None
    )
    training.rounds.train(Fitting(training.model))
    assert found == [(1, torch.bfloat16), (2, torch.bfloat16)]
