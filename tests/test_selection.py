"""Laws of choosing weights: the validation secrets decide, ties go to the later weights, a stop forgets nothing."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from test_grpo import SETTINGS  # noqa: E402
from training_fixtures import compact, make_run, rows, small_model, weights_of  # noqa: E402

from wordle_rl.config import ConfigError, GRPOSettings, SamplingSettings  # noqa: E402
from wordle_rl.grpo import train_grpo  # noqa: E402
from wordle_rl.roller import Arena  # noqa: E402
from wordle_rl.runs import read_object  # noqa: E402
from wordle_rl.samplers.transformers import TransformersSampler  # noqa: E402
from wordle_rl.selection import BestWeights, Validation  # noqa: E402
from wordle_rl.trackers import GameBook  # noqa: E402


def fill(model: torch.nn.Module, value: float) -> None:
    with torch.no_grad():
        model.weight.fill_(value)


@pytest.fixture
def chosen(sixty, tmp_path):
    """Train through weights 0, 1, 2… with these costs; what is taken in the end, its step, and what was written."""

    def make(costs, every=1, resume_at=None, blends=0):
        model = torch.nn.Linear(2, 2, bias=False)
        run = make_run(tmp_path / "run", sixty)
        figures = iter(costs)

        def validate(_: int) -> dict[str, float]:
            figure = next(figures)
            names = ("cost", "greedy_cost", "greedy_win_rate")
            return dict(zip(names, figure if isinstance(figure, tuple) else (figure,), strict=False))

        best = BestWeights(model, validate, every, run, tmp_path / "best", blends)
        last = len(costs) - blends - 1 if every == 1 else 6
        for step in range(last + 1):
            if step == resume_at:
                best = BestWeights(model, validate, every, run, tmp_path / "best", blends)
                best.on_train_begin(None, SimpleNamespace(global_step=step - 1, max_steps=99), None)
            fill(model, float(step))
            state = SimpleNamespace(global_step=step, max_steps=6)
            if step:
                best.on_step_end(None, state, None)
            else:
                best.on_train_begin(None, state, None)
        step = best.take_best(last)
        return model.weight[0, 0].item(), step, rows(run.directory / "metrics.jsonl")

    return make


def test_the_cheapest_weights_are_taken(chosen) -> None:
    weight, step, written = chosen([5.0, 4.0, 4.5, 4.2])
    assert (weight, step) == (1.0, 1)
    assert [(row["stage"], row["step"], row["cost"]) for row in written] == [
        ("validation", 0, 5.0), ("validation", 1, 4.0), ("validation", 2, 4.5), ("validation", 3, 4.2),
    ]  # fmt: skip


def test_training_that_only_harms_gives_back_its_start(chosen) -> None:
    assert chosen([4.0, 5.0, 6.0])[:2] == (0.0, 0)


def test_of_equals_the_later_weights_are_taken(chosen) -> None:
    assert chosen([4.0, 4.0, 5.0])[:2] == (1.0, 1)


def test_validation_comes_every_so_many_steps_and_at_the_end(chosen) -> None:
    _, _, written = chosen([5.0, 4.0, 3.0], every=4)
    assert [row["step"] for row in written] == [0, 4, 6]


def test_a_training_that_goes_on_remembers_the_best(chosen) -> None:
    assert chosen([5.0, 3.0, 4.0, 4.5], resume_at=2)[:2] == (1.0, 1)


def test_weights_whose_greedy_play_got_worse_are_out_of_the_question(chosen) -> None:
    assert chosen([(5.0, 4.0), (3.0, 4.1), (4.5, 4.0), (4.8, 4.0)])[:2] == (2.0, 2)
    assert chosen([(5.0, 4.0), (3.0, 4.1), (1.0, 9.0)], resume_at=2)[:2] == (0.0, 0)


def test_weights_with_better_greedy_play_raise_the_bar_for_all(chosen) -> None:
    assert chosen([(5.0, 4.0), (3.0, 4.0), (4.5, 3.5)])[:2] == (2.0, 2)
    assert chosen([(5.0, 4.0), (4.0, 3.5), (3.0, 4.0), (3.9, 3.505)])[:2] == (3.0, 3)
    # Rounds of a hair each must not add up: what was lowest stays the measure.
    assert chosen([(5.0, 4.0), (4.0, 4.008), (3.0, 4.016), (2.0, 4.024)])[:2] == (1.0, 1)
    assert chosen([(5.0, 3.9), (4.0, 3.909), (4.2, 3.895), (3.5, 3.907)], resume_at=3)[:2] == (2.0, 2)


def test_weights_that_win_fewer_validation_secrets_greedily_than_the_start_are_out_of_the_question(chosen) -> None:
    assert chosen([(5.0, 4.0, 0.80), (3.0, 3.99, 0.78), (4.5, 3.99, 0.80), (4.7, 3.99, 0.9)])[:2] == (2.0, 2)
    assert chosen([(5.0, 4.0, 0.80), (4.5, 4.0, 0.90), (3.0, 4.0, 0.80)], resume_at=2)[:2] == (2.0, 2)
    assert chosen([(5.0, 4.0, 0.80), (3.0, 3.5, 0.78)])[:2] == (0.0, 0)
    # A hundredth is no loss, but what is kept does not lower the bar.
    assert chosen([(5.0, 4.0, 0.80), (4.0, 4.0, 0.795), (3.0, 4.0, 0.787)])[:2] == (1.0, 1)


def test_weights_between_start_and_end_are_tried(chosen, tmp_path) -> None:
    costs = [(5.0, 4.0), (6.0, 4.0), (3.0, 4.2), (4.0, 4.0), (3.9, 3.9), (3.5, 4.1)]  # start, two steps, three blends
    weight, step, written = chosen(costs, blends=3)
    assert (weight, step) == (1.0, 2), "half of the way from 0 to 2"
    assert read_object(tmp_path / "selected.json") == {"step": 2, "share": 0.5, "cost": 3.9}
    assert [(row["stage"], row["step"]) for row in written[-3:]] == [("blend", 25), ("blend", 50), ("blend", 75)]


def test_a_training_that_goes_on_still_knows_its_start(chosen) -> None:
    assert chosen([5.0, 5.0, 5.0, 1.0], resume_at=2, blends=1)[:2] == (1.0, 2)


def test_nothing_of_the_choice_is_left_behind_but_what_was_chosen(chosen, tmp_path) -> None:
    chosen([1.0, 2.0, 3.0], blends=1)
    assert not (tmp_path / "best").exists()
    assert read_object(tmp_path / "selected.json")["step"] == 0


def test_validation_plays_greedily_and_as_in_training_and_counts_a_loss_as_one_more(
    tokenizer, codec, sixty, split, monkeypatch
) -> None:
    asked = []
    sample = TransformersSampler.sample

    def listen(self, requests):
        asked.append((self.settings.temperature, len(requests)))
        return sample(self, requests)

    monkeypatch.setattr(TransformersSampler, "sample", listen)
    model = small_model(tokenizer)
    arena = Arena(sixty, compact(max_turns=3), split.train, None, split.val)
    sampling = SamplingSettings(temperature=0.7, max_completion_tokens=5)
    validation = Validation(model, codec, arena, sampling)
    lost = {"greedy_win_rate": 0.0, "sampled_win_rate": 0.0, "train_win_rate": 0.0, "cost": 4.0, "greedy_cost": 4.0}
    assert validation(0) == validation(1) == lost
    greedy = len(split.val) + min(4 * len(split.val), len(split.train))
    assert asked[:6] == [(0.0, greedy)] * 3 + [(0.7, 4 * len(split.val))] * 3
    with pytest.raises(ConfigError, match="no validation secrets"):
        Validation(model, codec, Arena(sixty, compact(), split.train, None), sampling)


def test_validation_rehearses_what_is_not_trained_on(tokenizer, codec, sixty, split, tmp_path) -> None:
    arena = Arena(sixty, compact(max_turns=1), split.train[-2:], None, split.val, split.train[:-2])
    greedy = SamplingSettings(temperature=0.0, max_completion_tokens=5)
    validation = Validation(small_model(tokenizer), codec, arena, greedy)
    assert len(validation._train) == min(4 * len(split.val), len(split.train))
    assert len({*validation._train} - {*arena.secrets}) >= len(validation._train) - 2


def test_validation_shows_many_different_words_over_time(tokenizer, codec, small_words, tmp_path) -> None:
    arena = Arena(small_words, compact(max_turns=1), (), None, small_words.answers)
    run = make_run(tmp_path / "run", small_words)
    greedy = SamplingSettings(temperature=0.0, max_completion_tokens=5)
    validate = Validation(small_model(tokenizer), codec, arena, greedy, GameBook(run), 4)
    for step in range(0, 100, 10):
        validate(step)
    shown = rows(run.directory / "games.jsonl")
    assert [(row["stage"], row["step"]) for row in shown] == [
        ("validation", s) for s in range(0, 100, 10) for _ in "four"
    ]
    assert len({row["secret"] for row in shown}) > len(small_words.answers) / 2
    assert all(len({row["secret"] for row in shown if row["step"] == step}) == 4 for step in range(0, 100, 10))
    assert not any("reward" in row for row in shown), "nobody said what a game earns"


def test_grpo_validates_and_of_equal_weights_keeps_the_last(tokenizer, codec, sixty, split, tmp_path) -> None:
    """An untrained model wins nothing, before or after."""

    def trained(name, settings):
        model = small_model(tokenizer)
        arena = Arena(sixty, compact(max_turns=3), split.train, None, split.val)
        train_grpo(model, codec, arena, settings, make_run(tmp_path / name, sixty))
        return weights_of(model)

    plain = trained("plain", SETTINGS)
    kept = trained("kept", SETTINGS.model_copy(update={"validate_every_steps": 1}))
    assert all(torch.equal(plain[name], kept[name]) for name in plain)
    written = [row for row in rows(tmp_path / "kept" / "metrics.jsonl") if row["stage"] == "validation"]
    assert [(row["step"], row["cost"]) for row in written] == [(0, 4.0), (1, 4.0), (2, 4.0)]
    shown = [row for row in rows(tmp_path / "kept" / "games.jsonl") if row["stage"] == "validation"]
    assert {row["step"] for row in shown} == {0, 1, 2}
    assert {row["secret"] for row in shown} <= set(split.val)
    rubric = SETTINGS.reward.schedule().rubric_at(0)
    assert all(set(turn["components"]) == set(rubric.effective_weights) for row in shown for turn in row["turns"])
    assert all(row["reward"] == pytest.approx(sum(t["reward"] for t in row["turns"]), abs=1e-3) for row in shown)


def test_grpo_says_which_weights_it_kept(tokenizer, codec, sixty, split, tmp_path) -> None:
    model = small_model(tokenizer)
    arena = Arena(sixty, compact(max_turns=3), split.train, None, split.val)
    settings = SETTINGS.model_copy(update={"validate_every_steps": 2, "blends": 1})
    train_grpo(model, codec, arena, settings, make_run(tmp_path, sixty))
    written = [(row["stage"], row["step"]) for row in rows(tmp_path / "metrics.jsonl") if "greedy_cost" in row]
    assert written == [("validation", 0), ("validation", 2), ("blend", 50)]
    assert read_object(tmp_path / "grpo" / "selected.json") == {"step": 2, "share": 0.5, "cost": 4.0}


@pytest.mark.parametrize(
    ("values", "message"),
    [({"blends": 2}, "set validate_every_steps"), ({"blends": 1, "engine": "vllm"}, "set blends to 0")],
)
def test_blends_that_nothing_could_choose_from_are_refused(values, message) -> None:
    with pytest.raises(ValueError, match=message):
        GRPOSettings(**({"validate_every_steps": 5} if "engine" in values else {}), **values)
