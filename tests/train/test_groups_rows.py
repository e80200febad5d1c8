"""Laws of rows: each sampled token once under its own prompt, its advantage on it, and the right sign."""

import pytest

pytest.importorskip("torch")

from group_games import SETTINGS, turns_of
from grpo_training import logprob, roll_fixture  # noqa: F401  # a fixture
from reward_games import play
from training_fixtures import compact

from wordle_rl.config import GameSettings, StartSettings
from wordle_rl.game import Dictionary
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.reward import RewardBreakdown
from wordle_rl.rollout import Segment, Trajectory
from wordle_rl.train.scored_games import Scored, rows_of


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("max_prefix_guesses", [0, 2])
def test_every_sampled_token_is_trained_once_under_its_own_prompt(shape, max_prefix_guesses, roll, monkeypatch) -> None:
    spoken = []
    sample = TransformersSampler.sample

    def listen(self, requests):
        completions = sample(self, requests)
        spoken.extend((tuple(r.prompt_ids), c.token_ids) for r, c in zip(requests, completions, strict=True))
        return completions

    monkeypatch.setattr(TransformersSampler, "sample", listen)
    settings = SETTINGS.model_copy(update={"starts": StartSettings(max_prefix_guesses=max_prefix_guesses)})
    found = roll(settings=settings, prompter=compact(shape, max_turns=3))()
    assert sorted(turn for row in found for turn in turns_of(row)) == sorted(spoken)


def test_free_refusals_take_rows_of_their_own(roll) -> None:
    """An untrained model is refused as often as the rules allow, and each of its replies has a row."""
    game = GameSettings(
        style=Style.COMPACT, thinking=Thinking.OFF, shape=Shape.STATE, max_turns=2,
        dictionary=Dictionary.APP,
    )  # fmt: skip
    played = roll(prompter=game.prompter(5))
    found = played()
    assert max(len(game.trajectory.segments) for game in played.games[0]) == 2 + 10
    assert len(found) == sum(len(game.trajectory.segments) for game in played.games[0])


def test_a_game_as_a_row_drawn_by_hand(codec) -> None:
    """Two replies of two tokens, the second of which was cut: `s` ends a reply, `e` is the environment's."""
    s = next(iter(codec.stop_ids))
    #         prompt     x  s  e  x  x
    tokens = ((91, 92), (5, s, 7, 5, 6))
    segment = Segment(*tokens, (1, 1, 0, 1, 1), (-1.0, -2.0, 0.0, -3.0, -4.0), ((0, 0, 2), (1, 3, 5)))
    reward = RewardBreakdown({}, {}, (0.0, 0.0), 0.0)
    game = lambda live=None: Scored(Trajectory(play("crane"), (segment,)), reward, (0.5, -2.0), live)  # noqa: E731
    [row] = rows_of(game(), codec)
    assert row.token_ids == [91, 92, 5, s, 7, 5, 6]
    assert row.loss_mask == [0, 0, 1, 1, 0, 1, 1]
    assert row.advantages == [0, 0, 0.5, 0.5, 0.0, -2.0, -2.0]
    assert row.sampler_logprobs == [0, 0, -1.0, -2.0, 0.0, -3.0, -4.0]
    [without_cut], [without_dead] = rows_of(game(), codec, mask_overlong=True), rows_of(game(1), codec)
    assert without_cut.loss_mask == without_dead.loss_mask == [0, 0, 1, 1, 0, 0, 0]
    assert without_cut.token_ids == without_dead.token_ids == row.token_ids
