import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordle_rl.game import score_guess
from wordle_rl.solver import Solver, SolverError, decode_marks, encode_marks, marks_matrix
from wordle_rl.solver.partition import NETWORK_LIMIT, class_sizes, count_split, largest_classes, log_table, sum_logs
from wordle_rl.solver.solver import typical_guesses
from wordle_rl.words import WordList


def make_solver(answers: Sequence[str], extra: Sequence[str] = ()) -> Solver:
    return Solver(WordList("made up", tuple(answers), tuple({*answers, *extra})))


@st.composite
def word_lists(draw: st.DrawFn, max_guesses: int = 10) -> tuple[list[str], list[str]]:
    """(answers, further guesses) with many repeated letters; few enough guesses to fit whole in the beam."""
    words = draw(st.lists(st.text("abcd", min_size=4, max_size=4), min_size=1, max_size=max_guesses, unique=True))
    num_answers = draw(st.integers(1, len(words)))
    return words[:num_answers], words[num_answers:]


@pytest.mark.parametrize("marks", ["", "GG", "GYX-X", "gyxxx", "G" * 11])
def test_bad_marks_are_refused(marks: str) -> None:
    with pytest.raises(SolverError, match="marks"):
        encode_marks(marks)


def test_a_table_that_no_memory_holds_is_refused_with_its_size() -> None:
    words = ["crane"] * 400_000
    with pytest.raises(SolverError, match=r"149\.0 GiB"):
        marks_matrix(words, words)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(3, 10), st.sampled_from(["ab", "abc", "abcdefghijklmnopqrstuvwxyz"]))
def test_matrix_equals_the_rules(data: st.DataObject, length: int, alphabet: str) -> None:
    words = st.lists(st.text(alphabet, min_size=length, max_size=length), min_size=1, max_size=8)
    guesses, answers = data.draw(words), data.draw(words)
    matrix = marks_matrix(guesses, answers)
    assert matrix.shape == (len(guesses), len(answers))
    assert matrix.dtype == (np.uint8 if length <= 5 else np.uint16)
    for row, guess in zip(matrix, guesses, strict=True):
        for code, answer in zip(row, answers, strict=True):
            assert decode_marks(int(code), length) == score_guess(answer, guess)


@pytest.mark.parametrize("length", [5, 7])
@pytest.mark.parametrize("num", [1, 2, 3, 7, 64, NETWORK_LIMIT, NETWORK_LIMIT + 1, 400])
def test_every_method_counts_classes_as_a_counter_does(length: int, num: int) -> None:
    letters = np.random.default_rng(0).choice(list("abcdefgh"), (600, length))
    words = sorted({"".join(word) for word in letters})[:500]
    table = log_table(num)
    block = marks_matrix(words, words[:num]).T
    split, logs, largest = count_split(block), sum_logs(block, table), largest_classes(block)
    assert split.num_classes.shape == split.num_pairs.shape == logs.shape == largest.shape == (500,)
    for guess in range(0, 500, 7):
        sizes = sorted(Counter(block[:, guess].tolist()).values())
        assert split.num_classes[guess] == len(sizes)
        assert split.num_pairs[guess] == sum(math.comb(size, 2) for size in sizes)
        assert logs[guess] == sum(int(table[size]) for size in sizes)
        assert largest[guess] == sizes[-1]
        assert sorted(class_sizes(block[:, guess]).tolist()) == sizes


@settings(deadline=None)
@given(word_lists(), st.data())
def test_candidates_are_the_answers_that_give_the_same_marks(lists, data: st.DataObject) -> None:
    solver = make_solver(*lists)
    secret = data.draw(st.sampled_from(solver.words.answers))
    guesses = data.draw(st.lists(st.text("abcde", min_size=4, max_size=4), max_size=3))  # listed or not
    turns = [(guess, score_guess(secret, guess)) for guess in guesses]
    expected = [a for a in solver.words.answers if all(score_guess(a, g) == m for g, m in turns)]
    assert [solver.words.answers[i] for i in solver.candidates(turns)] == expected
    assert secret in expected


def test_no_turns_leave_all_answers_and_contradictions_none() -> None:
    solver = make_solver(["cat", "cot", "cut"])
    assert solver.candidates([]).tolist() == [0, 1, 2]
    assert solver.candidates([("cat", "GGG"), ("cot", "GGG")]).tolist() == []
    assert solver.narrow([], "zzz", "XXX").tolist() == []


@pytest.mark.parametrize(
    ("guess", "marks"), [("cats", "GGG"), ("cat", "GGGG"), ("cat", "GG?"), ("CAT", "GGG"), ("", "GGG")]
)
def test_a_turn_that_does_not_suit_the_list_is_refused(guess: str, marks: str) -> None:
    with pytest.raises(SolverError):
        make_solver(["cat", "cot"]).candidates([(guess, marks)])


def test_information_on_small_sets_by_hand() -> None:
    solver = make_solver(["cat", "cot", "cut", "dog"], ["zzz"])
    everything = solver.candidates([])
    # "cat": itself; cot and cut both GXG; dog XXX. "cot": itself; cat, cut; dog XGX. "dog": itself; cot; cat, cut.
    assert [solver.information_of(g, everything) for g in ("cat", "cot", "dog", "zzz")] == [1.5, 1.5, 1.5, 0.0]
    assert solver.best_information(everything) == 1.5
    assert solver.best_information([0, 1]) == 1.0
    assert solver.best_information([2]) == solver.best_information([]) == solver.information_of("cat", []) == 0.0
    assert solver.information([]).tolist() == [0.0] * 5
    openers = [(guess, 1.5, 1.5, 2) for guess in ("cat", "cot", "cut", "dog")]
    assert solver.best_openers() == [*openers, ("zzz", 0.0, 4.0, 4)]


@settings(deadline=None, max_examples=50)
@given(word_lists(max_guesses=30))
def test_best_information_is_the_maximum_to_the_last_bit(lists: tuple[list[str], list[str]]) -> None:
    solver = make_solver(*lists)
    everything = solver.candidates([])
    bits = solver.information(everything)
    assert solver.best_information(everything) == bits.max()
    assert [solver.information_of(guess, everything) for guess in solver.words.guesses] == bits.tolist()
    assert 0.0 <= bits.min() <= bits.max() <= math.log2(len(everything))


@pytest.mark.parametrize("seed", range(4))
def test_quick_regret_is_the_cost_above_the_cheapest_guess_by_hand(small_words: WordList, seed: int) -> None:
    solver, rng = Solver(small_words), np.random.default_rng(seed)
    candidates = np.sort(rng.choice(len(small_words.answers), 9, replace=False)).astype(np.int32)
    names = [small_words.answers[i] for i in candidates]

    def cost(guess: str) -> float:
        classes = Counter(score_guess(secret, guess) for secret in names)
        return sum(c * typical_guesses(c) * (marks != "GGGGG") for marks, c in classes.items()) / len(names)

    costs = {guess: cost(guess) for guess in small_words.guesses}
    for guess, spent in costs.items():
        assert solver.quick_regret(guess, candidates) == pytest.approx(spent - min(costs.values()), abs=1e-5)


def test_quick_regrets_are_those_of_each_guess(small_words: WordList) -> None:
    solver = Solver(small_words)
    for candidates in (solver.candidates([]), solver.narrow(solver.candidates([]), "think", "XXXXX"), [3]):
        one_by_one = [solver.quick_regret(guess, candidates) for guess in small_words.guesses]
        assert solver.quick_regrets(candidates) == pytest.approx(one_by_one)
    assert not solver.quick_regrets([]).any()
