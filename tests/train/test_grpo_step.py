"""Laws of one GRPO step: whatever its settings, it is the step that is worked out by hand, game by game."""

import pytest

torch = pytest.importorskip("torch")

from contexts import context_for
from grpo_by_hand import FAILS, Player, Step, rows_of_candidates, rows_of_group, step_of
from grpo_training import Training, by_length, train_fixture  # noqa: F401  # a fixture
from reward_games import SOLVER, WORDS
from training_fixtures import compact, fast, rows, small_model, weights_of

import wordle_rl.train.learner as learner_module
from wordle_rl.config import GRPOTraining
from wordle_rl.prompt import Shape
from wordle_rl.train.grpo_rollouts import GroupRollouts
from wordle_rl.train.starts import GameSetup

SETTINGS = {
    "steps": 1,
    "groups_per_step": 2,
    "group_size": 4,
    "sampling": {"max_completion_tokens": 16},
    "optimizer": fast(max_grad_norm=1e6).model_dump(exclude_unset=True),
    "precision": "fp32",
    "max_refills": 0,
    "reward": {"weights": {"win": 1.0, "speed": 0.5, "format": 0.3, "information": 0.2}},
}
SECRETS = ("crane", "grape")
GAMES = [
    ("crane", "grape", "speed"),
    ("grape", "crane", "speed"),
    ("drape", None, "speed"),
    ("these", "no idea", "grape"),
]
"""What is said in each game of a group, turn by turn."""
ALONE = [*GAMES[:3], ("these", "crane", "speed")]
"""Of `crane` one game alone reaches the third turn."""
FAILING = [*GAMES[:3], ("these", FAILS, "")]
HOPELESS = [
    ("mamma", "fuzzy", "crane"),
    ("crane", "mamma", "fuzzy"),
    ("these", "crane", "mamma"),
    ("mamma", "these", "crane"),
]
"""Every answer has an e and no word outside of them has one: nothing fits after a guess with an e."""
WEIGHED = [
    ("crane", "I pass here", "speed"),
    ("a b", "grape", "a b"),
    ("drape", None, "speed"),
    ("I pass here", "a b", "grape"),
]
"""Two candidates for each turn of two games, of different length and so of different value."""
REGRET = {"weights": {"quick_regret": -6.0}, "keep_order": False}

CASES: dict[str, tuple[dict, Shape, list]] = {
    "turn, dapo": ({}, Shape.TRANSCRIPT, GAMES),
    "turn, grpo": ({"loss_type": "grpo"}, Shape.TRANSCRIPT, GAMES),
    "turn, dr_grpo": ({"loss_type": "dr_grpo"}, Shape.TRANSCRIPT, GAMES),
    "turn, a turn of one game": ({}, Shape.TRANSCRIPT, ALONE),
    "game, scaled": ({"credit": "game", "scale_advantages": True}, Shape.TRANSCRIPT, GAMES),
    "guess, grpo": ({"credit": "guess", "loss_type": "grpo"}, Shape.TRANSCRIPT, GAMES),
    "state, turn, grpo": ({"loss_type": "grpo"}, Shape.STATE, GAMES),
    "state, game, dr_grpo": ({"credit": "game", "loss_type": "dr_grpo"}, Shape.STATE, GAMES),
    "temperature": ({"sampling": {"max_completion_tokens": 16, "temperature": 0.7}}, Shape.TRANSCRIPT, GAMES),
    "overlong, grpo": ({"mask_overlong": True, "loss_type": "grpo"}, Shape.STATE, GAMES),
    "overlong, dapo": ({"mask_overlong": True}, Shape.TRANSCRIPT, GAMES),
    "truncated importance": ({"max_importance_ratio": 1.1}, Shape.TRANSCRIPT, GAMES),
    "two steps": ({"steps": 2}, Shape.TRANSCRIPT, GAMES),
    "played ahead, clipped": (
        {"steps": 2, "batches_ahead": 1, "engine": "http://localhost:1", "beta": 0.5},
        Shape.TRANSCRIPT,
        GAMES,
    ),
    "penalty": ({"beta": 0.5, "steps": 2}, Shape.TRANSCRIPT, GAMES),
    "penalty, grpo": ({"beta": 0.5, "steps": 2, "loss_type": "grpo"}, Shape.STATE, GAMES),
    "candidates": ({"turn_candidates": 2, "credit": "guess"}, Shape.TRANSCRIPT, WEIGHED),
    "candidates, state, dr_grpo": (
        {"turn_candidates": 2, "credit": "guess", "loss_type": "dr_grpo"},
        Shape.STATE,
        WEIGHED,
    ),
    "failed games": ({"loss_type": "grpo"}, Shape.TRANSCRIPT, FAILING),
    "dead turns": ({"credit": "guess", "outside_rate": 1.0, "reward": REGRET}, Shape.TRANSCRIPT, HOPELESS),
}


