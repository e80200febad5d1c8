"""Laws of choosing weights: the validation secrets decide, ties go to the later weights, a stop forgets nothing."""

import json
from contextlib import contextmanager
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from checkpoint_choice import Choosing
from grpo_training import SETTINGS, same, train_fixture, update  # noqa: F401  # a fixture
from safetensors import safe_open
from safetensors.torch import load_file
from training_fixtures import make_run, rows, small_model, weights_of

import wordle_rl.train.grpo as grpo_module
from wordle_rl.runs import read_object
from wordle_rl.train.checkpoint_selection import BestWeights, Validated
from wordle_rl.train.learner import TorchLearner, TorchWeights


def fill(model: torch.nn.Module, value: float) -> None:
    with torch.no_grad():
        model.weight.fill_(value)


def costing(greedy: float, sampled: float = 9.0, bound: float = 1.0, won: tuple[bool, ...] = ()) -> Validated:
    return Validated({"greedy_cost": float(greedy), "cost": float(sampled), "validation_cost": float(bound)}, won)


@pytest.fixture
def chosen(sixty, tmp_path):
    """Train through weights 0, 1, 2… with these costs; what is taken in the end, its step, and what was written."""

    def make(costs, every=1, resume_at=None, alphas=(1.0,)):
        model = torch.nn.Linear(2, 2, bias=False)
        run = make_run(tmp_path / "run", sixty)
        figures = iter(costs)

        def validate(*_: float) -> Validated:
            figure = next(figures)
            return costing(*figure) if isinstance(figure, tuple) else costing(figure)

        best = BestWeights(TorchWeights(model), validate, every, run, tmp_path / "best", alphas)
        last = len(costs) - len(set(alphas) - {1.0}) - 1 if every == 1 else 6
        for step in range(last + 1):
            fill(model, float(step))
            if step == resume_at:
                best = BestWeights(TorchWeights(model), validate, every, run, tmp_path / "best", alphas)
            if step == 0:
                best.begin()
            elif step < last:
                best.after(step)
        step = best.take_best(last)
        best.forget()
        return model.weight[0, 0].item(), step, rows(run.directory / "metrics.jsonl")

    return make


def test_the_cheapest_weights_are_taken(chosen) -> None:
    weight, step, written = chosen([5.0, 4.0, 4.5, 4.2])
    assert (weight, step) == (1.0, 1)
    assert [(row["stage"], row["step"], row["greedy_cost"]) for row in written] == [
        ("validation", 0, 5.0), ("validation", 1, 4.0), ("validation", 2, 4.5), ("validation", 3, 4.2),
    ]  # fmt: skip


def test_validation_comes_every_so_many_steps_and_at_the_end(chosen) -> None:
    _, _, written = chosen([5.0, 4.0, 3.0], every=4)
    assert [row["step"] for row in written] == [0, 4, 6]


def test_greedy_play_counts_first_then_sampled_play(chosen) -> None:
    assert chosen([(4.0, 5.0), (4.1, 3.0), (3.9, 6.0)])[:2] == (2.0, 2)
    assert chosen([(4.0, 5.0), (4.0, 4.0), (4.0, 4.5)])[:2] == (1.0, 1)
    assert chosen([(4.0, 5.0), (3.5, 5.5), (3.5, 5.4), (3.6, 1.0)], resume_at=2)[:2] == (2.0, 2)


def test_training_words_do_not_outvote_validation_words(chosen) -> None:
    """Each step plays all words together better; the first plays the validation words worse than the start."""
    assert chosen([(5.0, 5.0, 4.0), (3.0, 5.0, 4.1), (4.5, 5.0, 4.0)])[:2] == (2.0, 2)
    assert chosen([(5.0, 5.0, 4.0), (4.5, 5.0, 3.0), (4.4, 5.0, 3.9)], resume_at=1)[:2] == (2.0, 2)


def test_weights_between_start_and_end_are_tried(chosen, tmp_path) -> None:
    costs = [(4.0, 5.0), (4.0, 6.0), (4.2, 3.0), (4.0, 4.0), (3.9, 3.9), (4.1, 3.5)]  # start, two steps, three blends
    weight, step, written = chosen(costs, alphas=(0.25, 0.5, 0.75, 1.0))
    assert (weight, step) == (1.0, 2), "half of the way from 0 to 2"
    assert read_object(tmp_path / "selected.json") == {"step": 2, "alpha": 0.5, **costing(3.9, 3.9).figures}
    assert [(row["stage"], row["step"]) for row in written[-3:]] == [("blend", 25), ("blend", 50), ("blend", 75)]


