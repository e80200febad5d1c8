"""Laws of choosing weights: the validation secrets decide, ties go to the later weights, a stop forgets nothing."""

import os
import re
import signal
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from grpo_training import SETTINGS, update
from reward_games import SOLVER
from round_training import learner_of, playing, setup_for
from safetensors.torch import load_file
from scripted import say
from training_fixtures import (
    compact,
    context_for,
    flipped,
    halved,
    make_run,
    rows,
    same_bits,
    small_model,
    training_of,
    weights_of,
)

import wordle_rl.train.play_loop as loop_module
from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.reward import PRESETS
from wordle_rl.runs import RunError, read_object
from wordle_rl.runs.trackers import GameLog
from wordle_rl.solver import Solver
from wordle_rl.train.checkpoint_selection import BestWeights, Validated, Validation
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.play_loop import Stage
from wordle_rl.train.starts import GameSetup

THIRDS = (1 / 3, 2 / 3, 1.0)


def fill(model: torch.nn.Module, value: float) -> None:
    with torch.no_grad():
        model.weight.fill_(value)


def holding(model: torch.nn.Module) -> TorchLearner:
    """A learner that does no more than to keep and load the weights of a model."""
    learner = TorchLearner.__new__(TorchLearner)
    learner.version = 0
    learner.model = model
    return learner


def selecting(learner, validate, every: int, run, alphas=(1.0,), remark=lambda _: None) -> BestWeights:
    """Checkpoint selection of a stage `grpo`, without the stage."""
    settings = GRPOSettings(validate_every_steps=every, interpolation_alphas=alphas)
    stage = Stage(training_of(learner, run), None, GameLog(run), learner.policy)
    return BestWeights(stage, settings, validate, remark=remark)


def ended(best: BestWeights, last: int, run) -> int:
    """The step of the weights that are taken."""
    best.end(last)
    return read_object(run.directory / "grpo" / "selected.json")["step"]


def costing(greedy: float, sampled: float = 9.0, bound: float = 1.0, won: tuple[bool, ...] = ()) -> Validated:
    return Validated({"greedy_cost": float(greedy), "cost": float(sampled), "validation_cost": float(bound)}, won)


CHOICES = {
    "the cheapest": ([5.0, 4.0, 4.5, 4.2], {}, (1.0, 1)),
    "greedy play counts first": ([(4.0, 5.0), (4.1, 3.0), (3.9, 6.0)], {}, (2.0, 2)),
    "of equal ones the last": ([5.0, 5.0, 5.0], {}, (2.0, 2)),
    "then sampled play": ([(4.0, 5.0), (4.0, 4.0), (4.0, 4.5)], {}, (1.0, 1)),
    "after a resume too": ([(4.0, 5.0), (3.5, 5.5), (3.5, 5.4), (3.6, 1.0)], {"resume_at": 2}, (2.0, 2)),
    # All words together are played better at each step; the first plays the validation words worse than the start.
    "none that plays validation words worse": ([(5.0, 5.0, 4.0), (3.0, 5.0, 4.1), (4.5, 5.0, 4.0)], {}, (2.0, 2)),
    "than the start, whatever came between": (
        [(5.0, 5.0, 4.0), (4.5, 5.0, 3.0), (4.4, 5.0, 3.9)], {"resume_at": 1}, (2.0, 2),
    ),
    "a quarter of the way from 0 to 2": (
        [(4.0, 5.0), (4.0, 6.0), (4.2, 3.0), (3.9, 3.9), (4.0, 4.0), (4.1, 3.5)],  # start, two steps, three blends
        {"alphas": (0.25, 0.5, 0.75, 1.0)}, (0.5, 2),
    ),
    "from a start that a resume still knows": ([5.0, 5.0, 5.0, 1.0], {"resume_at": 2, "alphas": (0.5, 1.0)}, (1.0, 2)),
}  # fmt: skip
"""Costs through weights 0, 1, 2…, options, and what is taken in the end and of which step."""


