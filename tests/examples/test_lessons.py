"""Laws of the lessons: each ends in the effect that it is about, measured beside its control.

Bounds leave room: three seeds of play were tried, and 256 games of an exam leave 6 points to chance.
"""

import copy
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

LESSONS = Path(__file__).resolve().parents[2] / "examples" / "lessons"
BEGINNER = 0.19
"""Win rate of the beginner."""

Main = Callable[..., Any]


@pytest.fixture(scope="module")
def main_of() -> Iterator[Callable[[str], Main]]:
    """The `main` of a lesson; lessons begin with copies of one beginner, which takes seconds to train."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(LESSONS))
        import classroom

        train, usual = classroom.beginner, classroom.beginner()

        def beginner(*given: Any, **named: Any) -> Any:
            return train(*given, **named) if given or named else copy.deepcopy(usual)

        patch.setattr(classroom, "beginner", beginner)
        yield lambda name: runpy.run_path(str(LESSONS / f"{name}.py"))["main"]
    sys.modules.pop("classroom")


def test_a_mean_of_the_group_takes_out_what_all_rewards_share(main_of) -> None:
    agreement = main_of("02_baseline")()
    assert agreement["REINFORCE + 10"] < 0.05 < agreement["baseline + 10"]
    assert agreement["baseline + 10"] == pytest.approx(agreement["baseline + 0"], abs=1e-3)
    assert agreement["REINFORCE + 0"] > 1.3 * agreement["baseline + 0"], "a baseline is no free gift"


def test_small_groups_are_silent(main_of) -> None:
    silent = main_of("03_silent_groups")()
    assert silent[2] > 0.6 > silent[4] > 0.3 > 0.2 > silent[16]


def test_equal_players_differ_by_ten_points_in_short_exams(main_of) -> None:
    found = main_of("14_how_many_games")()
    assert found[30][0] > 0.25 > 0.02 > found[480][0]
    assert all(0.9 < right < 0.99 for _, right in found.values()), "an interval of 95 % holds the truth as often"


def test_tokens_encoded_again_are_others(main_of) -> None:
    found = main_of("15_tokens_twice")()
    assert found["sampled"] < 1e-3
    assert found["rendered twice"] > 1
    assert found["differ"] > 0.7
    assert found["agreement"] < 0.85


@pytest.mark.slow
def test_reinforce_learns_unless_all_rewards_are_high(main_of) -> None:
    main = main_of("01_reinforce")
    after, before = main()
    assert after >= 0.35 > before + 0.1 > BEGINNER
    assert main(steps=12, offset=10.0)[0] < BEGINNER


@pytest.mark.slow
def test_credit_of_turns_doubles_the_signal(main_of) -> None:
    agreement = main_of("04_credit")()
    assert agreement["turn"] > 1.4 * agreement["game"]


@pytest.mark.slow
def test_updates_of_the_same_games_need_the_clip(main_of) -> None:
    clipped, free = main_of("05_clipping")()
    assert clipped >= 0.35 > 0.1 > free


@pytest.mark.slow
def test_a_penalty_holds_the_player_and_costs_wins(main_of) -> None:
    found = main_of("06_kl")()
    (free, moved), (_, also), (held, near) = (found[beta] for beta in sorted(found))
    assert min(moved, also) > 2 * near >= 0, "a small penalty is within what another processor changes"
    assert free >= held + 0.1


@pytest.mark.slow
def test_long_steps_collapse_and_noise_moves_as_far_as_signal(main_of) -> None:
    found = main_of("07_rate")()
    wins, distance, silent = found["rate 0.001"]
    assert (wins >= 0.32, silent <= 1) == (True, True)
    assert found["shuffled"][0] < wins - 0.1
    assert found["shuffled"][1] > 0.6 * distance
    assert (found["rate 0.01"][0], found["rate 0.01"][2]) == (0, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["08_expert_iteration", "09_hindsight"])
def test_what_is_learnt_of_own_games_must_be_chosen_well(main_of, name: str) -> None:
    learnt, control = main_of(name)()
    assert learnt >= control + 0.1
    assert learnt >= 0.35


@pytest.mark.slow
def test_a_teacher_says_more_than_a_reward(main_of) -> None:
    found = main_of("10_distillation")()
    assert found["own boards"] >= found["reward"] + 0.08
    assert found["teacher's boards"] >= found["reward"] + 0.15


@pytest.mark.slow
def test_a_reward_that_ends_with_the_game_is_hacked(main_of) -> None:
    found = main_of("11_reward_hacking")()
    first, last, wins = found["summed"]
    assert last > first + 0.08
    assert wins < 0.08 < BEGINNER
    assert found["in order"][2] > wins + 0.08


@pytest.mark.slow
def test_four_words_are_memorised(main_of) -> None:
    found = main_of("12_memory_or_skill")()
    assert found["trained on the four"][0] >= 0.55
    assert found["trained on the four"][1] < 0.08 < found["beginner"][1]
    assert found["trained on all"][1] > found["trained on the four"][1] + 0.08


@pytest.mark.slow
def test_part_of_a_gain_is_sharpness(main_of) -> None:
    before, sharper, after = main_of("13_sharpness")()
    assert after > sharper + 0.06
    assert sharper > before
