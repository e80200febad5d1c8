"""Laws of the lessons: each learns what it says, is short, and changes little of the one before."""

import copy
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

LESSONS = Path(__file__).resolve().parents[2] / "examples" / "lessons"
BEGINNER = 0.19
"""Win rate of the beginner."""
LEAST = {
    "01_reinforce": 0.35,
    "02_baseline": 0.35,
    "03_credit": 0.38,
    "04_clipping": 0.38,
    "05_kl": 0.32,
    "06_expert_iteration": 0.38,
    "07_hindsight": 0.55,
    "08_distillation": 0.52,
}
"""What each must reach at least, about 15 points below what was measured; 256 games leave 6 points to chance."""


@pytest.fixture(scope="module")
def main_of():
    """The `main` of a lesson; all lessons begin with copies of one beginner, which takes seconds to train."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(LESSONS))
        import classroom

        trained = classroom.beginner()
        patch.setattr(classroom, "beginner", lambda: copy.deepcopy(trained))
        yield lambda name: runpy.run_path(str(LESSONS / f"{name}.py"))["main"]
    sys.modules.pop("classroom")


@pytest.mark.parametrize("name", [name for name in LEAST if name != "05_kl"])
def test_a_lesson_teaches_a_beginner_to_win(main_of, name: str) -> None:
    assert main_of(name)() >= LEAST[name] > BEGINNER + 0.1


def test_the_penalty_keeps_the_player_near_its_start(main_of) -> None:
    won, divergence = main_of("05_kl")()
    assert won >= LEAST["05_kl"]
    _, held = main_of("05_kl")(steps=10, beta=0.5)
    assert 0 <= held < divergence / 3


def test_rewards_that_are_all_higher_stop_lesson_1_alone(main_of) -> None:
    """Lesson 2 subtracts the group's mean, so it cannot notice; lesson 1 pushes up whatever was played."""
    assert main_of("01_reinforce")(steps=12, offset=10.0) < BEGINNER
