"""Laws of boards with earlier turns: they never hold the secret, depend on seed and secret alone, and count apart."""

from scripted_evaluations import ANSWERS, WORDS, play_script

from wordle_rl.evaluate.eval_secrets import by_earlier_turns, prefix_boards
from wordle_rl.evaluate.play import evaluate
from wordle_rl.game import score_guess
from wordle_rl.policy.scripted import SolverSampler
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver

SOLVER = Solver(WORDS)


def test_no_board_holds_its_secret_or_a_word_twice() -> None:
    boards = prefix_boards(ANSWERS * 20, SOLVER, 4, seed=0)
    for secret, board in zip(ANSWERS * 20, boards, strict=True):
        assert secret not in board
        assert len(set(board)) == len(board) <= 4
    assert {len(board) for board in boards} >= {0, 1, 2}


def test_a_consistent_guess_fits_all_marks_before_it() -> None:
    boards = prefix_boards(ANSWERS * 20, SOLVER, 4, seed=3)
    for secret, board in zip(ANSWERS * 20, boards, strict=True):
        for place, word in enumerate(board):
            assert all(score_guess(word, earlier) == score_guess(secret, earlier) for earlier in board[:place])


def test_a_board_depends_on_seed_secret_and_occurrence_alone() -> None:
    forward = prefix_boards(ANSWERS, SOLVER, 3, seed=1)
    backward = prefix_boards(ANSWERS[::-1], SOLVER, 3, seed=1)
    assert forward == backward[::-1]
    assert forward != prefix_boards(ANSWERS, SOLVER, 3, seed=2)
    twice = prefix_boards(["crane"] * 12, SOLVER, 3, seed=1)
    assert len(set(twice)) > 1


def test_earlier_turns_are_on_the_board_and_in_no_rate_of_the_player() -> None:
    header = play_script([("crane", ["crane"])])
    prompter = Prompter()
    sampler = SolverSampler(SOLVER, prompter, 0)
    played = evaluate(header, ["crane"], WORDS, prompter, sampler, prefixes=[("lymph", "lymph")], solver=SOLVER)
    [record] = played.records
    assert (record.num_prefix, [turn.guess for turn in record.turns[:2]]) == (2, ["lymph", "lymph"])
    assert record.turns_used == len(record.turns) > 2
    figures = played.figures()
    assert figures.repeated_rate == 0.0, "the repeat was given"
    assert figures.num_turns == len(record.turns) - 2
    assert [*by_earlier_turns(played.records)] == [2]
