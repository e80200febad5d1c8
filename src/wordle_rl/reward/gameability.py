"""Search for policies that are paid without winning: the adversarial floor of a reward, and its gap to honest play.

Adversaries know the secret and never guess it (`adversaries`). First every way to choose a word is played with every
wording; the best of these policies are changed move by move, and a change that earns more is kept. Then each secret
gets a policy of its own, whose words are drawn from the whole list. The mean of their rewards is the floor.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wordle_rl.env import StopReason, Transcript, WordleEnv
from wordle_rl.prompt import Prompter
from wordle_rl.reward.adversaries import CHOICES, REPLIES, Field, Move, Policy, play
from wordle_rl.reward.rubric import Rubric
from wordle_rl.solver import Solver
from wordle_rl.words import WordList

_KEPT = 3
"""Policies of the first round that are changed further."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of a search.

    Attributes:
        num_secrets: Secrets that are played.
        steps: Changes tried on each of the best policies.
        steps_per_secret: Changes tried on the policy of each secret.
        seed: Of secrets, changes and players.
    """

    num_secrets: int = 12
    steps: int = 60
    steps_per_secret: int = 60
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Gameability:
    """Findings about one reward.

    Attributes:
        honest: Mean reward of honest play: any answer that fits the marks, as it comes.
        honest_win_rate: Wins of that play, 0 to 1.
        solver: Mean reward of the solver.
        lowest_win: Lowest reward of a game that the two won.
        floor: The highest mean reward found of play that never wins, each secret with a policy of its own.
        best_loss: The highest reward of a single game without a win.
        shared_floor: The highest mean reward of one policy for all secrets.
        policy: That policy, in words.
        policies: Policies tried.
        replies: Replies sent by them.
        false_wins: Games that a policy won though it never guessed the secret. Each is a hole.
        replies_after_end: Replies that a finished game took. Each is a hole.
    """

    honest: float
    honest_win_rate: float
    solver: float
    lowest_win: float
    floor: float
    best_loss: float
    shared_floor: float
    policy: str
    policies: int
    replies: int
    false_wins: int
    replies_after_end: int

    @property
    def gap(self) -> float:
        """Honest play above the floor. At 0 or below, the reward can be had without winning."""
        return self.honest - self.floor

    @property
    def holds(self) -> bool:
        """True if no policy without a win earned as much as honest play, and no reply cheated the game."""
        return self.gap > 0 and not self.false_wins and not self.replies_after_end


def words_for(rubric: Rubric, words: WordList, num_answers: int) -> WordList:
    """The list to search on: thinned where the reward asks the solver, which takes seconds a guess on long lists."""
    asks = any(component.asks_solver for component in rubric.components.values())
    return thinned(words, num_answers) if asks else words


def thinned(words: WordList, num_answers: int) -> WordList:
    """A list of at most this many answers, and of other guesses in proportion, evenly taken."""
    every = math.ceil(len(words.answers) / num_answers)
    answers = words.answers[::every]
    return WordList(words.name, answers, tuple({*answers, *words.outside[::every]})) if every > 1 else words


def attack(rubric: Rubric, solver: Solver, prompter: Prompter, effort: Effort = Effort()) -> Gameability:
    """Search for the best reward without a win.

    Args:
        rubric: The reward.
        solver: Of the word list that is played, see `words_for`.
        prompter: Grammar and rules of the games.
        effort: Size of the search.

    Returns:
        The same findings for the same arguments.
    """
    rng = random.Random(f"attack {effort.seed}")
    answers = solver.words.answers
    secrets = tuple(sorted(rng.sample(answers, min(effort.num_secrets, len(answers)))))
    search = _Search(rubric, Field(solver, secrets, prompter), rng)
    shared, value = search.shared_policy(effort.steps)
    own = [search.own_policy(shared, secret, effort.steps_per_secret) for secret in secrets]
    fitting, best = (search.honest(name) for name in ("fits the marks", "the solver's"))
    wins = [reward for reward, won in (*fitting, *best) if won]
    return Gameability(
        honest=_mean([reward for reward, _ in fitting]),
        honest_win_rate=_mean([float(won) for _, won in fitting]),
        solver=_mean([reward for reward, _ in best]),
        lowest_win=min(wins, default=math.nan),
        floor=_mean(own),
        best_loss=search.best_loss,
        shared_floor=value,
        policy=str(shared),
        policies=search.policies,
        replies=search.replies,
        false_wins=search.false_wins,
        replies_after_end=search.replies_after_end,
    )


class _Search:
    """Hill climbing under one reward, with counts of what was tried."""

    def __init__(self, rubric: Rubric, field: Field, rng: random.Random) -> None:
        self._rubric, self._field, self._rng = rubric, field, rng
        self._max_turns = field.prompter.rules.max_turns
        self.policies = self.replies = self.false_wins = self.replies_after_end = 0
        self.best_loss = -math.inf

    def shared_policy(self, steps: int) -> tuple[Policy, float]:
        """The best policy found for all secrets, and its mean reward."""
        simple = [Policy((Move(reply, choice),) * self._max_turns) for reply in REPLIES for choice in CHOICES]
        simple += [Policy((Move("plain", choice),), stops=True) for choice in CHOICES]
        ranked = sorted(((self._mean_reward(policy), str(policy), policy) for policy in simple), reverse=True)
        climbed = []
        for value, _, policy in ranked[:_KEPT]:
            found, kept = policy, value
            for _ in range(steps):
                changed = self._changed(found, [*CHOICES])
                if (reward := self._mean_reward(changed)) > kept:
                    found, kept = changed, reward
            climbed.append((kept, str(found), found))
        value, _, policy = max(climbed)
        return policy, value

    def own_policy(self, start: Policy, secret: str, steps: int) -> float:
        """The best reward found for one secret, by words drawn from the whole list as well."""
        words = [word for word in self._field.solver.words.guesses if word != secret]
        found, kept = start, self._reward(start, secret)
        for choice in CHOICES:
            simple = Policy((Move("plain", choice),) * self._max_turns)
            if (reward := self._reward(simple, secret)) > kept:
                found, kept = simple, reward
        for _ in range(steps):
            drawn = [*CHOICES, *self._rng.sample(words, min(3 * len(CHOICES), len(words)))]
            changed = self._changed(found, drawn)
            if (reward := self._reward(changed, secret)) > kept:
                found, kept = changed, reward
        return kept

    def honest(self, choice: str) -> list[tuple[float, bool]]:
        """Reward and win of each secret, by a player who does not know it."""
        return [self._honest_game(choice, secret) for secret in self._field.secrets]

    def _honest_game(self, choice: str, secret: str) -> tuple[float, bool]:
        field, rng = self._field, random.Random(f"{choice} {secret}")
        env = WordleEnv(secret, field.solver.words, field.prompter)
        while env.stop_reason is None:
            fits = field.candidates(env.turns)
            word = field.solver.words.answers[int(rng.choice(fits))]
            if choice == "the solver's":
                word = field.solver.best_guess(fits, env.observation.turns_left)
            env.step(field.prompter.reply(word))
        transcript = env.transcript()
        return self._rubric.score(transcript, field.solver).total, transcript.won

    def _changed(self, policy: Policy, choices: Sequence[str]) -> Policy:
        """A policy with one or two moves replaced, or another way to end."""
        moves = list(policy.moves)
        for _ in range(self._rng.randint(1, 2)):
            place = self._rng.randrange(len(moves))
            reply = self._rng.choice([*REPLIES]) if self._rng.random() < 0.4 else moves[place].reply
            choice = self._rng.choice(choices) if self._rng.random() < 0.8 else moves[place].choice
            moves[place] = Move(reply, choice)
        if self._rng.random() < 0.1:
            return Policy(tuple(moves[: self._rng.randint(1, len(moves))]), stops=not policy.stops)
        return replace(policy, moves=tuple(moves))

    def _mean_reward(self, policy: Policy) -> float:
        return _mean([self._reward(policy, secret) for secret in self._field.secrets])

    def _reward(self, policy: Policy, secret: str) -> float:
        self.policies += 1
        transcript = play(policy, secret, self._field)
        self.replies += len(transcript.turns)
        reward = self._rubric.score(transcript, self._field.solver).total
        self.false_wins += transcript.won
        self.replies_after_end += _turns_after_end(transcript)
        self.best_loss = max(self.best_loss, reward)
        return reward


def _turns_after_end(transcript: Transcript) -> int:
    """Turns on record beyond those that the rules allow."""
    over = transcript.turns_used - transcript.rules.max_turns
    return max(0, over) if transcript.stop_reason is not StopReason.SOLVED else 0


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