def test_weights_between_can_be_the_only_candidates_beside_the_start(chosen, tmp_path) -> None:
    weight, step, written = chosen([5.0, 1.0, 2.0, 4.0], alphas=(0.25,))  # two steps that cost less
    assert (weight, step) == (0.5, 2), "a quarter of the way from 0 to 2"
    assert read_object(tmp_path / "selected.json")["alpha"] == 0.25
    assert [(row["stage"], row["step"]) for row in written] == [
        ("validation", 0), ("validation", 1), ("validation", 2), ("blend", 25),
    ]  # fmt: skip


def test_the_start_stays_where_the_only_candidate_is_worse(chosen) -> None:
    assert chosen([3.0, 1.0, 2.0, 4.0], alphas=(0.25,))[:2] == (0.0, 0)


def test_a_training_that_goes_on_still_knows_its_start(chosen) -> None:
    assert chosen([5.0, 5.0, 5.0, 1.0], resume_at=2, alphas=(0.5, 1.0))[:2] == (1.0, 2)


def test_what_was_not_validated_by_the_end_is_before_it_is_chosen_from(tmp_path, sixty) -> None:
    """A training that was stopped after its last step has nothing left to do but to choose."""
    model, asked = torch.nn.Linear(2, 2, bias=False), []
    make = partial(BestWeights, TorchWeights(model), lambda step, *_: asked.append(step) or costing(9.0 - step), 2)
    best = make(make_run(tmp_path / "run", sixty), tmp_path / "best")
    fill(model, 0.0)
    best.begin()
    again = make(make_run(tmp_path / "run", sixty), tmp_path / "best")
    fill(model, 3.0)
    assert again.take_best(3) == 3
    assert model.weight[0, 0].item() == 3.0
    assert asked == [0, 3]


def test_only_what_is_trained_is_kept_and_tied_weights_once(tmp_path, sixty) -> None:
    first, second = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)
    second.weight = first.weight
    frozen = torch.nn.Linear(2, 2, bias=False).requires_grad_(False)
    model = torch.nn.Sequential(first, second, frozen)
    run = make_run(tmp_path / "run", sixty)
    best = BestWeights(TorchWeights(model), lambda step, *_: costing(step), 1, run, tmp_path / "b")
    fill(first, 1.0)
    best.begin()
    assert list(load_file(tmp_path / "b" / "best.safetensors")) == ["0.weight"]
    fill(first, 2.0)
    fill(frozen, 3.0)
    assert best.take_best(1) == 0
    assert model[0].weight[0, 0].item() == model[1].weight[0, 0].item() == 1.0
    assert model[1].weight is model[0].weight
    assert frozen.weight[0, 0].item() == 3.0


def test_grpo_validates_and_of_equal_weights_keeps_the_last(train, split, tmp_path) -> None:
    """An untrained model wins nothing, before or after."""
    train.pay = None
    setup = train.setup(secrets=split.train, validation=split.val)
    plain = weights_of(train(tmp_path / "plain", setup=setup))
    kept = weights_of(train(tmp_path / "kept", update(SETTINGS, validate_every_steps=1), setup=setup))
    assert same(plain, kept)
    written = [row for row in rows(tmp_path / "kept" / "metrics.jsonl") if row["stage"] == "validation"]
    assert [(row["step"], row["cost"]) for row in written] == [(0, 4.0), (1, 4.0), (2, 4.0)]
    shown = [row for row in rows(tmp_path / "kept" / "games.jsonl") if row["stage"] == "validation"]
    assert {row["step"] for row in shown} == {0, 1, 2}
    assert {row["secret"] for row in shown} <= set(split.val)
    rubric = SETTINGS.reward.schedule().rubric()
    assert all(set(turn["components"]) == set(rubric.effective_weights) for row in shown for turn in row["turns"])
    assert all(row["reward"] == pytest.approx(sum(t["reward"] for t in row["turns"]), abs=1e-3) for row in shown)


@pytest.fixture
def choosing(train, split, monkeypatch) -> Choosing:
    return Choosing(train, split, monkeypatch)


STOPS = {"in the last": {2: 1}, "in a blend": {4: 1}}


@pytest.mark.parametrize("moment", STOPS)
def test_a_stop_while_it_chooses_costs_no_step(moment, choosing, tokenizer, tmp_path) -> None:
    whole = choosing(tmp_path / "whole")
    games = len(choosing.training.games)
    with pytest.raises(KeyboardInterrupt):
        choosing(tmp_path / "broken", pressing=STOPS[moment])
    assert not (tmp_path / "broken" / "grpo" / "model.safetensors").exists()
    # every weight must come from what was kept
    resumed = choosing(tmp_path / "broken", model=small_model(tokenizer, seed=3))
    assert choosing.played == 3, "the last validation and both blends"
    assert len(choosing.training.games) == 2 * games, "no step was played again"
    whole, resumed = weights_of(whole), weights_of(resumed)
    assert same(whole, resumed)
    chosen = [read_object(tmp_path / name / "grpo" / "selected.json") for name in ("whole", "broken")]
    assert chosen[0] == chosen[1]
    assert {path.name for path in (tmp_path / "broken" / "grpo").iterdir()}.isdisjoint({"checkpoints", "best"})


