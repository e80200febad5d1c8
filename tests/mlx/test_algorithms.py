"""Laws of the algorithms on MLX: steps of torch from the same rows, and trainings that resume to the bit."""

from contextlib import contextmanager

import pytest

pytest.importorskip("mlx")

import numpy as np
from algorithm_settings import DISTILL, DPO, EXPERT_ITERATION, GRPO, SFT, train_by
from mlx_models import close, firm, same
from scripted import say, scripted
from sft_training import examples  # noqa: F401  # a fixture
from training_fixtures import StopAt, compact, context_for, fast, make_run, rows, small_model

from wordle_rl.mlx.learner import MLXLearner
from wordle_rl.mlx.model import of_transformers
from wordle_rl.prompt import Shape
from wordle_rl.runs import read_jsonl
from wordle_rl.solver import Solver
from wordle_rl.train import plain_text
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.starts import GameSetup
from wordle_rl.words.split import split_secrets

FEW = SFT.model_copy(update={"epochs": 1.0})


def metrics(run, kind: str = "loss") -> list[dict]:
    return [row for row in rows(run.directory / "metrics.jsonl") if kind in row]


@pytest.fixture
def learners(tokenizer, codec):
    """Makes learners of one model, on MLX and by torch."""

    def make(micro_batch_size: int) -> tuple[MLXLearner, TorchLearner]:
        whole = firm(small_model(tokenizer))
        ours = MLXLearner(of_transformers(whole), codec, micro_batch_size=micro_batch_size)
        return ours, TorchLearner(whole, codec, precision="fp32", micro_batch_size=micro_batch_size)

    return make


@pytest.fixture
def learner(tokenizer, codec):
    """Makes learners on MLX of one model."""
    return lambda: MLXLearner(of_transformers(firm(small_model(tokenizer))), codec)


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


def test_sft_is_that_of_torch(learners, setup, sixty, examples, tmp_path) -> None:  # noqa: F811
    ours, theirs = learners(micro_batch_size=8)
    runs = [make_run(tmp_path / name, sixty) for name in ("ours", "theirs")]
    for each, run in zip((ours, theirs), runs, strict=True):
        train_by(FEW, each, setup, run, examples, validation=examples[:9])
    a, b = map(metrics, runs)
    assert [row["step"] for row in a] == [row["step"] for row in b]
    assert len(a) >= 4
    for name in ("loss", "grad_norm", "mean_token_accuracy"):
        assert [row[name] for row in a] == pytest.approx([row[name] for row in b], abs=1e-4), name
    validated = [[row["validation_loss"] for row in metrics(run, "validation_loss")] for run in runs]
    assert validated[0] == pytest.approx(validated[1], abs=1e-4)
    assert close(ours.model, theirs.model, 2e-4)


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_grpo_is_that_of_torch(learners, setup, speaking, sixty, tmp_path, beta) -> None:
    ours, theirs = learners(micro_batch_size=4)
    runs = [make_run(tmp_path / name, sixty) for name in ("ours", "theirs")]
    settings = GRPO.model_copy(update={"beta": beta, "steps": 3})
    for each, run in zip((ours, theirs), runs, strict=True):
        train_by(settings, each, setup, run, open_policy=speaking)
    a, b = map(metrics, runs)
    assert [row["step"] for row in a] == [1, 2, 3]
    assert a[0].keys() - b[0].keys() == {"mlx_peak_memory_gib"}
    assert a[0]["grad_norm"] > 1e-2
    for name in ("loss", "grad_norm", "entropy", "sampler_kl", "reward", *(["kl"] if beta else [])):
        assert [row[name] for row in a] == pytest.approx([row[name] for row in b], abs=2e-4), name
    assert close(ours.model, theirs.model, 2e-4)


