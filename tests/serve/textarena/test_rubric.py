"""Laws of the signals: fractions of the last turn alone, and a reward that is 1 for the win."""

import pytest

from wordle_rl.game import Outcome, Turn
from wordle_rl.serve.textarena import SignalsRubric

SLATE = Turn("slate", "XXGXG", Outcome.SCORED)
SEEN = (SLATE,)


@pytest.mark.parametrize(
    ("turn", "before", "signals"),
    [
        (Turn("caner", "GYYYY", Outcome.SCORED), SEEN, (0.2, 0.8, 1.0, 0.0)),
        (Turn("crane", "GGGGG", Outcome.SCORED), SEEN, (1.0, 0.0, 1.0, 1.0)),
        (SLATE, SEEN, (0.0, 0.0, 0.0, 0.0)),
        (Turn("qzxwv", None, Outcome.UNLISTED), SEEN, (0.0, 0.0, 1.0, 0.0)),
        (Turn(None, None, Outcome.MALFORMED), SEEN, (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_each_signal_has_a_leaf_and_the_tree_scores_the_win(turn: Turn, before: tuple[Turn, ...], signals) -> None:
    rubric = SignalsRubric()
    rubric.judge(turn, before)
    assert rubric(None, None) == signals[-1]
    scores = dict.fromkeys(("greens", "yellows", "repetitions", "correct"))
    assert {name: leaf.last_score for name, leaf in rubric.named_rubrics()} == dict(zip(scores, signals, strict=True))


def test_a_new_game_forgets_the_last() -> None:
    rubric = SignalsRubric()
    rubric.judge(Turn("crane", "GGGGG", Outcome.SCORED), ())
    rubric(None, None)
    rubric.reset()
    assert [leaf.last_score for leaf in rubric.rubrics()] == [None] * 4
    assert rubric(None, None) == 0.0
