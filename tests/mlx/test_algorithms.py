"""Laws of the algorithms on MLX: steps of torch from the same rows, and trainings that resume to the bit."""

from contextlib import contextmanager

import pytest

pytest.importorskip("mlx")

import numpy as np
from contexts import context_for
from mlx_models import firm, same
from scripted import say, scripted
from sft_training import SETTINGS, examples  # noqa: F401  # a fixture
from training_fixtures import StopAt, compact, fast, make_run, rows, small_model

from wordle_rl.config import (
    DistillTraining,
    DPOTraining,
    ExpertIterationTraining,
    GRPOTraining,
    RewardSettings,
    SamplingSettings,
    StartSettings,
    TraceSettings,
)
from wordle_rl.mlx.learner import MLXLearner
from wordle_rl.mlx.model import of_transformers
from wordle_rl.prompt import Shape
from wordle_rl.solver import Solver
from wordle_rl.train.distill import train_distill
from wordle_rl.train.dpo import train_dpo
from wordle_rl.train.expert_iteration import train_expert_iteration
from wordle_rl.train.grpo import train_grpo
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.sft import train_sft
from wordle_rl.train.starts import GameSetup

FEW = SETTINGS.model_copy(update={"epochs": 1.0, "micro_batch_size": 8, "batch_size": 16})
SAMPLING = SamplingSettings(max_completion_tokens=6)
GRPO = GRPOTraining(
    steps=3,
    groups_per_step=2,
    group_size=4,
    sampling=SAMPLING,
    optimizer=fast(),
    sample_games=1,
    max_refills=0,
    reward=RewardSettings(weights={"mlx_models:said": 1.0}, keep_order=False),
)
ROUNDS = {"rounds": 1, "groups_per_round": 2, "batch_size": 2, "sampling": SAMPLING, "optimizer": fast()}


def metrics(run, kind: str = "loss") -> list[dict]:
    return [row for row in rows(run.directory / "metrics.jsonl") if kind in row]


@pytest.fixture
def learners(tokenizer, codec):
    """Makes two learners of one model, on MLX and by torch."""

    def made():
        whole = firm(small_model(tokenizer))
        return MLXLearner(of_transformers(whole), codec), TorchLearner(whole, codec, precision="fp32")

    return made


@pytest.fixture
def learner(learners):
    return lambda: learners()[0]


@pytest.fixture
def setup(sixty) -> GameSetup:
    context = context_for(sixty, compact(max_turns=3), Solver(sixty))
    return GameSetup(context, sixty.answers[:20], sixty.answers[20:24])


@pytest.fixture
def speaking(codec, sixty):
    """Opens a player that says what game and turn decide, whoever learns from it."""

    @contextmanager
    def open_policy(_sampling, _seed):
        yield scripted(lambda game, turns: say(sixty.answers[(game * 7 + len(turns)) % 9]))(None, codec), None

    return open_policy


def close(ours: MLXLearner, theirs: TorchLearner, tolerance: float = 2e-4) -> bool:
    weights = ours.model.weights()
    return all(
        np.abs(weight.detach().numpy() - np.array(weights[name])).max() < tolerance
        for name, weight in theirs.model.named_parameters()
    )


def test_sft_is_that_of_torch(learners, sixty, examples, tmp_path) -> None:  # noqa: F811
    ours, theirs = learners()
    runs = [make_run(tmp_path / name, sixty) for name in ("ours", "theirs")]
    for each, run in zip((ours, theirs), runs, strict=True):
        train_sft(each, examples, FEW, run, validation=examples[:9])
    a, b = map(metrics, runs)
    assert [row["step"] for row in a] == [row["step"] for row in b]
    assert len(a) >= 4
    for name in ("loss", "grad_norm", "mean_token_accuracy"):
        assert [row[name] for row in a] == pytest.approx([row[name] for row in b], abs=1e-4), name
    validated = [[row["validation_loss"] for row in metrics(run, "validation_loss")] for run in runs]
    assert validated[0] == pytest.approx(validated[1], abs=1e-4)
    assert close(ours, theirs)


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_grpo_is_that_of_torch(learners, setup, speaking, sixty, tmp_path, beta) -> None:
    ours, theirs = learners()
    runs = [make_run(tmp_path / name, sixty) for name in ("ours", "theirs")]
    settings = GRPO.model_copy(update={"beta": beta, "micro_batch_size": 4})
    for each, run in zip((ours, theirs), runs, strict=True):
        train_grpo(each, setup, settings, run, open_policy=speaking)
    a, b = map(metrics, runs)
    assert [row["step"] for row in a] == [1, 2, 3]
    assert a[0].keys() - b[0].keys() == {"mlx_peak_memory_gib"}
    assert a[0]["grad_norm"] > 1e-2
    for name in ("loss", "grad_norm", "entropy", "sampler_kl", "reward", "kl" if beta else "kl_to_start"):
        assert [row[name] for row in a] == pytest.approx([row[name] for row in b], abs=2e-4), name
    assert close(ours, theirs)


@pytest.mark.parametrize("shape", Shape)
def test_the_sampler_and_the_loss_agree_on_every_token(learner, setup, sixty, tmp_path, shape) -> None:
    run = make_run(tmp_path / "run", sixty)
    context = context_for(sixty, compact(shape, max_turns=3), setup.solver)
    train_grpo(learner(), GameSetup(context, setup.secrets), GRPO, run)
    for row in metrics(run):
        assert row["importance_ratio/max"] == pytest.approx(1.0, abs=1e-3)
        assert row["sampler_kl"] == pytest.approx(0.0, abs=1e-5)


