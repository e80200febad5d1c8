"""Laws of the solver as a distribution: softmax of minus regret over the words worth a guess, never by the secret."""

import math
import random
from collections import Counter

import pytest

from wordle_rl.config.teachers import TeacherSettings, TraceSettings
from wordle_rl.game import Outcome, Rules, Turn, hard_mode_fault, score_guess, violates_clues
from wordle_rl.prompt import Prompter, Thinking
from wordle_rl.solver import Solver
from wordle_rl.teachers.distribution import SolverDistribution, SolverGuess, WordDistribution
from wordle_rl.words import WordListError


@pytest.fixture(scope="module")
def small_solver(small_words) -> Solver:
    return Solver(small_words)


def scored(secret: str, *guesses: str) -> list[Turn]:
    return [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]


def fitting(words, board) -> list[str]:
    return [answer for answer in words.answers if not violates_clues(answer, board)]


@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_words_are_weighed_by_the_guesses_they_give_away(temperature, small_words, small_solver) -> None:
    """Words that may be the secret, and of the ten best those that tell something."""
    ask, others = SolverDistribution(small_solver, temperature, Rules()), 0
    for secret in small_words.answers[1::3]:  # none of the guesses below
        for guesses in ((), ("xylyl",), ("abbey", "crate")):
            board = scored(secret, *guesses)
            candidates = small_solver.candidates([(turn.guess, turn.marks) for turn in board])
            regret = {word: small_solver.quick_regret(word, candidates) for word in small_words.guesses}
            fits = fitting(small_words, board)
            tells = [word for word in regret if len({score_guess(answer, word) for answer in fits}) > 1]
            best = sorted(regret, key=lambda word: (round(regret[word], 5), word))[:10]
            weights = {word: math.exp(-regret[word] / temperature) for word in {*fits, *(set(best) & set(tells))}}
            kept = {word: weight for word, weight in weights.items() if weight >= 1e-4 * sum(weights.values())}
            found = ask(board)
            assert dict(zip(found.words, found.chances, strict=True)) == pytest.approx(
                {word: weight / sum(kept.values()) for word, weight in kept.items()}, rel=1e-3
            )
            assert found.entropy == pytest.approx(-sum(p * math.log(p) for p in found.chances))
            assert set(found.words).isdisjoint(guesses)
            others += len(set(found.words) - set(fits))
    assert others > 5, "words that cannot be the secret are among them"


def test_with_one_guess_left_all_that_may_be_the_secret_are_equal(small_words, small_solver) -> None:
    board = scored("crane", "xylyl")
    fits = fitting(small_words, board)
    assert len(fits) > 1
    last = SolverDistribution(small_solver, 0.1, Rules(max_turns=2))(board)
    assert dict(zip(last.words, last.chances, strict=True)) == pytest.approx(dict.fromkeys(fits, 1 / len(fits)))
    earlier = SolverDistribution(small_solver, 0.1, Rules(max_turns=3))(board)
    assert len(set(earlier.chances)) > 1
    refused = [*board, Turn("zzzzz", None, Outcome.UNLISTED)]
    assert SolverDistribution(small_solver, 0.1, Rules(max_turns=3))(refused) == last


def test_in_hard_mode_no_word_ignores_a_mark(small_words, small_solver) -> None:
    ask, free = (SolverDistribution(small_solver, 0.5, Rules(hard_mode=hard)) for hard in (True, False))
    faults = 0
    for secret in small_words.answers:
        board = scored(secret, "crate")
        assert all(hard_mode_fault(word, board) is None for word in ask(board).words)
        faults += sum(hard_mode_fault(word, board) is not None for word in free(board).words)
    assert faults


def test_turns_without_marks_rule_nothing_out_and_a_board_that_fits_no_answer_has_none(small_solver) -> None:
    ask = SolverDistribution(small_solver, 0.1, Rules())
    assert ask([Turn(None, None, Outcome.MALFORMED), Turn("zzzzz", None, Outcome.UNLISTED)]) == ask([])
    assert ask([Turn("abbey", "GGGGX", Outcome.SCORED)]) is None


def test_words_are_drawn_by_their_chances() -> None:
    words, rng = WordDistribution(("crane", "crate", "trace"), (0.5, 0.3, 0.2)), random.Random(0)
    drawn = Counter(words.words[words.draw(rng)] for _ in range(4000))
    for word, chance in zip(words.words, words.chances, strict=True):
        assert drawn[word] / 4000 == pytest.approx(chance, abs=0.03)
    assert [words.is_likeliest(word) for word in (*words.words, "zonal", None)] == [True, False, False, False, False]


def test_the_solver_teachers_guess_is_a_distribution_of_one_word(small_words, small_solver) -> None:
    traces = TraceSettings(narrate=True, teacher=TeacherSettings(opener="eagle"))
    for thinking in (Thinking.OFF, Thinking.REQUIRED):
        ask = SolverGuess(small_solver, traces, Prompter(thinking=thinking))
        opening = ask([])
        assert (opening.words, opening.chances, opening.entropy) == (("eagle",), (1.0,), 0.0)
        assert bool(opening.thinking) == (thinking is Thinking.REQUIRED)
        assert ask([Turn("abbey", "GGGGX", Outcome.SCORED)]) is None
    with pytest.raises(WordListError, match="qqqqq"):
        SolverGuess(small_solver, TraceSettings(teacher=TeacherSettings(opener="qqqqq")), Prompter())
