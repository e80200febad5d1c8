"""Laws of GRPO on MLX: the games of every trainer, micro-batches that add up, better turns likelier, exact resumes."""

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import numpy as np
from contexts import context_for
from group_games import Schedule
from mlx_models import firm
from training_fixtures import StopAt, compact, fast, make_run, rows, small_model

from wordle_rl.config import GRPOTraining, SamplingSettings, StartSettings
from wordle_rl.mlx import grpo as grpo_module
from wordle_rl.mlx.grpo import MLXWeights, filled, gradient_of_step, micro_batches, train_grpo
from wordle_rl.mlx.model import of_transformers
from wordle_rl.mlx.scores import choose, score
from wordle_rl.prompt import Shape
from wordle_rl.rl.grpo.rollouts import GroupRollouts
from wordle_rl.rl.setup import GameSetup
from wordle_rl.solver import Solver

SETTINGS = GRPOTraining(
    steps=3,
    groups_per_step=2,
    group_size=4,
    sampling=SamplingSettings(max_completion_tokens=6),
    optimizer=fast(),
    sample_games=1,
    max_refills=0,
)


def update(**changes: object) -> GRPOTraining:
    return SETTINGS.model_copy(update=changes)


@pytest.fixture
def train(tokenizer, codec, sixty, tmp_path, monkeypatch):
    """Train a small model whose games are paid by the lengths of their replies, so that groups differ."""

    class Paying(GroupRollouts):
        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, **kwargs)
            self.schedule = Schedule()
            played.append(self)

    played: list[GroupRollouts] = []
    monkeypatch.setattr(grpo_module, "GroupRollouts", Paying)

    def run(name: str, settings: GRPOTraining = SETTINGS, shape: Shape = Shape.TRANSCRIPT, model=None, progress=None):
        model = model or of_transformers(firm(small_model(tokenizer)))
        context = context_for(sixty, compact(shape, max_turns=3), Solver(sixty, use_cache=False))
        setup = GameSetup(context, sixty.answers[:20], sixty.answers[20:24])
        directory = make_run(tmp_path / name, sixty)
        train_grpo(model, codec, setup, settings, directory, progress=progress)
        return model, [row for row in rows(directory.directory / "metrics.jsonl") if row["stage"] == "grpo"]

    return run


def same(a, b) -> bool:
    ours, theirs = a.weights(), b.weights()
    return all(mx.array_equal(ours[name], theirs[name]).item() for name in ours)


@pytest.mark.parametrize("shape", Shape)
def test_steps_are_logged_under_the_names_of_every_backend(train, tokenizer, shape) -> None:
    model, logged = train("run", shape=shape)
    assert [row["step"] for row in logged] == [1, 2, 3]
    needed = {"loss", "reward", "reward_std", "grad_norm", "learning_rate", "entropy", "cumulative_wins", "step_time",
              "format_compliance", "zero_variance_share", "mlx_peak_memory_gib", "seconds/rollout"}  # fmt: skip
    assert all(needed <= row.keys() for row in logged)
    assert all(row["importance_ratio/max"] == pytest.approx(1.0, abs=1e-3) for row in logged)
    assert not same(model, of_transformers(firm(small_model(tokenizer))))


def step_rows(codec) -> dict:
    """Three rows of two turns, with advantages of both signs."""
    reply = codec.encode("<guess>crane</guess>") + list(codec.turn_end_ids)
    feedback = codec.encode("cX rY")
    mask = [1] * len(reply) + [0] * len(feedback) + [1] * len(reply)
    first, second = len(reply), len(feedback)
    advantages = [[0.5, -1.0], [-0.25, 0.25], [1.0, 0.5]]
    return {
        "prompt_ids": [codec.encode("abc"), codec.encode("ab"), codec.encode("a")],
        "completion_ids": [reply + feedback + reply] * 3,
        "env_mask": [mask] * 3,
        "logprobs": [[-3.0 * m for m in mask] for _ in range(3)],
        "token_advantages": [[a] * first + [0.0] * second + [b] * first for a, b in advantages],
        "game_reward": [0.0] * 3,
    }


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo"])
def test_micro_batches_add_up_to_the_step(tokenizer, codec, loss_type) -> None:
    model = of_transformers(firm(small_model(tokenizer)))
    wide = update(loss_type=loss_type, groups_per_step=1, group_size=3, epsilon=30.0, epsilon_high=30.0)
    whole, parts = (
        gradient_of_step(model, step_rows(codec), settings, codec.pad_id, None)
        for settings in (wide, wide.model_copy(update={"micro_batch_size": 1}))
    )
    assert len(micro_batches(step_rows(codec), wide.model_copy(update={"micro_batch_size": 1}))) == 3
    assert parts.loss == pytest.approx(whole.loss, abs=1e-5)
    assert all(np.abs(np.array(whole.gradients[n] - parts.gradients[n])).max() < 1e-5 for n in whole.gradients)


