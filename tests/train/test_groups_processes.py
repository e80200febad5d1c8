"""Laws of several processes: what they measured and what they keep becomes one, by what it is."""

import pytest

pytest.importorskip("torch")

from group_games import SETTINGS
from grpo_training import roll_fixture  # noqa: F401  # a fixture

from wordle_rl.runs.trackers import GameLog
from wordle_rl.train.grpo_rollouts import GroupRollouts, merged_metrics


def test_metrics_of_processes_come_together_by_what_they_are() -> None:
    one = {"win_rate": 1.0, "refilled_groups": 2.0, "reward": 1.0}
    other = {"win_rate": 0.0, "refilled_groups": 3.0, "reward": 1.2}
    alone = {"mean_guesses": 4.0}
    assert merged_metrics(
        [(one, {"win_rate": 8}), (other | alone, {"win_rate": 16, "mean_guesses": 3})]
    ) == pytest.approx(
        {
            "win_rate": 1 / 3,
            "refilled_groups": 5.0,
            "reward": 1.1,
            "mean_guesses": 4.0,
        }
    )


def test_the_states_of_processes_count_alike(roll) -> None:
    """After probes every process knows every secret; a group of one of them must not be lost."""
    made = roll()
    first, second = made.setup.secrets[:2]
    theirs = ({first: 1.0, second: 2.0}, 3)
    rollouts = GroupRollouts(
        made.setup, SETTINGS, GameLog(made.run), 0, process=1, num_processes=2, gather=lambda mine: [theirs, mine]
    )
    rollouts.starts.picker.update(first, 3.0)
    rollouts.cumulative_wins = 4
    for compliance in (0.25, 0.5):
        rollouts.note_compliance(compliance)
    state = rollouts.state()
    assert state == {
        "priorities": {first: 2.0, second: 2.0},
        "best_compliance": None,
        "compliance": [0.25, 0.5],
        "cumulative_wins": 7,
    }
    rollouts.load_state(state)
    assert rollouts.cumulative_wins == 0, "the first process alone takes over the games won"
    assert rollouts.starts.picker.state() == state["priorities"]
