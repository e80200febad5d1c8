"""Laws of the players without a model: the solver, the random player, a script."""

import pytest
from prompt_forms import FORMS

from wordle_rl.boards import InitialState
from wordle_rl.env import Transcript
from wordle_rl.evaluate.asked import PlayerSpec
from wordle_rl.evaluate.players import make_sampler
from wordle_rl.game import Outcome, Turn, score_guess, violates_clues
from wordle_rl.policy.base import Request, Sampler
from wordle_rl.policy.scripted import ConsistentSampler, SolverSampler
from wordle_rl.prompt import Prompter, Style
from wordle_rl.rollout import play
from wordle_rl.solver import Solver

COMPACT = Prompter(style=Style.COMPACT)


@pytest.mark.parametrize(("style", "thinking"), FORMS)
def test_the_solver_wins_every_game_of_a_small_list_in_any_wording(small_words, style, thinking) -> None:
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


@pytest.mark.parametrize("name", ["random", "consistent"])
def test_a_player_that_draws_names_listed_words_and_repeats_itself(name, small_words) -> None:
    def played(sampler) -> list[Transcript]:
        starts = [InitialState(secret) for secret in small_words.answers]
        return [game.transcript for game in play(starts, small_words, COMPACT, sampler)]

    def player(seed: int) -> Sampler:
        return make_sampler(PlayerSpec(name), small_words, COMPACT, Solver(small_words), seed)

    sampler = player(3)
    first = played(sampler)
    assert first == played(sampler) != played(player(4))
    turns = [[turn.turn for turn in transcript.turns] for transcript in first]
    assert {turn.outcome for game in turns for turn in game} == {Outcome.SCORED}
    breaks_clues = any(violates_clues(turn.guess, game[:place]) for game in turns for place, turn in enumerate(game))
    assert breaks_clues is (name == "random")


def test_the_consistent_player_names_every_answer_that_fits_and_no_other_word(small_words) -> None:
    board = (Turn("crane", score_guess("grape", "crane"), Outcome.SCORED),)
    fitting = {word for word in small_words.answers if score_guess(word, "crane") == board[0].marks}
    sampler = ConsistentSampler(Solver(small_words), COMPACT)
    replies = sampler.sample([Request(game, (), board) for game in range(60)])
    assert {COMPACT.parse(reply.text).word for reply in replies} == fitting == {"drape", "grape", "graze"}
