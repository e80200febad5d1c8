"""Laws of games as training sees them: scores, figures, and rows with each sampled token under its own prompt."""

import pytest

torch = pytest.importorskip("torch")

from group_games import SETTINGS, turns_of
from grpo_training import outside_fixture, roll_fixture  # noqa: F401  # fixtures
from reward_games import SOLVER, WORDS, play
from training_fixtures import compact

from wordle_rl.config import StartSettings
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Shape
from wordle_rl.reward import PRESETS, RewardBreakdown
from wordle_rl.rollout import Segment, Trajectory
from wordle_rl.train.scored_games import Scored, measured, rows_of


def test_games_of_words_outside_the_answers_are_neither_won_nor_lost() -> None:
    games = [
        play("crane", "crane"),
        play("crane", "these", "crane"),
        play("crane", *["these"] * 6),
        play("zzzzz", "zzzzz"),
    ]
    found = measured([Scored(Trajectory(game), PRESETS["sparse"].score(game, SOLVER), ()) for game in games], WORDS)
    assert (found.num_wins, found.means["win_rate"], found.means["mean_guesses"]) == (2, 2 / 3, 1.5)
    by_turn = [name for name in found.means if name.startswith("win_rate_by_turn/")]
    assert [found.means[name] for name in by_turn] == sorted(found.means[name] for name in by_turn)
    assert found.means[by_turn[-1]] == found.means["win_rate"]
    counts = dict.fromkeys(("win_rate", *by_turn), 3)
    assert found.denominators == {**counts, "mean_guesses": 2, "format_compliance": 10}


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