@pytest.mark.parametrize("shape", Shape)
def test_the_sampler_and_the_loss_agree_on_every_token(learner, setup, sixty, tmp_path, shape) -> None:
    run = make_run(tmp_path / "run", sixty)
    context = context_for(sixty, compact(shape, max_turns=3), setup.solver)
    train_by(GRPO, learner(), GameSetup(context, setup.secrets), run)
    for row in metrics(run):
        assert row["importance_ratio/max"] == pytest.approx(1.0, abs=1e-3)
        assert row["sampler_kl"] == pytest.approx(0.0, abs=1e-5)


ROUND = {"groups_per_round": 2, "group_size": 4, "replay_fraction": 0.0}
METHODS = {
    "expert_iteration": EXPERT_ITERATION.model_copy(update={**ROUND, "epochs": 3.0, "labels": "mistakes"}),
    "dpo": DPO.model_copy(update={"groups_per_round": 2, "epochs": 4.0}),
    "distill": DISTILL.model_copy(update={**ROUND, "epochs": 4.0}),
    "distill, distributions": DISTILL.model_copy(update={**ROUND, "epochs": 4.0, "targets": "distribution"}),
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_by_rounds_and_its_model_is_read_back(method, learner, setup, speaking, sixty, tmp_path):
    learnt, run = learner(), make_run(tmp_path / "run", sixty)
    directory = train_by(METHODS[method], learnt, setup, run, open_policy=speaking)
    [row] = metrics(run)
    if method == "dpo":
        assert row["loss"] < np.log(2)
        assert row["rewards/margins"] > 0
    else:
        assert row["mean_token_accuracy"] > 0
    assert not same(learnt.model, learner().model)
    again = learner()
    again.load_model(directory)
    assert same(learnt.model, again.model)


def test_the_model_writes_plain_text_and_learns_from_it(learner, setup, speaking, sixty, tmp_path, monkeypatch) -> None:
    for name, value in {
        "SMALLEST_VOCABULARY": 0,
        "NUM_TEXTS": 20,
        "_OPENINGS": ("crane",),
        "_FEWEST_TOKENS": 1,
    }.items():
        monkeypatch.setattr(plain_text, name, value)
    learnt, run = learner(), make_run(tmp_path / "run", sixty)
    plain_text.write_plain_text(learnt, run.directory, split_secrets(sixty), 0, lambda _: None)
    texts = [*read_jsonl(run.directory / "plain_text.jsonl")]
    assert len({row["text"] for row in texts}) > 10
    assert all(row["text"].startswith("crane") for row in texts)
    settings = METHODS["expert_iteration"].model_copy(update={"plain_text_fraction": 0.5})
    train_by(settings, learnt, setup, run, open_policy=speaking)
    [row] = metrics(run)
    assert row["all_examples"] == row["own_examples"] + 8


RESUMED = {
    "sft": (SFT, 2),
    "sft, muon": (SFT.model_copy(update={"optimizer": fast("muon")}), 2),
    "grpo, chosen": (GRPO.model_copy(update={"validate_every_steps": 2, "interpolation_alphas": (0.5, 1.0)}), 2),
    "grpo, a penalty": (GRPO.model_copy(update={"beta": 0.5}), 2),
    "dpo": (DPO.model_copy(update={"rounds": 2}), "win_rate"),
}


@pytest.mark.parametrize("case", RESUMED)
def test_a_stopped_training_resumes_as_if_never_stopped(case, learner, setup, speaking, sixty, examples, tmp_path):  # noqa: F811
    settings, moment = RESUMED[case]
    straight, stopped = (make_run(tmp_path / name, sixty) for name in ("straight", "stopped"))
    first, second = learner(), learner()
    options = {} if case.startswith("sft") else {"open_policy": speaking}
    train_by(settings, first, setup, straight, examples, **options)
    with pytest.raises(KeyboardInterrupt):
        train_by(settings, learner(), setup, stopped, examples, progress=StopAt(moment), **options)
    train_by(settings, second, setup, stopped, examples, **options)
    assert same(first.model, second.model)
    for name in ("loss", "kl"):
        assert [row.get(name) for row in metrics(straight)] == [row.get(name) for row in metrics(stopped)], name