def test_a_step_raises_the_probability_of_better_turns(tokenizer, codec) -> None:
    model = of_transformers(firm(small_model(tokenizer)))
    rows_ = step_rows(codec)
    chosen = choose(
        [[*p, *c] for p, c in zip(rows_["prompt_ids"], rows_["completion_ids"], strict=True)],
        [[*[0] * len(p), *m] for p, m in zip(rows_["prompt_ids"], rows_["env_mask"], strict=True)],
        codec.pad_id,
    )
    before = score(model, chosen).logprobs
    exact, start = [], 0
    for mask in rows_["env_mask"]:  # ratios begin at 1
        values = iter(before[start : start + sum(mask)].tolist())
        exact.append([next(values) if m else 0.0 for m in mask])
        start += sum(mask)
    rows_ = {**rows_, "logprobs": exact}
    found = gradient_of_step(model, rows_, update(groups_per_step=1, group_size=3), codec.pad_id, None)
    slope = sum(float(mx.sum(g * g).item()) for g in found.gradients.values())
    changed = {name: model.weights()[name] - 1e-3 * gradient for name, gradient in found.gradients.items()}
    model.network.load_weights(list(changed.items()), strict=False)
    advantages = mx.array([a for row, mask in zip(rows_["token_advantages"], rows_["env_mask"], strict=True)
                           for a, m in zip(row, mask, strict=True) if m])  # fmt: skip
    gained = ((score(model, chosen).logprobs - before) * advantages).sum().item() / len(advantages)
    assert gained == pytest.approx(1e-3 * slope, rel=0.1)
    assert gained > 0


@pytest.mark.parametrize("changes", [{}, {"validate_every_steps": 2, "interpolation_alphas": (0.5, 1.0)}])
def test_a_stopped_training_resumes_as_if_never_stopped(train, changes) -> None:
    settings = update(steps=4, **changes)
    straight, logged = train("straight", settings)
    with pytest.raises(KeyboardInterrupt):
        train("stopped", settings, progress=StopAt(2))
    resumed, again = train("stopped", settings)
    assert same(straight, resumed)
    assert [row["reward"] for row in again] == [row["reward"] for row in logged]
    assert [row["cumulative_wins"] for row in again] == [row["cumulative_wins"] for row in logged]


def test_the_penalty_is_to_the_start_also_after_a_resume(train) -> None:
    settings = update(steps=4, beta=0.5, optimizer=fast().model_copy(update={"learning_rate": 1e-2}))
    _, logged = train("straight", settings)
    with pytest.raises(KeyboardInterrupt):
        train("stopped", settings, progress=StopAt(2))
    _, again = train("stopped", settings)
    assert logged[0]["kl"] == pytest.approx(0.0, abs=1e-5)
    assert logged[-1]["kl"] > 1e-4
    assert [row["kl"] for row in again] == pytest.approx([row["kl"] for row in logged], abs=1e-6)


def test_two_candidates_a_turn_are_compared_and_the_better_one_is_played(train) -> None:
    _, logged = train("run", update(steps=1, turn_candidates=2, credit="guess"))
    assert logged[0]["mlx_peak_memory_gib"] > 0
    assert logged[0]["reply_tokens"] > 0


def test_groups_start_from_boards_that_others_share(train) -> None:
    _, logged = train("run", update(steps=1, starts=StartSettings(max_prefix_guesses=2)))
    assert len(logged) == 1


def test_blank_rows_are_left_out(codec) -> None:
    blank = {name: [[0]] if name != "game_reward" else [0.0] for name in step_rows(codec)}
    whole = {name: values + blank[name] for name, values in step_rows(codec).items()}
    assert filled(whole) == step_rows(codec)


def test_weights_between_two_points_are_interpolated(tokenizer, tmp_path) -> None:
    model = of_transformers(small_model(tokenizer))
    store = MLXWeights(model)
    store.save(tmp_path / "start.safetensors", {})
    before = np.array(model.weights()["model.norm.weight"])
    model.network.model.norm.weight = model.network.model.norm.weight + 1.0
    store.save(tmp_path / ".end.safetensors.partial", {"record": "{}"})
    store.interpolate(tmp_path / "start.safetensors", tmp_path / ".end.safetensors.partial", 0.25)
    assert np.array(model.weights()["model.norm.weight"]) == pytest.approx(before + 0.25)
    store.load(tmp_path / "start.safetensors")
    assert np.array_equal(np.array(model.weights()["model.norm.weight"]), before)
