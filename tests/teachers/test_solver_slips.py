"""Laws of slips: misspelt words that could have been meant, refused, never learnt, and corrected at once."""

import random
from collections import Counter

import pytest

from wordle_rl.config.teachers import TeacherSettings, TraceSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.game import Outcome, Turn, score_guess, violates_clues
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.solver import SolverTeacher, misspelt
from wordle_rl.words.split import split_secrets

TEACHER = TeacherSettings(random_opener_rate=0.3, noise_rate=0.3)


@pytest.fixture(scope="module")
def traces(small_words) -> list[GameRecord]:
    settings = TraceSettings(num_games=600, slip_rate=0.4, narrate=True, teacher=TEACHER)
    secrets = draw_secrets(small_words, split_secrets(small_words), settings, 0)
    return list(solver_traces(secrets, SolverTeacher(Solver(small_words)), settings, 0))


def test_a_slip_is_a_letter_or_two_from_the_word_and_fits_the_board(default_words) -> None:
    rng = random.Random(0)
    distances = Counter()
    for secret in rng.sample(default_words.answers, 300):
        board = [Turn("salet", score_guess(secret, "salet"), Outcome.SCORED)]
        slip = misspelt(secret, board, default_words, rng)
        if slip is not None:
            assert slip not in default_words.guess_index
            assert not violates_clues(slip, board)
            distances[sum(a != b for a, b in zip(slip, secret, strict=True))] += 1
    assert set(distances) == {1, 2}
    assert distances[1] > 2 * distances[2]
    assert distances.total() > 270


def test_slips_come_as_often_as_asked_and_the_word_meant_comes_next(traces) -> None:
    places = slips = 0
    for trace in traces:
        for before, turn in zip(trace.turns, trace.turns[1:], strict=False):
            if turn.outcome is Outcome.UNLISTED:
                assert not turn.taught
                slips += 1
            elif len(trace.turns) < 6:
                places += 1
            if before.outcome is Outcome.UNLISTED and turn.outcome is Outcome.SCORED:
                assert turn.taught
                assert 1 <= sum(a != b for a, b in zip(turn.guess, before.guess, strict=True)) <= 2
        assert trace.turns[0].outcome is Outcome.SCORED
        assert trace.turns[-1].outcome is Outcome.SCORED
    assert 0.3 < slips / places < 1.2


def test_narration_after_a_slip_is_still_true(traces) -> None:
    told = [turn for trace in traces for turn in trace.turns if turn.taught]
    assert all(turn.thinking for turn in told)
    assert all(turn.thinking.endswith(f"Only {turn.guess} fits.") for turn in told if turn.notes.remaining == 1)
