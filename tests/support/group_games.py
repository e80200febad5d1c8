"""Groups of scripted games, as a GRPO step plays them."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from training_fixtures import compact, make_run, small_model

from wordle_rl.config import GRPOSettings, SamplingSettings
from wordle_rl.reward import RewardBreakdown
from wordle_rl.rl.grpo.rollouts import GroupRollouts
from wordle_rl.rl.setup import GameSetup
from wordle_rl.solver import Solver

SETTINGS = GRPOSettings(
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
        self.asked: list[tuple[int, float | None]] = []

    def rubric_at(self, step: int, format_compliance: float | None = None):
        self.asked.append((step, format_compliance))
        return self

    def score(self, transcript, _solver) -> RewardBreakdown:
        shares = tuple(float(self.pay(transcript, turn)) for turn in transcript.own_turns)
        return RewardBreakdown({"said": shares}, {"said": 1.0}, shares, sum(shares))


class Roll:
    """A rollouts with a stand-in for the trainer that calls it."""

    def __init__(self, tokenizer, codec, words, directory, settings=SETTINGS, prompter=None, secrets=None, pay=None):
        self.model = small_model(tokenizer)
        self.prompter = prompter or compact(max_turns=3)
        setup = GameSetup(words, self.prompter, secrets or words.answers, Solver(words, use_cache=False))
        self.rollouts = GroupRollouts(setup, codec, settings, make_run(directory, words), seed=0)
        if pay is not None:
            self.rollouts.schedule = Schedule(pay)
        self.games = []
        keep = self.rollouts._rows
        self.rollouts._rows = lambda games: keep(self.games.append(games) or games)

    def __call__(self, step: int = 0) -> dict[str, list]:
        settings, accelerator = (
            self.rollouts.settings,
            SimpleNamespace(process_index=0, num_processes=1, unwrap_model=lambda model: model),
        )
        trainer = SimpleNamespace(model=self.model, state=SimpleNamespace(global_step=step), accelerator=accelerator)
        count = settings.groups_per_step * settings.group_size * self.rollouts.rows_per_game
        return self.rollouts(["wordle"] * count, trainer)


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