@pytest.mark.parametrize("name", CHOICES)
def test_the_weights_that_are_taken(name, sixty, tmp_path) -> None:
    costs, options, expected = CHOICES[name]
    alphas, model, run = options.get("alphas", (1.0,)), torch.nn.Linear(2, 2, bias=False), make_run(tmp_path, sixty)
    figures = iter([costing(*(cost if isinstance(cost, tuple) else (cost,))) for cost in costs])
    make = partial(selecting, holding(model), lambda *_: next(figures), 1, run, alphas)
    best, last = make(), len(costs) - len(alphas)
    for step in range(last + 1):
        fill(model, float(step))
        if step == options.get("resume_at"):
            best = make()
        if step == 0:
            best.begin()
        elif step < last:
            best.after(step)
    step = ended(best, last, run)
    best.close()
    assert (model.weight[0, 0].item(), step) == expected
    assert not (tmp_path / "grpo" / "best").exists()
    written = rows(tmp_path / "metrics.jsonl")
    places = [("grpo/validation", step) for step in range(last + 1)]
    places += [("grpo/blend", 100 * alpha) for alpha in alphas if alpha < 1]
    assert [(row["stage"], row["step"]) for row in written] == places
    assert read_object(tmp_path / "grpo" / "selected.json")["alpha"] == alphas[0]


def digit(content: bytes) -> bytes:
    """A record with another number or answer in it, which is JSON as before."""
    if b"[]" in content:
        return content.replace(b"[]", b"[true]")
    return re.sub(rb"\b[0-9]", lambda found: b"5" if found[0] == b"4" else b"4", content, count=1)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, damage) for name in ("best", "start") for damage in (None, flipped, halved)),
        *((f"{name}.json", damage) for name in ("best", "start", "start_wins") for damage in (None, halved, digit)),
    ],
)
def test_kept_weights_that_are_lost_or_have_changed_are_named(name, damage, sixty, tmp_path) -> None:
    model, run, place = torch.nn.Linear(2, 2, bias=False), make_run(tmp_path, sixty), tmp_path / "grpo" / "best"
    make = partial(selecting, holding(model), lambda step, *_: costing(step), 1, run, (0.5, 1.0))
    make().begin()
    file = place / name if name.endswith("json") else next(place.glob(f"{name}-*"))
    content = file.read_bytes()
    file.unlink()
    if damage is not None:
        file.write_bytes(damage(content))
    resumed = make()
    with pytest.raises(RunError, match=re.escape(str(file))):
        resumed.end(1)


def test_what_was_not_validated_by_the_end_is_before_it_is_chosen_from(tmp_path, sixty) -> None:
    """A training that was stopped after its last step has nothing left to do but to choose."""
    model, asked, run = torch.nn.Linear(2, 2, bias=False), [], make_run(tmp_path / "run", sixty)
    make = partial(selecting, holding(model), lambda step, *_: asked.append(step) or costing(9.0 - step), 2, run)
    best = make()
    fill(model, 0.0)
    best.begin()
    again = make()
    fill(model, 3.0)
    assert ended(again, 3, run) == 3
    assert model.weight[0, 0].item() == 3.0
    assert asked == [0, 3]


def test_only_what_is_trained_is_kept_and_tied_weights_once(tmp_path, sixty) -> None:
    first, second = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)
    second.weight = first.weight
    frozen = torch.nn.Linear(2, 2, bias=False).requires_grad_(False)
    model = torch.nn.Sequential(first, second, frozen)
    run = make_run(tmp_path / "run", sixty)
    best = selecting(holding(model), lambda step, *_: costing(step), 1, run)
    fill(first, 1.0)
    best.begin()
    [kept] = (run.directory / "grpo" / "best").glob("best-*.safetensors")
    assert list(load_file(kept)) == ["0.weight"]
    fill(first, 2.0)
    fill(frozen, 3.0)
    assert ended(best, 1, run) == 0
    assert model[0].weight[0, 0].item() == model[1].weight[0, 0].item() == 1.0
    assert model[1].weight is model[0].weight
    assert frozen.weight[0, 0].item() == 3.0


