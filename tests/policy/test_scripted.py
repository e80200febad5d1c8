"""Laws of the players without a model: the solver, the random player, a script."""

import pytest

from wordle_rl.boards import InitialState
from wordle_rl.game import Outcome, Turn, score_guess, violates_clues
from wordle_rl.policy.base import Request
from wordle_rl.policy.scripted import ConsistentSampler, RandomSampler, SolverSampler
from wordle_rl.prompt import Prompter, Style, Thinking
from wordle_rl.rollout import play
from wordle_rl.solver import Solver

COMPACT = Prompter(style=Style.COMPACT)


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("thinking", Thinking)
def test_the_solver_wins_every_game_of_a_small_list_in_any_wording(small_words, style, thinking) -> None:
    if (style, thinking) == (Style.SPELLED, Thinking.REQUIRED):
        return  # it has no form for thinking
    prompter = Prompter(style=style, thinking=thinking)
    sampler = SolverSampler(Solver(small_words), prompter)
    trajectories = play([InitialState(secret) for secret in small_words.answers], small_words, prompter, sampler)
    assert all(trajectory.transcript.won for trajectory in trajectories)
    assert sum(trajectory.transcript.turns_used for trajectory in trajectories) / len(trajectories) < 3


def test_the_solver_names_a_listed_word_when_no_answer_is_left(small_words) -> None:
    sampler = SolverSampler(Solver(small_words), COMPACT)
    impossible = Request(0, (), (Turn("crane", "GGGGX", Outcome.SCORED), Turn("speed", "GGGGX", Outcome.SCORED)))
    [completion] = sampler.sample([impossible])
    assert COMPACT.parse(completion.text).word in small_words


def test_the_random_player_names_listed_words_and_repeats_itself(small_words) -> None:
    sampler = RandomSampler(small_words, COMPACT, seed=3)
    starts = [InitialState("crane")] * 10
    first = [t.transcript for t in play(starts, small_words, COMPACT, sampler)]
    assert first == [t.transcript for t in play(starts, small_words, COMPACT, sampler)]
    other = RandomSampler(small_words, COMPACT, seed=4)
    assert first != [t.transcript for t in play(starts, small_words, COMPACT, other)]
    assert {turn.turn.outcome for transcript in first for turn in transcript.turns} == {Outcome.SCORED}


def test_the_consistent_player_names_every_answer_that_fits_and_no_other_word(small_words) -> None:
    board = (Turn("crane", score_guess("grape", "crane"), Outcome.SCORED),)
    fitting = {word for word in small_words.answers if score_guess(word, "crane") == board[0].marks}
    sampler = ConsistentSampler(Solver(small_words), COMPACT)
    replies = sampler.sample([Request(game, (), board) for game in range(60)])
    assert {COMPACT.parse(reply.text).word for reply in replies} == fitting == {"drape", "grape", "graze"}


def test_the_consistent_player_never_breaks_a_clue_and_repeats_itself(small_words) -> None:
    sampler = ConsistentSampler(Solver(small_words), COMPACT, seed=3)
    starts = [InitialState(secret) for secret in small_words.answers]
    first = [t.transcript for t in play(starts, small_words, COMPACT, sampler)]
    assert first == [t.transcript for t in play(starts, small_words, COMPACT, sampler)]
    for transcript in first:
        turns = [played.turn for played in transcript.turns]
        assert not any(violates_clues(turn.guess, turns[:place]) for place, turn in enumerate(turns))
