"""Laws of gathering: what several processes measured and keep becomes one, by what it is."""

import pytest

from wordle_rl.rl.grpo.gather import merged_metrics, merged_state


def test_metrics_of_processes_come_together_by_what_they_are() -> None:
    one = {"win_rate": 1.0, "refilled_groups": 2.0, "importance_ratio/max": 9.0, "importance_ratio/mean": 1.0}
    other = {"win_rate": 0.0, "refilled_groups": 3.0, "importance_ratio/max": 1.5, "importance_ratio/mean": 1.2}
    alone = {"mean_guesses": 4.0}
    assert merged_metrics(
        [(one, {"win_rate": 8}), (other | alone, {"win_rate": 16, "mean_guesses": 3})]
    ) == pytest.approx(
        {
            "win_rate": 1 / 3,
            "refilled_groups": 5.0,
            "importance_ratio/max": 9.0,
            "importance_ratio/mean": 1.1,
            "mean_guesses": 4.0,
        }
    )


def test_the_states_of_processes_count_alike() -> None:
    """After probes every process knows every secret; a group of one of them must not be lost."""
    states = [
        {"priorities": priorities, "best_compliance": 0.5, "compliance": [0.25, 0.5], "cumulative_wins": wins}
        for priorities, wins in (({"crane": 1.0, "slate": 2.0}, 3), ({"crane": 3.0}, 4))
    ]
    assert merged_state(states) == {
        "priorities": {"crane": 2.0, "slate": 2.0},
        "best_compliance": 0.5,
        "compliance": [0.25, 0.5],
        "cumulative_wins": 7,
    }
