"""Laws of training by rounds: what was played is stored, what was stopped goes on to the same bits."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from contexts import context_for
from failing_games import REASON, fail
from group_games import Schedule
from round_training import learner_of
from training_fixtures import compact, fast, make_run, rows, same_bits, small_model, weights_of

from wordle_rl.config import (
    ConfigError,
    RLOptimizerSettings,
    RoundTraining,
    SamplingSettings,
)
from wordle_rl.data.dataset import Example, encode_traces
from wordle_rl.runs import RunError, write_jsonl
from wordle_rl.solver import Solver
from wordle_rl.train.learner import TorchLearner, Update
from wordle_rl.train.loss import CrossEntropy
from wordle_rl.train.round_loop import Replay, Rounds, draw_games
from wordle_rl.train.starts import GameSetup

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

    loss = CrossEntropy()

    def __init__(self, model) -> None:
        self.model = model
        self.played, self.fitted, self.parts = [], [], []

    def choose(self, played):
        self.played.append(played)
        return [[Example([played.number], [1])]], {"chosen": 1.0}

    def fit(self, loop, items, _settings, *, loss, seed, part) -> bool:
        assert loss is self.loss
        self.fitted.append((items[0][0].token_ids, loop.checkpoints.parent.name, seed))
        self.parts.append(part)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(1.0)
        for number, update in enumerate((step(3.0), step(1.0)), start=1):
            loop.after(number, 2, update, {"epoch": 1.0})
        return True


def step(loss: float) -> Update:
    return Update(loss, grad_norm=1.0, learning_rate=1e-3, is_sound=True, num_tokens=7)


class Training:
    """One training by rounds with the method above."""

    def __init__(
        self, tokenizer, codec, words, directory: Path, settings=SETTINGS, progress=None, model=None, **options
    ) -> None:
        self.model = model or small_model(tokenizer)
        setup = GameSetup(context_for(words, compact(max_turns=3), Solver(words)), words.answers)
        run = make_run(directory, words)
        self.learner = TorchLearner(self.model, codec, precision=settings.precision)
        self.rounds = Rounds("practice", self.learner, setup, settings, run, progress=progress, **options)
        self.rounds._schedule = self.schedule = Schedule()
        self.method = Counting(self.model)

    def __call__(self) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("wordle_rl.train.round_loop.fit", self.method.fit)
            return self.rounds.train(self.method)


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
    assert training.method.fitted == [([number], f"round-{number}-training", number) for number in (1, 2, 3)]
    assert training.method.parts == [(0, 3), (1, 3), (2, 3)]


def test_a_round_that_teaches_nothing_changes_nothing(tokenizer, codec, sixty, tmp_path) -> None:
    training = Training(tokenizer, codec, sixty, tmp_path)
    training.method.choose = lambda played: ([], {"chosen": 0.0})
    before = weights_of(training.model)
    training()
    assert not training.method.fitted
    assert same_bits(before, weights_of(training.model))
    assert ["loss" in row for row in rows(tmp_path / "metrics.jsonl")] == [False] * 3


def test_what_cannot_work_is_refused(tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    long = SETTINGS.model_copy(update={"sampling": SamplingSettings(max_completion_tokens=5000)})
    with pytest.raises(ConfigError, match="max_completion_tokens"):
        Training(tokenizer, codec, sixty, tmp_path, long)()
    assert not (tmp_path / "secrets.jsonl").exists()
    learner = learner_of(small_model(tokenizer), codec)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="practice"):
        Rounds("practice", learner, None, SETTINGS, None)


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


class Fitting:
    """A method that trains on two rows, as the algorithms do."""

    loss = CrossEntropy()

    def choose(self, _played):
        soft = [[(9, 1.0)], [(4, 0.5), (10, 0.5)]]
        return [[Example([5, 6, 7], [0, 1, 1])], [Example([5, 8, 9, 10], [0, 0, 1, 1], soft_targets=soft)]], {}


def test_one_schedule_of_the_rate_spans_all_rounds(tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    falling = RLOptimizerSettings(learning_rate=1e-3, warmup=0.0, schedule="linear")
    settings = SETTINGS.model_copy(update={"batch_size": 1, "rounds": 2, "optimizer": falling})
    training = Training(tokenizer, codec, sixty, tmp_path, settings)
    rates, update = [], training.learner.update

    def listen(*args):
        done = update(*args)
        rates.append(done.learning_rate)
        return done

    monkeypatch.setattr(training.learner, "update", listen)
    training.rounds.train(Fitting())
    assert rates == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3])


# --- replay ---


@pytest.fixture
def replay(tokenizer, codec, sixty, plain_traces, tmp_path):
    """Makes the replay of two rounds of at most 12 games, and the games drawn for both; a quarter is a teacher's."""

    def make(model=None) -> tuple[Replay, list]:
        run = make_run(tmp_path / "run", sixty)
        write_jsonl(run.directory / "traces.jsonl", (trace.to_row() for trace in plain_traces))
        setup = GameSetup(context_for(sixty, compact(), Solver(sixty)), sixty.answers)
        learner = learner_of(model or small_model(tokenizer), codec)
        made = Replay(Rounds("practice", learner, setup, RoundTraining(rounds=2), run, seed=3), 0.25, 12)
        drawn = draw_games(run.directory / "traces.jsonl", 8, 3)
        return made, [encode_traces(games, compact(), codec, 1024).examples for games in (drawn[:4], drawn[4:])]

    return make


def test_games_are_drawn_from_the_whole_file(plain_traces, tmp_path) -> None:
    write_jsonl(tmp_path / "traces.jsonl", [trace.to_row() | {"seed": i} for i, trace in enumerate(plain_traces)])
    drawn = draw_games(tmp_path / "traces.jsonl", 20, 0)
    places = sorted(trace.seed for trace in drawn)
    assert len(set(places)) == 20
    assert places[-1] > 40
    assert drawn == draw_games(tmp_path / "traces.jsonl", 20, 0) != draw_games(tmp_path / "traces.jsonl", 20, 1)
    assert len(draw_games(tmp_path / "traces.jsonl", 1000, 0)) == len(plain_traces)


def test_a_round_replays_its_share_and_the_next_one_other_games(replay) -> None:
    made, (first, second) = replay()
    own = [[Example([1, 2], [0, 1])]]
    items, numbers = made.add(own, 12, 1)
    assert items == [*own, *([example] for example in first)], "4 of 16 games are a quarter"
    assert numbers == {"own_examples": 1.0, "all_examples": 5.0}
    assert made.add([], 12, 2)[0] == [[example] for example in second]
    assert made.add([], 6, 1)[0] == [[example] for example in first[:2]], "fewer beside fewer games of its own"
    assert made.add([], 0, 1)[0] == []


def test_games_that_no_context_holds_are_left_out(replay, tokenizer) -> None:
    model = small_model(tokenizer)
    model.config.max_position_embeddings = 8
    made, _ = replay(model)
    assert made.add([], 12, 1)[0] == []
