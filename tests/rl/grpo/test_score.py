"""Laws of scoring a group: turns without a possible answer earn nothing, candidates are compared turn by turn."""

import pytest

torch = pytest.importorskip("torch")

from group_games import SETTINGS, Roll
from reward_games import WORDS, play
from training_fixtures import compact

from wordle_rl.prompt import Shape
from wordle_rl.rl.grpo.play import PlayedGame
from wordle_rl.rl.grpo.score import num_live_turns, score_group
from wordle_rl.rollout import Trajectory


def test_turns_after_the_last_possible_answer_teach_nothing(outside) -> None:
    # No answer does without e, so `crane` leaves none; without m and a there are some, until a z is proved.
    games = [("mamma", "fuzzy", "crane"), ("crane", "mamma", "fuzzy"), ("these", "crane"), ("mamma", "these", "crane")]
    group = [Trajectory(play("zzzzz", *words, budget=True)) for words in games]
    rubric = outside.rollouts.schedule.rubric()
    scored = score_group([PlayedGame(game) for game in group], rubric, outside.setup, outside.settings)
    assert [num_live_turns(trajectory.transcript, outside.setup) for trajectory in group] == [2, 1, 1, 2]
    for game, live in zip(scored.games, [2, 1, 1, 2], strict=True):
        assert all(value == 0.0 for value in game.advantages[live:])
        assert all(value != 0.0 for value in game.advantages[:live])
    first = [game.advantages[0] for game in scored.games]
    assert sum(first) == pytest.approx(0.0)
    assert first[0] == first[3] != first[1]


@pytest.mark.parametrize("shape", Shape)
def test_candidates_of_a_turn_are_credited_above_their_mean(shape, tokenizer, codec, tmp_path) -> None:
    settings = SETTINGS.model_copy(update={"turn_candidates": 2, "credit": "guess"})
    played = Roll(tokenizer, codec, WORDS, tmp_path, settings=settings, prompter=compact(shape, max_turns=3))
    found = played()
    assert len(found["prompt_ids"]) == 3 * 4 * 3  # groups, places, turns
    games = played.games[0]
    assert len(games) == 3 * 2
    for game in games:
        values = list(game.advantages)
        assert len(values) == 2 * len(game.trajectory.transcript.turns) == len(game.trajectory.segments)
        assert all(a + b == pytest.approx(0.0) for a, b in zip(values[::2], values[1::2], strict=True))
    advantages = [max(map(abs, row)) for row in found["token_advantages"]]
    assert sum(value > 0 for value in advantages) == sum(value != 0 for game in games for value in game.advantages)