def test_grpo_validates_with_games_of_validation_secrets(train, split, tmp_path) -> None:
    """An untrained model wins nothing, before or after."""
    train.pay = None
    setup = train.setup(secrets=split.train, validation=split.val)
    plain = weights_of(train(tmp_path / "plain", setup=setup))
    kept = weights_of(train(tmp_path / "kept", update(SETTINGS, validate_every_steps=1), setup=setup))
    assert same_bits(plain, kept)
    written = [row for row in rows(tmp_path / "kept" / "metrics.jsonl") if row["stage"] == "grpo/validation"]
    assert [(row["step"], row["cost"]) for row in written] == [(0, 4.0), (1, 4.0), (2, 4.0)]
    shown = [row for row in rows(tmp_path / "kept" / "games.jsonl") if row["stage"] == "grpo/validation"]
    assert {row["step"] for row in shown} == {0, 1, 2}
    assert {row["secret"] for row in shown} <= set(split.val)
    components = {name for row in shown for turn in row["turns"] for name in turn["components"]}
    assert components == set(SETTINGS.reward.schedule().rubric().effective_weights)


class Choosing:
    """Two steps of GRPO with a validation after each and two blends; Ctrl-C within one of its validations.

    `pressing` says how often Ctrl-C is pressed in which validation, counted from 0.
    """

    def __init__(self, training, split, monkeypatch) -> None:
        self.training, self.split = training, split
        self.played, self.pressing = 0, {}
        validate = Validation.__call__

        def listen(validation, step, alpha, number):
            for _ in range(self.pressing.get(self.played, 0)):
                os.kill(os.getpid(), signal.SIGINT)
            self.played += 1
            return validate(validation, step, alpha, number)

        monkeypatch.setattr(Validation, "__call__", listen)

    def __call__(self, directory, model=None, pressing=None, **changes):
        fitting = {name: changes.pop(name) for name in ("precision",) if name in changes}
        settings = SETTINGS.model_copy(update={"validate_every_steps": 1, "interpolation_alphas": THIRDS, **changes})
        self.played, self.pressing = 0, pressing or {}
        setup = self.training.setup(secrets=self.split.train, validation=self.split.val)
        return self.training(directory, settings, model=model, setup=setup, **fitting)


@pytest.fixture
def choosing(train, split, monkeypatch) -> Choosing:
    return Choosing(train, split, monkeypatch)


@pytest.mark.parametrize("validation", [2, 4], ids=["in the last", "in a blend"])
def test_a_stop_while_it_chooses_costs_no_step(validation, choosing, tokenizer, tmp_path) -> None:
    whole = choosing(tmp_path / "whole")
    games = len(choosing.training.games)
    with pytest.raises(KeyboardInterrupt):
        choosing(tmp_path / "broken", pressing={validation: 1})
    assert not (tmp_path / "broken" / "grpo" / "model.safetensors").exists()
    # every weight must come from what was kept
    resumed = choosing(tmp_path / "broken", model=small_model(tokenizer, seed=3))
    assert choosing.played == 3, "the last validation and both blends"
    assert len(choosing.training.games) == 2 * games, "no step was played again"
    assert same_bits(weights_of(whole), weights_of(resumed))
    one, other = (read_object(tmp_path / name / "grpo" / "selected.json") for name in ("whole", "broken"))
    assert one == other
    assert {path.name for path in (tmp_path / "broken" / "grpo").iterdir()}.isdisjoint({"checkpoints", "best"})


