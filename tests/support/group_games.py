"""Groups of games as a GRPO step plays them."""

from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")
from contexts import context_for
from training_fixtures import compact, make_run, small_model, training_of

from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.loading import context_budget
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.reward import RewardBreakdown
from wordle_rl.runs.trackers import GameLog
from wordle_rl.solver import Solver
from wordle_rl.train.example import Example
from wordle_rl.train.grpo_rollouts import GroupRollouts, Played
from wordle_rl.train.play_loop import Stage
from wordle_rl.train.scored_games import Scored
from wordle_rl.train.starts import GameSetup

SETTINGS = GRPOSettings(groups_per_step=3, group_size=4, sample_games=2, max_refills=0)
TOKENS = SamplingSettings(max_completion_tokens=6)


class Schedule:
    """Pays by what was said, so that even an untrained model's games differ; remembers what it was asked."""

    def __init__(self, pay=lambda transcript, turn: (len(turn.reply) % 5) / 4) -> None:
        self.pay = pay
        self.asked: list[float | None] = []

    def rubric(self, format_compliance: float | None = None):
        self.asked.append(format_compliance)
        return self

    def score(self, transcript, _solver) -> RewardBreakdown:
        shares = tuple(float(self.pay(transcript, turn)) for turn in transcript.own_turns)
        return RewardBreakdown({"said": shares}, {"said": 1.0}, shares, sum(shares))


class Roll:
    """Rollouts of an untrained model, called as a training calls them; keeps the scored games of every step."""

    def __init__(self, tokenizer, codec, words, directory, settings=SETTINGS, prompter=None, secrets=None, pay=None):
        self.model, self.codec, self.settings = small_model(tokenizer), codec, settings
        self.prompter = prompter or compact(max_turns=3)
        context = context_for(words, self.prompter, Solver(words))
        self.setup = GameSetup(context, secrets or words.answers, sampling=TOKENS)
        self.run = make_run(directory, words)
        training = training_of(None, self.run)
        stage = Stage(training, self.setup, GameLog(self.run), lambda *asked: self.open_policy(*asked))
        self.rollouts = GroupRollouts(stage, settings)
        if pay is not None:
            self.rollouts.schedule = Schedule(pay)
        self.games: list[list[Scored]] = []

    def __call__(self, step: int = 0) -> list[Example]:
        """The rows of a step; the rest of it is in `played`."""
        self.played: Played = self.rollouts.next(step)
        self.rollouts.note_compliance(self.metrics["format_compliance"])
        self.games.append(games_of(self.played))
        items = self.played.items(self.codec, mask_overlong=self.settings.mask_overlong)
        return [row for item in items for row in item]

    @property
    def metrics(self):
        return self.played.metrics

    @contextmanager
    def open_policy(self, sampling, seed):
        yield TransformersSampler(self.model, self.codec, sampling, seed), context_budget(self.model, sampling)


def games_of(played: Played) -> list[Scored]:
    return [game for group in played.groups for game in group.games]


def turns_of(row: Example) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(prompt, sampled tokens) of every run of ones in a row's mask."""
    found, start = [], None
    for place, on in enumerate([*row.loss_mask, 0]):
        if on and start is None:
            start = place
        if not on and start is not None:
            found.append((tuple(row.token_ids[:start]), tuple(row.token_ids[start:place])))
            start = None
    return found