def test_two_candidates_a_turn_and_boards_that_others_share(learner, setup, sixty, tmp_path) -> None:
    run = make_run(tmp_path / "run", sixty)
    starts = StartSettings(max_prefix_guesses=2)
    settings = GRPO.model_copy(update={"steps": 1, "turn_candidates": 2, "credit": "guess", "starts": starts})
    train_grpo(learner(), setup, settings, run)
    assert metrics(run)[0]["grad_norm"] > 0


def test_a_stopped_sft_resumes_as_if_never_stopped(learner, sixty, examples, tmp_path) -> None:  # noqa: F811
    straight, stopped = (make_run(tmp_path / name, sixty) for name in ("straight", "stopped"))
    first, second = learner(), learner()
    train_sft(first, examples, FEW, straight)
    with pytest.raises(KeyboardInterrupt):
        train_sft(learner(), examples, FEW, stopped, progress=StopAt(2))
    train_sft(second, examples, FEW, stopped)
    assert same(first.model, second.model)
    assert [row["loss"] for row in metrics(straight)] == [row["loss"] for row in metrics(stopped)]


@pytest.mark.parametrize(
    "changes", [{"validate_every_steps": 2, "interpolation_alphas": (0.5, 1.0)}, {"beta": 0.5}], ids=["chosen", "beta"]
)
def test_a_stopped_grpo_resumes_as_if_never_stopped(learner, setup, sixty, tmp_path, changes) -> None:
    settings = GRPO.model_copy(update=changes)
    straight, stopped = (make_run(tmp_path / name, sixty) for name in ("straight", "stopped"))
    first, second = learner(), learner()
    train_grpo(first, setup, settings, straight)
    with pytest.raises(KeyboardInterrupt):
        train_grpo(learner(), setup, settings, stopped, progress=StopAt(2))
    train_grpo(second, setup, settings, stopped)
    assert same(first.model, second.model)
    for name in ("reward", "loss", *(["kl"] if "beta" in changes else [])):
        assert [row[name] for row in metrics(straight)] == [row[name] for row in metrics(stopped)], name


def test_progress_shows_wins_and_loss_beside_the_reward(learner, setup, sixty, tmp_path) -> None:
    notes = []
    settings = GRPO.model_copy(update={"steps": 1})
    train_grpo(learner(), setup, settings, make_run(tmp_path / "run", sixty), progress=lambda *told: notes.append(told))
    assert all(name in notes[0][-1] for name in ("reward", "win_rate", "loss"))


def test_expert_iteration_learns_the_games_that_it_won(learner, setup, codec, sixty, tmp_path) -> None:
    secret, other = sixty.answers[:2]

    @contextmanager
    def winning(_sampling, _seed):
        """Every second game is won at the second turn."""
        yield scripted(lambda game, turns: say(secret if turns and game % 2 else other))(None, codec), None

    learnt, run = learner(), make_run(tmp_path / "run", sixty)
    settings = ExpertIterationTraining(**ROUNDS, group_size=4, replay_fraction=0.0, epochs=3)
    directory = train_expert_iteration(learnt, GameSetup(setup.context, [secret]), settings, run, open_policy=winning)
    [row] = metrics(run)
    assert row["kept_games"] == 2
    assert row["mean_token_accuracy"] > 0
    assert not same(learnt.model, learner().model)
    again = learner()
    again.load_model(directory)
    assert same(learnt.model, again.model)


def test_dpo_prefers_the_chosen_replies(learner, setup, speaking, sixty, tmp_path) -> None:
    learnt, run = learner(), make_run(tmp_path / "run", sixty)
    settings = DPOTraining(**ROUNDS, group_size=2, epochs=4, judge="information", guesses_per_board=4, margin=0.01)
    train_dpo(learnt, setup, settings, run, open_policy=speaking)
    [row] = metrics(run)
    assert row["pairs"] > 1
    assert row["loss"] < np.log(2)
    assert row["rewards/margins"] > 0


@pytest.mark.parametrize("targets", ["guess", "distribution"])
def test_distillation_learns_what_the_teacher_says(learner, setup, speaking, sixty, tmp_path, targets) -> None:
    learnt, run = learner(), make_run(tmp_path / "run", sixty)
    sampling = SamplingSettings(max_completion_tokens=12)
    settings = DistillTraining(
        **{**ROUNDS, "sampling": sampling}, group_size=2, replay_fraction=0.0, epochs=4, targets=targets
    )
    train_distill(learnt, setup, settings, run, traces=TraceSettings(), open_policy=speaking)
    [row] = metrics(run)
    assert row["labels"] > 1
    assert row["mean_token_accuracy"] > 0
    assert not same(learnt.model, learner().model)


def test_a_stopped_round_resumes_as_if_never_stopped(learner, setup, speaking, sixty, tmp_path) -> None:
    settings = DPOTraining(
        **{**ROUNDS, "rounds": 2}, group_size=2, judge="information", guesses_per_board=4, margin=0.01
    )
    straight, stopped = (make_run(tmp_path / name, sixty) for name in ("straight", "stopped"))
    first, second = learner(), learner()
    train_dpo(first, setup, settings, straight, open_policy=speaking)
    games = settings.groups_per_round * settings.group_size
    with pytest.raises(KeyboardInterrupt):
        train_dpo(learner(), setup, settings, stopped, open_policy=speaking, progress=StopAt(games))
    train_dpo(second, setup, settings, stopped, open_policy=speaking)
    assert same(first.model, second.model)