def test_what_is_trained_in_bfloat16_plays_in_its_own_precision(choosing, tokenizer, tmp_path) -> None:
    """As evaluation will load it: validation is to foresee what that finds."""
    model, seen = small_model(tokenizer), []
    model.get_input_embeddings().register_forward_pre_hook(
        lambda *_: seen.append((torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()))
    )
    choosing(tmp_path, model=model, precision="bf16")
    assert set(seen) == {(True, True), (False, False)}, "learning, playing"


def test_no_tracker_hears_of_games_once_its_run_has_ended(choosing, tmp_path, monkeypatch) -> None:
    """The last weights are validated after the last step, when trackers are closed; some then refuse games."""
    heard: list[list[tuple[str, int]]] = []

    @contextmanager
    def opened_trackers(*_):
        told: list[tuple[str, int]] = []
        heard.append(told)
        add = lambda step, stage, rows: told.extend((stage, step) for _ in rows)  # noqa: E731
        yield [SimpleNamespace(log=lambda *_: None, add_games=add)]

    monkeypatch.setattr(loop_module, "opened_trackers", opened_trackers)
    with pytest.raises(KeyboardInterrupt):
        choosing(tmp_path, pressing={3: 1}, sample_games=1)
    choosing(tmp_path)
    first, resumed = heard
    assert {*first} == {(stage, step) for stage in ("grpo", "grpo/validation") for step in range(3)} - {("grpo", 2)}
    assert resumed == [("grpo/validation", 2)], "the last weights are validated again, and then the blends"


def test_a_step_is_saved_before_it_is_validated(choosing, tmp_path) -> None:
    """A second Ctrl-C ends a validation at once: what led to it is on disk."""
    with pytest.raises(KeyboardInterrupt):
        choosing(tmp_path, pressing={1: 2}, steps=3, save_steps=1)
    assert len(choosing.training.games) == 1
    choosing(tmp_path, steps=3, save_steps=1)
    assert len(choosing.training.games) == 3
    written = [row["step"] for row in rows(tmp_path / "metrics.jsonl") if row["stage"] == "grpo/validation"]
    assert written == [0, 1, 2, 3]


def test_a_fall_below_the_start_is_told_while_it_lasts(sixty, tmp_path) -> None:
    """Greedy play of nine secrets: all won, eight of them lost, which chance does in 1 of 256 runs, and all won.

    Six lost, as in 1 of 64, is no fall yet.
    """
    said, won, lost, worse = [], (True,) * 9, (True, *(False,) * 8), (True,) * 3 + (False,) * 6
    played, run = iter([costing(3.0, won=each) for each in (won, lost, won, worse)]), make_run(tmp_path / "run", sixty)
    learner = holding(torch.nn.Linear(2, 2, bias=False))
    best = selecting(learner, lambda *_: next(played), 1, run, remark=said.append)
    best.begin()
    best.after(1)
    best.after(2)
    best.after(3)
    assert [bool(text) for text in said] == [False, True, False, False]
    found = [row["p_below_start"] for row in rows(run.directory / "metrics.jsonl")]
    assert found == [1.0, pytest.approx(1 / 2**8), 1.0, pytest.approx(1 / 2**6)]


def test_progress_says_that_greedy_play_is_below_its_start(train, split, tmp_path, monkeypatch) -> None:
    played = iter([costing(3.0, won=(True,) * 9), *(costing(3.0, won=(True, *(False,) * 8)) for _ in range(3))])
    monkeypatch.setattr(Validation, "__call__", lambda *_: next(played))
    notes: list[tuple[int, str]] = []
    setup = train.setup(secrets=split.train, validation=split.val)
    settings = update(SETTINGS, steps=2, validate_every_steps=1)
    train(tmp_path, settings, setup=setup, progress=lambda done, _total, note: notes.append((done, note)))
    assert [(done, "below its start" in note) for done, note in notes] == [(1, False), (2, True)]


# --- what a validation plays ---


def earned(transcript, _step):
    return PRESETS["sparse"].score(transcript, SOLVER)


