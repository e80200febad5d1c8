"""Proofs of credit by enumeration: the mean of each estimator over all groups of a small game is a gradient, exactly.

The game has three words of three letters and three turns. The policy is a table: one logit per board and word. All
trajectories of a secret are enumerated with their probabilities, and all groups of them, so a mean is a sum without
sampling. A gradient is a vector over (board, word), summed over secrets.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.env import WordleEnv
from wordle_rl.game import Rules
from wordle_rl.prompt import Prompter
from wordle_rl.reward import PRESETS, Rubric
from wordle_rl.solver import Solver
from wordle_rl.train.advantages import (
    CREDITS,
    TurnValues,
    game_advantages,
    guess_advantages,
    is_constant,
    returns_to_go,
    turn_advantages,
)
from wordle_rl.train.scored_games import belief_rises
from wordle_rl.words import WordList

WORDS = WordList("toy", ("bad", "dab", "bag"), ("bad", "dab", "bag"))
SOLVER = Solver(WORDS)
PROMPTER = Prompter(word_length=3, rules=Rules(max_turns=3))
SIZES = pytest.mark.parametrize("group_size", [2, 3])
REWARDS = {
    "wins": Rubric({"win": 1.0, "speed": 0.5}),
    "shaped": PRESETS["shaped"],
    "regret": Rubric({"regret": -6.0}, keep_order=False),
    "belief": Rubric({"win": 1.0}, keep_order=False),  # and the rise of the policy's own belief
}
REWARDED = pytest.mark.parametrize("reward", REWARDS)

Board = tuple[tuple[str, str], ...]
Vector = Mapping[tuple[Board, str], float]
"""One number per board and word."""


@dataclass(frozen=True)
class Play:
    """A trajectory with its probability, the reward of each turn, and the board and guess of each."""

    probability: float
    rewards: TurnValues
    choices: tuple[tuple[Board, str], ...]


@cache
def policy(board: Board) -> dict[str, float]:
    """The softmax of fixed logits that differ from board to board and from word to word."""

    def logit(word: str) -> float:
        return 1.5 * math.sin(sum(place * ord(char) for place, char in enumerate(f"{board}{word}", start=1)))

    weights = {word: math.exp(logit(word)) for word in WORDS.guesses}
    return {word: weight / math.fsum(weights.values()) for word, weight in weights.items()}


@cache
def plays(secret: str, reward: str) -> list[Play]:
    """Every trajectory of a secret."""

    def grown(guesses: tuple[str, ...], probability: float, choices: tuple[tuple[Board, str], ...]) -> Iterator[Play]:
        env = WordleEnv(secret, WORDS, PROMPTER)
        for guess in guesses:
            env.step(PROMPTER.reply(guess))
        if env.stop_reason is not None:
            scored = REWARDS[reward].score(env.transcript(), SOLVER)
            if reward == "belief":
                beliefs = tuple(math.log(policy(board)[secret]) for board, _ in choices)
                scored = scored.plus("belief", belief_rises(beliefs, 0.5, won=env.transcript().won), 0.3)
            yield Play(probability, scored.turn_rewards, choices)
            return
        board = tuple((str(turn.guess), str(turn.marks)) for turn in env.turns)
        for word, chance in policy(board).items():
            yield from grown((*guesses, word), probability * chance, (*choices, (board, word)))

    return list(grown((), 1.0, ()))


def weighted(terms: Iterable[tuple[Play, int, float]]) -> Vector:
    """Sum of weight times score: the gradient of the log-probability of one guess by the logits of its board."""
    weights: dict[tuple[Board, str], float] = defaultdict(float)
    for play, turn, weight in terms:
        weights[play.choices[turn]] += weight
    found: dict[tuple[Board, str], float] = defaultdict(float)
    for (board, chosen), weight in weights.items():
        for word, chance in policy(board).items():
            found[board, word] += weight * (float(word == chosen) - chance)
    return found


def mean_estimate(reward: str, group_size: int, credit: Callable[[list[TurnValues]], list[TurnValues]]) -> Vector:
    """The mean over all groups of all secrets of (1 / group size) sum of advantage times score."""

    def terms() -> Iterator[tuple[Play, int, float]]:
        for secret in WORDS.answers:
            for group in itertools.product(plays(secret, reward), repeat=group_size):
                probability = math.prod(play.probability for play in group)
                advantages = credit([play.rewards for play in group])
                for play, values in zip(group, advantages, strict=True):
                    for turn, advantage in enumerate(values):
                        yield play, turn, probability * advantage / group_size

    return weighted(terms())


def exact(reward: str, value: Callable[[Play, int], float]) -> Vector:
    """The mean over all trajectories of a value of each turn times the score of its guess."""
    return weighted(
        (play, turn, play.probability * value(play, turn))
        for secret in WORDS.answers
        for play in plays(secret, reward)
        for turn in range(len(play.choices))
    )


def true_gradient(reward: str) -> Vector:
    return exact(reward, lambda play, _: math.fsum(play.rewards))


def expected_reward(reward: str, shifted: tuple[Board, str], by: float) -> float:
    """The expected reward with one logit moved."""
    norm = 1.0 + policy(shifted[0])[shifted[1]] * (math.exp(by) - 1.0)
    total = 0.0
    for play in (play for secret in WORDS.answers for play in plays(secret, reward)):
        probability = play.probability
        for board, word in play.choices:
            if board == shifted[0]:
                probability *= (math.exp(by) if word == shifted[1] else 1.0) / norm
        total += probability * math.fsum(play.rewards)
    return total


def compared(reward: str, group_size: int) -> dict[tuple[str, int], dict[int, float]]:
    """By secret and turn, the turn whose mean is the baseline -> the mean of 1/n over what the other games do.

    n is the number of games that reached the baseline's turn, own one included. The baseline is that of the turn
    itself, or where no other game reached it, of the last turn that another one did.
    """
    found = {}
    for secret in WORDS.answers:
        lengths: dict[int, float] = defaultdict(float)
        for play in plays(secret, reward):
            lengths[len(play.choices)] += play.probability
        for turn in range(PROMPTER.rules.max_turns):
            parts: dict[int, float] = defaultdict(float)
            for others in itertools.product(lengths.items(), repeat=group_size - 1):
                reached = [1 + sum(length > before for length, _ in others) for before in range(turn + 1)]
                baseline = max(before for before in range(turn + 1) if reached[before] > 1)
                parts[baseline] += math.prod(chance for _, chance in others) / reached[baseline]
            found[secret, turn] = dict(parts)
    return found


def compared_with_itself(reward: str, group_size: int, values: Callable[[TurnValues], TurnValues]) -> Vector:
    """The mean of (value - what of the baseline is the game's own) times the score of each guess.

    The rest of a baseline is other games' and adds nothing to the mean.
    """
    parts = compared(reward, group_size)

    def terms() -> Iterator[tuple[Play, int, float]]:
        for secret in WORDS.answers:
            for play in plays(secret, reward):
                own = values(play.rewards)
                for turn in range(len(play.choices)):
                    baseline = math.fsum(own[at] * part for at, part in parts[secret, turn].items())
                    yield play, turn, play.probability * (own[turn] - baseline)

    return weighted(terms())


def same(found: Vector, expected: Vector, factor: float = 1.0) -> bool:
    assert set(found) == set(expected)
    return all(found[place] == pytest.approx(factor * expected[place], abs=1e-9) for place in found)


@REWARDED
def test_all_trajectories_are_there_and_the_gradient_is_that_of_the_expected_reward(reward: str) -> None:
    for secret in WORDS.answers:
        assert math.fsum(play.probability for play in plays(secret, reward)) == pytest.approx(1.0)
    gradient, by = true_gradient(reward), 1e-4
    assert len(gradient) > 20
    assert max(map(abs, gradient.values())) > 0.01
    for place in list(gradient)[:12]:
        slope = (expected_reward(reward, place, by) - expected_reward(reward, place, -by)) / (2 * by)
        assert gradient[place] == pytest.approx(slope, abs=1e-6)


@SIZES
@REWARDED
def test_the_mean_of_game_credit_is_the_gradient_times_one_less_one_over_the_group(
    reward: str, group_size: int
) -> None:
    assert same(mean_estimate(reward, group_size, CREDITS["game"]), true_gradient(reward), 1 - 1 / group_size)


@SIZES
@REWARDED
@pytest.mark.parametrize(("credit", "values"), [("turn", returns_to_go), ("guess", tuple)])
def test_turn_and_guess_credit_take_from_each_value_only_the_part_of_the_baseline_that_is_its_own(
    credit: str, values: Callable[[TurnValues], TurnValues], reward: str, group_size: int
) -> None:
    found = mean_estimate(reward, group_size, CREDITS[credit])
    assert same(found, compared_with_itself(reward, group_size, values))


@SIZES
@pytest.mark.parametrize("reward", ["wins", "regret"])  # which are paid at once
def test_the_mean_of_turn_credit_is_each_turns_part_of_the_gradient_shrunk_by_less_than_one(
    reward: str, group_size: int
) -> None:
    """A positive factor per secret and turn is all that differs, given what earlier turns earned."""
    parts = compared(reward, group_size)
    shrunk = weighted(
        (play, turn, play.probability * (1 - math.fsum(parts[secret, turn].values())) * value)
        for secret in WORDS.answers
        for play in plays(secret, reward)
        for turn, value in enumerate(returns_to_go(play.rewards))
    )
    assert same(mean_estimate(reward, group_size, CREDITS["turn"]), shrunk)
    assert same(exact(reward, lambda play, turn: returns_to_go(play.rewards)[turn]), true_gradient(reward))
    assert all(0 < math.fsum(part.values()) <= 1 / 2 for part in parts.values())
    assert all(math.fsum(parts[secret, 0].values()) == pytest.approx(1 / group_size) for secret in WORDS.answers)


@REWARDED
@pytest.mark.parametrize(
    ("credit", "least", "most"),
    [
        (turn_advantages, 0.9, 1.0),
        (guess_advantages, 0.7, 0.95),
        (partial(game_advantages, scale=True), 0.35, 0.999),
    ],
)
def test_every_credit_points_up(credit, least: float, most: float, reward: str) -> None:
    gradient, found = true_gradient(reward), mean_estimate(reward, 3, credit)
    product = math.fsum(found[place] * gradient[place] for place in found)
    assert least < product / (math.hypot(*found.values()) * math.hypot(*gradient.values())) < most


# --- hand arithmetic ---


ROOT = math.sqrt(8)
BY_HAND = {
    # Totals 4, 0, 2: the mean is 2, the deviation sqrt((4 + 4 + 0) / 2) = 2.
    "game, scaled": (partial(game_advantages, scale=True), [(4,), (0,), (2,)], [(1,), (-1,), (0,)]),
    # Returns to go: (4, 4, 1), (2, 2). The third turn has only the first game; the second turn's mean is 3.
    "turn that one game alone reached": (turn_advantages, [(0, 3, 1), (0, 2)], [(1, 1, -2), (-1, -1)]),
    # Totals 4 and 0: the deviation is sqrt(8); the means are 2 at both turns.
    "turn, scaled": (partial(turn_advantages, scale=True), [(0, 4), (0, 0)], [(2 / ROOT,) * 2, (-2 / ROOT,) * 2]),
}
BOTH = pytest.mark.parametrize("credit", [game_advantages, turn_advantages, guess_advantages])
SCALES = pytest.mark.parametrize("scale", [False, True])


@pytest.mark.parametrize("name", BY_HAND)
def test_credit_by_hand(name: str) -> None:
    credit, rewards, expected = BY_HAND[name]
    for found, wanted in zip(credit([tuple(map(float, game)) for game in rewards]), expected, strict=True):
        assert found == pytest.approx(wanted, abs=1e-12)


@BOTH
@SCALES
@given(
    rewards=st.lists(st.floats(-2, 2).map(lambda x: round(x, 3)), min_size=1, max_size=6).map(tuple),
    size=st.integers(2, 9),
)
def test_a_constant_group_gets_exactly_zero(credit, scale, rewards, size) -> None:
    found = credit([rewards] * size, scale=scale)
    assert found == [(0.0,) * len(rewards)] * size
    assert is_constant(found)


@SCALES
def test_totals_that_differ_by_rounding_alone_are_equal(scale) -> None:
    assert 0.1 + 0.2 != 0.3
    assert game_advantages([(0.1, 0.2), (0.3,)], scale=scale) == [(0.0, 0.0), (0.0,)]


@BOTH
@pytest.mark.parametrize("games", [[], [(1.0,)]])
def test_a_group_of_one_is_refused(credit, games) -> None:
    with pytest.raises(ValueError, match="group_size"):
        credit(games)


def test_a_group_in_which_one_turn_is_credited_is_not_constant() -> None:
    # Returns to go (1, 0) and (1,): what the turn that one game alone reached is short of stands in no other game.
    assert turn_advantages([(1.0, 0.0), (1.0,)]) == [(0.0, -1.0), (0.0,)]
    assert not is_constant([(0.0, -1.0), (0.0,)])
