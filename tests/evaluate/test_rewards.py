"""Laws of rewards in evaluation: the distribution adds up, errors have none, guesses counted are the player's."""

import pytest
from scripted import planned
from scripted_evaluations import NOT_SENT, WORDS, FlakySampler, tag

from wordle_rl.evaluate.play import Scorer, evaluate
from wordle_rl.evaluate.records import reward_figures
from wordle_rl.prompt import Prompter
from wordle_rl.reward import Rubric
from wordle_rl.solver import Solver

SOLVER = Solver(WORDS)
GAMES = {
    0: ("crane", ["speed", "crane"]),
    1: ("trace", ["speed", "speed", "zzzzz", "no word", "speed", "speed"]),
    2: ("grape", [NOT_SENT]),
    3: ("abide", ["abide"]),
}


@pytest.fixture
def records():
    prompter = Prompter()
    script = {number: [tag(reply) for reply in replies] for number, (_, replies) in GAMES.items()}
    scorer = Scorer(Rubric({"win": 1.0, "rule_break": -0.5}, keep_order=False), SOLVER)
    secrets = [secret for secret, _ in GAMES.values()]
    header = planned(WORDS, prompter)
    return evaluate(header, secrets, WORDS, prompter, FlakySampler(script), scorer=scorer).records


def test_the_distribution_adds_up(records) -> None:
    found = reward_figures(records, "own")
    assert found is not None
    assert (found.preset, found.num_games, found.highest) == ("own", 3, 1.0)
    assert [record.reward for record in records] == [1.0, found.lowest, None, 1.0], "an error has none"
    assert found.mean == pytest.approx((2.0 + found.lowest) / 3)
    assert found.below_zero == pytest.approx(1 / 3)
    assert sum(found.bin_counts) == 3
    assert len(found.bin_edges) == len(found.bin_counts) + 1
    assert (found.bin_edges[0], found.bin_edges[-1]) == (found.lowest, found.highest)