@pytest.fixture
def descend(train: Training, tmp_path, monkeypatch):
    """Trains by plain descent at rate 1, so that what a step takes off the weights is its gradient.

    Returns the weights before and after each step, the metrics, and the same steps by hand.
    """
    monkeypatch.setattr(learner_module, "make_optimizer", lambda model, _: torch.optim.SGD(model.parameters(), lr=1.0))

    def run(settings: GRPOTraining, shape: Shape, script) -> tuple[list[dict], list[dict], list[Step]]:
        if settings.outside_rate:  # such games end where nothing fits; here they are played to their end
            monkeypatch.setattr(GroupRollouts, "_is_enough", lambda *_: False)
        train.pay = by_length if settings.turn_candidates > 1 else None
        setup = GameSetup(context_for(WORDS, compact(shape, max_turns=3), SOLVER), SECRETS)
        model = small_model(train.tokenizer)
        weights = [weights_of(model)]
        train(
            tmp_path / "run",
            settings,
            model=model,
            setup=setup,
            engine=Player(train.codec, script),
            progress=lambda *_: weights.append(weights_of(model)),
        )
        by_hand = []
        for played, before in zip(train.played, weights, strict=False):
            model.load_state_dict(before, strict=False)
            games = [[game.trajectory for game in group.games] for group in played.groups]
            longest = 16 * (1 if shape is Shape.STATE or settings.turn_candidates > 1 else 3)
            by_hand.append(step_of(rows_by_hand(games, settings, train.codec), model, weights[0], settings, longest))
        return weights, rows(tmp_path / "run" / "metrics.jsonl"), by_hand

    return run


def rows_by_hand(groups, settings: GRPOTraining, codec):
    if settings.turn_candidates > 1:
        value = lambda segment: len(codec.text_of(segment.token_ids)) % 5 / 4  # noqa: E731  # as `by_length` pays
        return [row for group in groups for game in group for row in rows_of_candidates(game, value)]
    rubric = settings.reward.schedule().rubric()
    rewards = lambda transcript: rubric.score(transcript, SOLVER).turn_rewards  # noqa: E731
    return [row for group in groups for row in rows_of_group(group, rewards, settings, codec.stop_ids)]


@pytest.mark.parametrize("micro_batch_size", [0, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_the_one_worked_out_by_hand(name: str, micro_batch_size: int, descend) -> None:
    changes, shape, script = CASES[name]
    settings = GRPOTraining.model_validate({**SETTINGS, **changes, "micro_batch_size": micro_batch_size})
    weights, metrics, by_hand = descend(settings, shape, script)
    assert len(metrics) == len(by_hand) == settings.steps
    for before, after, row, step in zip(weights, weights[1:], metrics, by_hand, strict=False):
        norm = torch.cat([gradient.flatten() for gradient in step.gradient.values()]).norm()
        for weight, gradient in step.gradient.items():
            assert torch.allclose(before[weight] - after[weight], gradient, rtol=1e-3, atol=2e-6), weight
        assert row["loss"] == pytest.approx(step.loss, rel=1e-4, abs=1e-6)
        assert row["grad_norm"] == pytest.approx(float(norm), rel=1e-4)
        assert norm > 1e-2
        if settings.beta:
            assert row["kl"] == pytest.approx(step.kl, rel=1e-2, abs=1e-6)
        assert row["entropy"] == pytest.approx(step.entropy, rel=1e-4)
        away = step.ratios - 1 - step.ratios.log()
        assert row["sampler_kl"] == pytest.approx(float(away.mean()), rel=1e-3)
        assert row["importance_ratio/mean"] == pytest.approx(float(step.ratios.mean()), rel=1e-4)
        assert row["importance_ratio/max"] == pytest.approx(float(step.ratios.max()), rel=1e-4)
        assert step.ratios.min() < 0.9
        assert step.ratios.max() > 1.2
    if settings.steps > 1:
        assert by_hand[-1].kl > 1e-3
