"""Laws of rollouts that weigh several guesses a turn: one state, the best goes on, each credited above their mean."""

import itertools

import pytest
from reward_games import SOLVER, WORDS
from training_fixtures import compact

from wordle_rl.env import StopReason
from wordle_rl.policy.base import Completion
from wordle_rl.prompt import Shape
from wordle_rl.reward import PRESETS, Rubric
from wordle_rl.rollout import ActiveGame, InitialState, Segment, open_game
from wordle_rl.train.turn_candidates import play_branching, reward_judge


class Spelling:
    """Says scripted words, one per request, as the embedded tokenizer spells them."""

    def __init__(self, codec, words) -> None:
        self.codec, self._words = codec, itertools.cycle(words)
        self.asked: list[list] = []

    def begin(self) -> None:
        self.asked.clear()

    def sample(self, requests) -> list[Completion]:
        self.asked.append(list(requests))
        found = []
        for _ in requests:
            text = f"<guess>{next(self._words)}</guess>"
            ids = (*self.codec.tokenizer.encode(text, add_special_tokens=False), *self.codec.turn_end_ids)
            found.append(Completion(text, ids, (-1.0,) * len(ids)))
        return found


def by_greens(game, reply) -> float:
    return float((game.env.preview(reply.text).marks or "").count("G"))


@pytest.fixture
def branched(codec, sixty):
    def make(words, secret, shape=Shape.TRANSCRIPT, count=2):
        sampler = Spelling(codec, words)
        (game,) = play_branching([InitialState(secret)], sixty, compact(shape, max_turns=3), sampler, count, by_greens)
        return game, sampler

    return make


def candidates_of(game) -> list[list[Segment]]:
    """The candidates of each turn."""
    trajectory, values = game
    segments = iter(trajectory.segments)
    return [[next(segments) for _ in turn] for turn in values]


def words_of(sixty) -> tuple[str, str, str]:
    """A secret, an answer with a green letter of it, and one without."""
    secret = sixty.answers[0]
    near = next(w for w in sixty.answers[1:] if any(a == b for a, b in zip(w, secret, strict=True)))
    far = next(w for w in sixty.answers[1:] if not any(a == b for a, b in zip(w, secret, strict=True)))
    return secret, near, far


@pytest.mark.parametrize("shape", Shape)
def test_the_best_candidate_goes_on_and_all_are_kept(shape, branched, sixty) -> None:
    secret, near, far = words_of(sixty)
    game, sampler = branched([far, near, near, far, far, secret], secret, shape)
    assert [played.turn.guess for played in game[0].transcript.turns] == [near, near, secret]
    assert game[0].transcript.won
    assert [len(turn) for turn in candidates_of(game)] == [2, 2, 2]
    assert [values[0] < values[1] for values in game[1]] == [True, False, True]
    assert [len(requests) for requests in sampler.asked] == [2, 2, 2]


@pytest.fixture
def running() -> ActiveGame:
    """A game of `crane` with two guesses on its board."""
    game = open_game(0, InitialState("crane"), WORDS, compact(), None)
    for word in ("mamma", "these"):
        game.env.step(f"<guess>{word}</guess>")
    return game


@pytest.mark.parametrize("preset", [*PRESETS])
@pytest.mark.parametrize("reply", ["<guess>crane</guess>", "<guess>grape</guess>", "<guess>zzzzz</guess>", "no word"])
def test_a_judge_by_reward_pays_what_the_turn_earns_where_the_game_ends(running, preset: str, reply: str) -> None:
    rubric = Rubric(PRESETS[preset].weights)
    judged = reward_judge(rubric, SOLVER)(running, Completion(reply))
    board = running.env.turns
    running.env.step(reply)
    if running.env.stop_reason is None:
        running.env.stop_reason = StopReason.OUT_OF_TURNS
    assert len(running.env.turns) == len(board) + 1
    assert judged == pytest.approx(rubric.score(running.env.transcript(), SOLVER).turn_rewards[-1])
