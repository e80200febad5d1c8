"""Laws of replay: teacher games are learnt beside the policy's own, at their weight, and each step has others."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from grpo_training import SETTINGS, Training, close, logprob
from training_fixtures import compact, make_run, rows, small_model, weights_of

from wordle_rl.config import ConfigError, GRPOSettings
from wordle_rl.data.dataset import encode_traces
from wordle_rl.rl.grpo.replay import ReplayLoss, draw_games
from wordle_rl.rollout import Segment
from wordle_rl.runs import RunError, write_jsonl

ALONE = SimpleNamespace(process_index=0, num_processes=1)


@pytest.fixture
def stored(plain_traces, tmp_path):
    """A run directory with teacher games."""
    directory = tmp_path / "run"
    directory.mkdir()
    write_jsonl(directory / "traces.jsonl", (trace.to_row() for trace in plain_traces))
    return directory


@pytest.fixture
def train(tokenizer, codec, sixty, monkeypatch) -> Training:
    return Training(tokenizer, codec, sixty, monkeypatch)


def test_games_are_drawn_from_the_whole_file(plain_traces, tmp_path) -> None:
    write_jsonl(tmp_path / "traces.jsonl", [trace.to_row() | {"seed": i} for i, trace in enumerate(plain_traces)])
    drawn = draw_games(tmp_path / "traces.jsonl", 20, 0)
    places = sorted(trace.seed for trace in drawn)
    assert len(set(places)) == 20
    assert places[-1] > 40
    assert drawn == draw_games(tmp_path / "traces.jsonl", 20, 0) != draw_games(tmp_path / "traces.jsonl", 20, 1)
    assert len(draw_games(tmp_path / "traces.jsonl", 1000, 0)) == len(plain_traces)


def test_the_loss_is_the_mean_over_learnt_tokens_at_its_weight(
    stored, plain_traces, tokenizer, codec, sixty, split
) -> None:
    settings = GRPOSettings(steps=2, replay_games=6, replay_weight=0.5)
    model, prompter = small_model(tokenizer), compact()
    replay = ReplayLoss(model, codec, prompter, settings, make_run(stored, sixty), 3, ALONE)
    drawn = draw_games(stored / "traces.jsonl", 12, 3)
    for step in (0, 1):
        examples = encode_traces(drawn[6 * step : 6 * step + 6], prompter, codec, 1024).examples
        num_learnt = sum(sum(example.loss_mask) for example in examples)
        for part in (0, 1):
            own = examples[part::2]
            total = -sum(logprob(model, [Segment((), e.token_ids, e.loss_mask, (), ())]) for e in own)
            assert float(replay(model, step, part, 2).detach()) == pytest.approx(0.5 * total / num_learnt, rel=1e-4)
            assert replay.last == pytest.approx(total / sum(sum(e.loss_mask) for e in own), rel=1e-4)


@pytest.mark.parametrize("parts", [1, 2])
def test_processes_share_the_games_of_a_step(parts, stored, tokenizer, codec, sixty) -> None:
    """Two processes with three games each have, on average, the loss of one with six."""
    model, run = small_model(tokenizer), make_run(stored, sixty)
    both = [SimpleNamespace(process_index=i, num_processes=2) for i in (0, 1)]
    losses = []
    for games, processes in ((6, [ALONE]), (3, both)):
        settings = GRPOSettings(steps=3, replay_games=games, replay_weight=1.0)
        replays = [ReplayLoss(model, codec, compact(), settings, run, 0, among) for among in processes]
        total = sum(float(replay(model, 1, part, parts).detach()) for replay in replays for part in range(parts))
        losses.append(total / len(processes))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_where_play_teaches_nothing_replay_alone_is_learnt(train, stored, tokenizer) -> None:
    train.pay = lambda _transcript, _turn: 1.0
    settings = SETTINGS.model_copy(update={"steps": 6, "groups_per_step": 1, "scale_advantages": False})
    start = weights_of(small_model(tokenizer))
    assert close(weights_of(train(stored.parent / "bare", settings)), start)
    taught = train(stored, settings.model_copy(update={"replay_games": 16, "replay_weight": 1.0}))
    assert not close(weights_of(taught), start)
    losses = [row["replay_loss"] for row in rows(stored / "metrics.jsonl") if row["stage"] == "grpo"]
    assert len(losses) == 6
    assert losses[-1] < 0.9 * losses[0]


def test_without_teacher_games_nothing_is_played(train, tmp_path) -> None:
    with pytest.raises(RunError, match=r"no file .*traces\.jsonl"):
        train(tmp_path / "run", SETTINGS.model_copy(update={"replay_games": 4}))
    assert not train.games


def test_games_that_no_context_holds_are_refused(stored, tokenizer, codec, sixty) -> None:
    model = small_model(tokenizer)
    model.config.max_position_embeddings = 8
    with pytest.raises(RunError, match=r"no game of .*traces\.jsonl fits"):
        ReplayLoss(model, codec, compact(), GRPOSettings(replay_games=2), make_run(stored, sixty), 0, ALONE)


def test_a_micro_batch_without_a_teacher_game_is_refused() -> None:
    with pytest.raises((ConfigError, ValueError), match="replay_games 3 leaves some of the 4 micro-batches"):
        GRPOSettings(groups_per_step=4, group_size=4, micro_batch_size=4, replay_games=3)
