"""Laws of a published reward: the attack finds in it what its users found by training, and order kept mends it.

AWS's sample says of the sum of these per-guess rewards that it paid +0.49 for a lost game and scored a solve on the
first turn below one on the third (aws-samples/sample-multi-turn-rl-wordle, README, lesson 2).
"""

from reward_games import play

from wordle_rl.prompt import Prompter, Style
from wordle_rl.reward import Rubric
from wordle_rl.reward.attack import Effort, Gameability, attack
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words

SOME = load_words().answers[::20]
WORDS = WordList("some", SOME, SOME)
SOLVER = Solver(WORDS)
PATH = "reward_games:SHAPING"


def attacked(*, keep_order: bool) -> Gameability:
    rubric = Rubric({PATH: 1.0}, keep_order=keep_order)
    return attack(rubric, SOLVER, Prompter(style=Style.COMPACT), Effort(num_secrets=1, steps=20))


def test_the_attack_finds_the_pay_for_a_lost_game_and_order_takes_it_away() -> None:
    """Their +0.49 was on 2,309 answers; on these 137 an opener tells, and so pays, less."""
    bare = attacked(keep_order=False)
    assert bare.best_loss > 0.3
    assert bare.honest > bare.solver, "a quick win ends the pay"
    ordered = attacked(keep_order=True)
    assert ordered.holds
    assert ordered.best_loss < ordered.lowest_win


def test_a_solve_at_once_is_paid_less_than_one_on_the_third_turn() -> None:
    secret, first = SOME[40], SOME[70]
    fits = SOLVER.candidates([(first, play(secret, first, words=WORDS).turns[0].turn.marks)])
    second = next(SOME[index] for index in fits if SOME[index] != secret)
    at_once, on_the_third = play(secret, secret, words=WORDS), play(secret, first, second, secret, words=WORDS)
    assert (at_once.turns_used, on_the_third.turns_used) == (1, 3)
    bare = Rubric({PATH: 1.0}, keep_order=False)
    assert bare.score(at_once, SOLVER).total < bare.score(on_the_third, SOLVER).total
