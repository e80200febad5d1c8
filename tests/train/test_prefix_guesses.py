"""Laws of prefix guesses: by a player, even in number, never the secret, one of the best openers where asked."""

import random
from collections import Counter
from functools import cache

import pytest

from wordle_rl.config import StartSettings
from wordle_rl.game import Outcome, Turn, hard_mode_fault, score_guess, violates_clues
from wordle_rl.solver import Solver
from wordle_rl.train.starts import PrefixGuesses
from wordle_rl.words import WordList

MOST = 4
PLAYERS = ("random:5", "consistent", "consistent:5", "teacher:5")


@pytest.fixture(scope="module")
def solver(default_words) -> Solver:
    """Enough words for games of four guesses, few enough for the teacher's matrix."""
    answers = default_words.answers[::4]
    return Solver(WordList("some", answers, (*answers, *default_words.outside[::8])))


@cache
def prefixes_of(solver: Solver, player: str, hard_mode: bool) -> PrefixGuesses:
    """One player for all tests, since the teacher's matrix takes seconds."""
    settings = StartSettings(max_prefix_guesses=MOST, player=player)
    return PrefixGuesses(solver.words, solver, settings, hard_mode=hard_mode)


def drawn(solver: Solver, player: str, count: int, hard_mode: bool = False) -> list[tuple[str, tuple[str, ...]]]:
    """Secrets with the prefix guesses drawn for them."""
    prefixes = prefixes_of(solver, player, hard_mode)
    rng = random.Random(7)
    secrets = rng.choices(solver.words.answers, k=count)
    return [(secret, prefixes(secret, rng)) for secret in secrets]


def boards(secret: str, guesses: tuple[str, ...]) -> list[tuple[str, list[Turn]]]:
    """Each guess with the turns before it."""
    turns = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]
    return [(guess, turns[:place]) for place, guess in enumerate(guesses)]


@pytest.mark.parametrize("player", PLAYERS)
def test_no_prefix_guess_is_the_secret_and_none_repeats(player: str, solver: Solver) -> None:
    for secret, guesses in drawn(solver, player, 60):
        assert secret not in guesses
        assert len({*guesses}) == len(guesses) <= MOST
        assert all(guess in solver.words for guess in guesses)


@pytest.mark.parametrize("player", ["consistent", "consistent:5", "teacher:5"])
def test_a_consistent_player_or_teacher_never_contradicts_the_board(player: str, solver: Solver) -> None:
    for secret, guesses in drawn(solver, player, 60):
        for guess, before in boards(secret, guesses):
            assert not violates_clues(guess, before)
            assert hard_mode_fault(guess, before) is None


@pytest.mark.parametrize("player", ["random:5", "consistent:5", "teacher:5"])
def test_the_first_guess_is_one_of_the_best_openers(player: str, solver: Solver) -> None:
    best = {scored.guess for scored in solver.best_openers(5)}
    assert {guesses[0] for _, guesses in drawn(solver, player, 80) if guesses} == best


@pytest.mark.parametrize(("player", "count"), [("consistent:5", 400), ("random:5", 400), ("teacher:5", 250)])
def test_every_number_of_guesses_is_about_as_frequent(player: str, count: int, solver: Solver) -> None:
    found = Counter(len(guesses) for _, guesses in drawn(solver, player, count))
    assert sorted(found) == [*range(MOST + 1)]
    even = count / (MOST + 1)
    assert all(abs(found[number] - even) < 5 * even**0.5 for number in found), found


def test_in_hard_mode_random_guesses_keep_to_the_hints_after_an_opener(solver: Solver) -> None:
    for secret, guesses in drawn(solver, "random:5", 20, hard_mode=True):
        assert all(hard_mode_fault(guess, before) is None for guess, before in boards(secret, guesses))
