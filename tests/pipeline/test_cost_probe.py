"""Laws of the probe of token costs: it counts the tokens of its games, times every part, and changes no weight."""

import json

import pytest

torch = pytest.importorskip("torch")


from training_fixtures import write_config

from wordle_rl.config import load_config
from wordle_rl.config.context import GameContext
from wordle_rl.models.loading import load_model
from wordle_rl.pipeline.cost_probe import measure, tokens_of
from wordle_rl.pipeline.token_costs import GAMES_SCORED_BY_START
from wordle_rl.preflight.teacher_sample import teacher_examples
from wordle_rl.rollout import Segment, Trajectory


def segment(prompt: int, *tokens: tuple[int, int]) -> Segment:
    """A game of replies and feedback in turn, of these numbers of tokens."""
    mask, spans = [], []
    for turn, (feedback, reply) in enumerate(tokens):
        mask += [0] * feedback
        spans.append((turn, len(mask), len(mask) + reply))
        mask += [1] * reply
    return Segment((5,) * prompt, (6,) * len(mask), tuple(mask), (0.0,) * len(mask), tuple(spans))


def test_the_trainer_scores_as_many_games_by_the_start() -> None:
    from wordle_rl.rl.grpo import trainer

    assert trainer._KL_ROWS == GAMES_SCORED_BY_START


def test_tokens_of_a_game_are_counted() -> None:
    games = [Trajectory(None, (segment(10, (0, 8), (6, 8), (6, 5)),)), Trajectory(None, (segment(10, (0, 7)),))]
    found = tokens_of([*games, Trajectory(None)])
    assert (found.prompt, found.turns, found.reply, found.feedback) == (10, 2, 7, 6)
    assert found.length == (10 + 8 + 6 + 8 + 6 + 5 + 10 + 7) / 2


def test_in_state_shape_a_later_prompt_is_read_whole() -> None:
    found = tokens_of([Trajectory(None, (segment(10, (0, 8)), segment(16, (0, 8))))])
    assert (found.prompt, found.turns, found.reply, found.feedback) == (10, 2, 8, 16)
    assert found.length == 10 + 8 + 16 + 8


@pytest.mark.parametrize("shape", ["transcript", "state"])
def test_every_part_is_timed_and_no_weight_changes(word_directory, tmp_path, shape) -> None:
    config = load_config(write_config(tmp_path / "mini.toml", word_directory, game__shape=json.dumps(shape)))
    context = GameContext.of(config)
    model, codec = load_model(config.model, config.seed)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    examples = teacher_examples(config, context, codec)
    probe = measure(model, codec, context, config.training, config.sft, examples, times=1)
    costs = probe.costs
    assert min(costs.prefill_s, costs.training_s, costs.sft_s, costs.update_s) > 0
    assert costs.decode_s > 0
    assert probe.game.turns <= config.game.max_turns
    assert probe.game.reply <= config.max_completion_tokens
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
