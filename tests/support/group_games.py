"""Groups of scripted games, as a GRPO step plays them."""

from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")
from contexts import context_for
from training_fixtures import compact, make_run, small_model

from wordle_rl.config import GRPOTraining, SamplingSettings
from wordle_rl.reward import RewardBreakdown
from wordle_rl.rl.grpo.rollouts import GroupRollouts
from wordle_rl.rl.setup import GameSetup, prompt_budget
from wordle_rl.runs.trackers import GameLog
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.solver import Solver

SETTINGS = GRPOTraining(
    groups_per_step=3,
    group_size=4,
    sampling=SamplingSettings(max_completion_tokens=6),
    sample_games=2,
    max_refills=0,
)


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
    """Rollouts of a model of their own, called as the trainer calls them; keeps the scored games of every step."""

    def __init__(self, tokenizer, codec, words, directory, settings=SETTINGS, prompter=None, secrets=None, pay=None):
        self.model, self.codec, self.settings = small_model(tokenizer), codec, settings
        self.prompter = prompter or compact(max_turns=3)
        self.setup = GameSetup(
            context_for(words, self.prompter, Solver(words, use_cache=False)), secrets or words.answers
        )
        self.run = make_run(directory, words)
        self.rollouts = GroupRollouts(self.setup, codec, settings, GameLog(self.run), seed=0)
        if pay is not None:
            self.rollouts.schedule = Schedule(pay)
        self.games = []
        log_samples = self.rollouts._log_samples
        self.rollouts._log_samples = lambda step, groups: log_samples(step, self._kept(groups))

    def _kept(self, groups):
        self.games.append([game for group in groups for game in group.games])
        return groups

    def __call__(self, step: int = 0) -> dict[str, list]:
        """The rows of a step; the rest of its result is in `result`."""
        self.result = self.rollouts(step, self.open_sampler)
        self.rollouts.note_compliance(self.result.metrics["format_compliance"])
        return self.result.rows

    @property
    def metrics(self) -> dict[str, float]:
        return self.result.metrics

    @contextmanager
    def open_sampler(self, sampling, seed):
        yield (
            TransformersSampler(self.model, self.codec, sampling, seed),
            prompt_budget(self.model, self.settings.sampling),
        )


def turns_of(row_of: dict[str, list], row: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(prompt, sampled tokens) of every run of ones in a row's mask."""
    prompt, ids, mask = (row_of[name][row] for name in ("prompt_ids", "completion_ids", "env_mask"))
    found, start = [], None
    for place in range(len(ids) + 1):
        on = place < len(ids) and mask[place] == 1
        if on and start is None:
            start = place
        if not on and start is not None:
            found.append((tuple(prompt + ids[:start]), tuple(ids[start:place])))
            start = None
    return found