def test_validation_plays_greedily_and_as_in_training_and_counts_a_loss_as_one_more(
    tokenizer, codec, sixty, split, monkeypatch, tmp_path
) -> None:
    asked, sample = [], TransformersSampler.sample

    def listen(self, requests):
        asked.append((self.settings.temperature, len(requests)))
        return sample(self, requests)

    monkeypatch.setattr(TransformersSampler, "sample", listen)
    policy, run = learner_of(small_model(tokenizer), codec).policy, make_run(tmp_path, sixty)
    context, tokens = context_for(sixty, compact(max_turns=3), Solver(sixty)), SamplingSettings(max_completion_tokens=5)
    setup = GameSetup(context, split.train, split.val, sampling=tokens)
    stage = Stage(training_of(None, run), setup, GameLog(run), policy)
    settings = GRPOSettings(temperature=0.7, sample_games=0)
    validation = Validation(stage, settings, policy, earned)
    lost = {"greedy_win_rate": 0.0, "sampled_win_rate": 0.0, "train_win_rate": 0.0}
    lost |= {"cost": 4.0, "validation_cost": 4.0, "greedy_cost": 4.0, "regret_per_turn": 1.0}
    assert validation(0).figures == validation(1).figures == lost, "no reply is readable"
    greedy = len(split.val) + min(4 * len(split.val), len(split.train))
    assert validation(2).won == (False,) * greedy
    assert asked[:6] == [(0.0, greedy)] * 3 + [(0.7, 4 * len(split.val))] * 3
    with pytest.raises(ConfigError, match="validate_every_steps"):
        Validation(replace(stage, setup=GameSetup(context, split.train)), settings, policy, earned)


def test_a_cost_is_of_the_games_that_it_names(codec, sixty, split, tmp_path) -> None:
    """Greedy games need one guess, are lost and need two; of those that are sampled, four need three and four one."""
    (first, second), trained = split.val[:2], split.train[0]
    greedy = [[first], [first] * 3, [first, trained]]
    says = {
        0.0: lambda game, turns: say(greedy[game][len(turns)]),
        0.7: lambda _, turns: say([second, second, first][len(turns)]),
    }
    setup = setup_for(sixty, compact(max_turns=3), [trained])
    setup, run = replace(setup, validation=(first, second)), make_run(tmp_path, sixty)
    open_policy = lambda sampling, seed: playing(says[sampling.temperature], codec)(sampling, seed)  # noqa: E731
    stage = Stage(training_of(None, run), setup, GameLog(run), open_policy)
    found = Validation(stage, GRPOSettings(temperature=0.7), open_policy, earned)(0)
    assert found.won == (True, False, True)
    expected = {"validation_cost": (1 + 4) / 2, "greedy_cost": (1 + 4 + 2) / 3, "cost": (4 * 3 + 4 * 1) / 8}
    expected |= {"greedy_win_rate": 0.5, "train_win_rate": 1.0, "sampled_win_rate": 1.0}
    assert {name: found.figures[name] for name in expected} == pytest.approx(expected)


def test_validation_shows_many_different_words_over_time(tokenizer, codec, small_words, tmp_path) -> None:
    context = context_for(small_words, compact(max_turns=1), Solver(small_words))
    setup = GameSetup(context, (), small_words.answers, sampling=SamplingSettings(max_completion_tokens=5))
    policy, run = learner_of(small_model(tokenizer), codec).policy, make_run(tmp_path / "run", small_words)
    stage = Stage(training_of(None, run), setup, GameLog(run), policy)
    validate = Validation(stage, GRPOSettings(), policy, earned)
    for step in range(0, 100, 10):
        validate(step, number=step // 10)
    shown = rows(run.directory / "games.jsonl")
    assert {row["secret"] for row in shown} == {*small_words.answers}
    by_step = [{row["secret"] for row in shown if row["step"] == step} for step in range(0, 100, 10)]
    assert [len(secrets) for secrets in by_step] == [4] * 10
