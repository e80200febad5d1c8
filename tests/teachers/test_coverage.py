"""Laws of coverage: which games with outside secrets are kept."""

from __future__ import annotations

import random

import numpy as np
import pytest

from wordle_rl.config import TeacherSettings, TraceSettings
from wordle_rl.data.trace import Trace
from wordle_rl.solver import Solver
from wordle_rl.teachers.coverage import Coverage
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList
from wordle_rl.words.split import split_secrets

SETTINGS = TeacherSettings(outside_noise_rate=1.0, stray_rate=0.0)


def part_of(words: WordList, num_answers: int, num_outside: int) -> WordList:
    rng = random.Random(0)
    answers = tuple(sorted(rng.sample(words.answers, num_answers)))
    outside = rng.sample([word for word in words.guesses if word not in words.answer_index], num_outside)
    return WordList("part", answers, tuple(sorted({*answers, *outside})))


@pytest.fixture(scope="module")
def words(default_words) -> WordList:
    return part_of(default_words, 150, 300)


@pytest.fixture(scope="module")
def teacher(words) -> SolverTeacher:
    return SolverTeacher(Solver(words, use_cache=False))


def outside_secrets(words: WordList, count: int) -> list[str]:
    return random.Random(1).choices([word for word in words.guesses if word not in words.answer_index], k=count)


def shown_by(words: WordList, traces: list[Trace]) -> dict[str, float]:
    """How often each answer was named after the first turn, in shares: counted anew from the records."""
    shown = dict.fromkeys(words.answers, 0.0)
    for trace in traces:
        for turn in trace.turns[1:]:
            if turn.taught and turn.guess in shown:
                shown[turn.guess] += 1 / turn.remaining
    return shown


def traces_with(words: WordList, teacher: SolverTeacher, choice: int, seed: int = 0) -> list[Trace]:
    settings = TraceSettings(num_games=1000, outside_choice=choice, teacher=SETTINGS)
    secrets = draw_secrets(words, split_secrets(words), settings, seed)
    return list(solver_traces(words, secrets, teacher, settings, seed))


@pytest.mark.parametrize("seed", range(4))
def test_the_answers_shown_least_are_shown_more(seed, words, teacher) -> None:
    plain, chosen = (sorted(shown_by(words, traces_with(words, teacher, choice, seed)).values()) for choice in (1, 6))
    assert np.mean(chosen[:15]) > 2 * np.mean(plain[:15])
    assert np.percentile(chosen, 10) / np.median(chosen) > 1.2 * np.percentile(plain, 10) / np.median(plain)


def test_words_that_single_out_rare_answers_show_them_sooner_still(words, teacher) -> None:
    least = []
    for rate in (0.0, 0.3):
        settings = TeacherSettings(outside_noise_rate=0.0, stray_rate=0.0, reveal_rate=rate)
        coverage, shown = Coverage(teacher, 2), np.zeros(len(words.answers))
        for seed in range(10):
            games = coverage.play(outside_secrets(words, 100), settings, seed)
            row, turn = np.nonzero(games.taught & (games.guesses >= 0) & (np.arange(settings.max_turns) > 0))
            for guess, remaining in zip(games.guesses[row, turn], games.remaining[row, turn], strict=True):
                shown[words.answer_index[words.guesses[guess]]] += 1 / remaining
        least.append(np.sort(shown)[:15].mean())
    assert least[1] > 2 * least[0]


def test_a_board_off_the_teachers_way_counts_less(words, teacher) -> None:
    coverage = Coverage(teacher, 1)
    settings = TeacherSettings(outside_noise_rate=0.0, stray_rate=0.0, reveal_rate=1.0)
    games = coverage.play(outside_secrets(words, 100), settings, 0)
    named = games.taught & np.isin(games.guesses, [words.guess_index[word] for word in words.answers])
    named[:, 0] = False
    own_way = np.logical_and.accumulate(games.taught, axis=1)
    full, less = (np.sum(1 / games.remaining[named & way]) for way in (own_way, ~own_way))
    assert less > full > 0
    assert full < coverage.shown.sum() < full + less / 2


def test_games_with_training_secrets_stay_as_drawn(words, teacher) -> None:
    settings = TraceSettings(num_games=200, outside_choice=4, teacher=SETTINGS)
    secrets = draw_secrets(words, split_secrets(words), settings, 0)
    traces = list(solver_traces(words, secrets, teacher, settings, 0))
    assert len(traces) == len(secrets)
    for secret, trace in zip(secrets, traces, strict=True):
        assert (secret in words.answer_index) == (trace.secret in words.answer_index)
        if secret in words.answer_index:
            assert trace.secret == secret


def test_no_held_out_secret_takes_the_place_of_a_drawn_one(words, teacher) -> None:
    split = split_secrets(words)
    assert not {*split.val, *split.test} & {trace.secret for trace in traces_with(words, teacher, 6)}


def test_the_count_is_of_the_games_kept(words, teacher) -> None:
    coverage = Coverage(teacher, 5)
    secrets = [*outside_secrets(words, 80), *words.answers[:40]]
    kept = [coverage.play(secrets, SETTINGS, seed) for seed in range(3)]
    expected = np.zeros(len(words.answers))
    for games in kept:
        for guesses, taught, remaining in zip(games.guesses, games.taught, games.remaining, strict=True):
            for turn in range(1, len(guesses)):
                if guesses[turn] >= 0 and taught[turn] and words.guesses[guesses[turn]] in words.answer_index:
                    expected[words.answer_index[words.guesses[guesses[turn]]]] += 1 / remaining[turn]
    assert coverage.shown == pytest.approx(expected)


def test_one_seed_makes_one_choice(words, teacher) -> None:
    assert traces_with(words, teacher, 3) == traces_with(words, teacher, 3)
    assert traces_with(words, teacher, 3) != traces_with(words, teacher, 3, seed=1)


def test_every_kept_game_is_a_different_one_of_those_played(words, teacher) -> None:
    games = Coverage(teacher, 1).play(secrets := outside_secrets(words, 60), SETTINGS, 0)
    assert sorted(words.guesses[secret] for secret in games.secrets) == sorted(secrets)


def test_games_without_outside_secrets_are_the_teachers_own(words, teacher) -> None:
    chosen = Coverage(teacher, 8).play(words.answers, SETTINGS, 0)
    own = teacher.play(words.answers, SETTINGS, 0)
    assert np.array_equal(chosen.guesses, own.guesses)
    assert np.array_equal(chosen.secrets, own.secrets)