def test_a_last_step_that_was_not_finite_costs_no_step_either(choosing, tokenizer, tmp_path) -> None:
    def poisoned():
        model, calls = small_model(tokenizer), []

        def poison(gradient):
            calls.append(1)
            return gradient if len(calls) == 1 else torch.full_like(gradient, float("nan"))

        model.model.layers[0].mlp.up_proj.weight.register_hook(poison)
        return model

    whole = weights_of(choosing(tmp_path / "whole", model=poisoned()))
    games = len(choosing.training.games)
    with pytest.raises(KeyboardInterrupt):
        choosing(tmp_path / "broken", model=poisoned(), pressing={2: 2})
    resumed = weights_of(choosing(tmp_path / "broken", model=small_model(tokenizer, seed=3)))
    assert len(choosing.training.games) == 2 * games
    assert same(whole, resumed)


def test_what_is_trained_in_bfloat16_plays_in_its_own_precision(choosing, tokenizer, tmp_path) -> None:
    """As evaluation will load it: validation is to foresee what that finds."""
    model, seen = small_model(tokenizer), []
    model.get_input_embeddings().register_forward_pre_hook(
        lambda *_: seen.append((torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()))
    )
    choosing(tmp_path, model=model, precision="bf16")
    assert set(seen) == {(True, True), (True, False), (False, False)}, "learning, measuring the KL, playing"


class Listening:
    """A tracker that refuses games once it is closed, as some do."""

    def __init__(self) -> None:
        self.told, self.is_open = [], True

    def log(self, step, numbers) -> None:
        assert self.is_open

    def add_games(self, step, games) -> None:
        assert self.is_open
        self.told += [(game["stage"], step) for game in games]


def test_no_tracker_hears_of_games_once_its_run_has_ended(choosing, tmp_path, monkeypatch) -> None:
    """The last weights are validated after the last step, when trackers are closed."""
    opened = []

    @contextmanager
    def opened_trackers(*_):
        opened.append(Listening())
        yield [opened[-1]]
        opened[-1].is_open = False

    monkeypatch.setattr(grpo_module, "opened_trackers", opened_trackers)
    with pytest.raises(KeyboardInterrupt):
        choosing(tmp_path, pressing={3: 1}, sample_games=1)
    assert {*opened[0].told} == {("validation", 0), ("grpo", 0), ("validation", 1), ("grpo", 1)}
    choosing(tmp_path)
    assert opened[1].told == []


def test_a_stop_before_the_chosen_model_is_saved_costs_no_step(choosing, tokenizer, tmp_path, monkeypatch) -> None:
    whole = weights_of(choosing(tmp_path / "whole"))
    games = len(choosing.training.games)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TorchLearner, "save_model", die)
        with pytest.raises(KeyboardInterrupt):
            choosing(tmp_path / "broken")
    resumed = weights_of(choosing(tmp_path / "broken", model=small_model(tokenizer, seed=3)))
    assert len(choosing.training.games) == 2 * games
    assert same(whole, resumed)


def test_a_step_is_saved_before_it_is_validated(choosing, tmp_path) -> None:
    """A second Ctrl-C ends a validation at once: what led to it is on disk."""
    with pytest.raises(KeyboardInterrupt):
        choosing(tmp_path, pressing={1: 2}, steps=3, save_steps=1)
    assert len(choosing.training.games) == 1
    choosing(tmp_path, steps=3, save_steps=1)
    assert len(choosing.training.games) == 3
    written = [row["step"] for row in rows(tmp_path / "metrics.jsonl") if row["stage"] == "validation"]
    assert written == [0, 1, 2, 3]


def test_weights_and_their_record_are_one_file(tmp_path, sixty) -> None:
    """Of two files, a kill between them would leave the record of other weights."""
    costs = iter([costing(2.0), costing(1.0)])
    model = torch.nn.Linear(2, 2, bias=False)
    run = make_run(tmp_path / "run", sixty)
    best = BestWeights(TorchWeights(model), lambda *_: next(costs), 1, run, tmp_path / "b")
    best.begin()
    best.after(1)
    with safe_open(tmp_path / "b" / "best.safetensors", "pt") as kept:
        record = json.loads(kept.metadata()["record"])
    assert (record["step"], record["greedy_cost"]) == (1, 1.0)
    assert {path.name for path in (tmp_path / "b").iterdir()} == {"best.safetensors", "start_wins.json"}
