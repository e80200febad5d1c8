"""Laws of the guard in other places: infinite rewards of GRPO, and bad gradients in training by rounds."""

import itertools
import math

import pytest

torch = pytest.importorskip("torch")

from contexts import context_for
from expert_iteration_settings import SETTINGS as ROUNDS
from grpo_training import SETTINGS as GRPO
from grpo_training import Training
from training_fixtures import compact, fast, make_run, rows, small_model, weights_of

from wordle_rl.config import ExpertIterationTraining
from wordle_rl.rl.rounds.expert_iteration import train_expert_iteration
from wordle_rl.rl.setup import GameSetup
from wordle_rl.solver import Solver

LABELS = ExpertIterationTraining.model_validate(
    ROUNDS.model_dump(exclude_unset=True, exclude={"keep_per_group"})
    | {"labels": "secret", "groups_per_round": 4, "group_size": 1, "rounds": 2}
)


def finite(model) -> bool:
    return all(bool(weight.isfinite().all()) for weight in weights_of(model).values())


@pytest.mark.parametrize("amount", [math.inf, -math.inf, math.nan])
def test_a_game_whose_reward_is_not_finite_is_no_sample(amount, tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    training, model, calls = Training(tokenizer, codec, sixty, monkeypatch), small_model(tokenizer), itertools.count()
    training.pay = lambda *_: amount if (call := next(calls)) == 20 else call % 3 / 2
    training(tmp_path, GRPO.model_copy(update={"optimizer": fast(), "steps": 4, "max_refills": 0}), model=model)
    found = rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    assert sum(row.get("failed_games", 0) for row in found) == 1
    assert not any(row.get("skipped_steps") or row.get("not_finite") for row in found)
    assert finite(model)


def test_a_bad_gradient_of_a_round_is_skipped_and_counted(tokenizer, codec, sixty, tmp_path) -> None:
    model, calls = small_model(tokenizer), itertools.count()
    context = context_for(sixty, compact(max_turns=3), Solver(sixty, use_cache=False))
    before = weights_of(model)
    model.model.layers[0].mlp.up_proj.weight.register_hook(
        lambda gradient: torch.full_like(gradient, math.nan) if next(calls) == 1 else gradient
    )
    train_expert_iteration(
        model, codec, GameSetup(context, context.split.train), LABELS, make_run(tmp_path, sixty), seed=0
    )
    found = rows(tmp_path / "metrics.jsonl")
    assert [row.get("skipped_steps", 0) for row in found] == [1, 0]
    assert finite(model)
    assert not all(torch.equal(before[name], weight) for name, weight in weights_of(model).items())
