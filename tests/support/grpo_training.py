"""Groups of games as a GRPO step plays them, and one GRPO training in miniature.

Import the fixtures of `train`, `roll` and `outside` in the tests that use them.
"""

from contextlib import contextmanager
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from reward_games import WORDS
from training_fixtures import compact, context_for, fast, make_run, small_model, training_of

import wordle_rl.train.grpo as grpo_module
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.loading import context_budget
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Shape
from wordle_rl.reward import RewardBreakdown
from wordle_rl.rollout import ShouldStop
from wordle_rl.runs.trackers import GameLog
from wordle_rl.solver import Solver
from wordle_rl.train.example import Example
from wordle_rl.train.grpo_rollouts import GroupRollouts, Played
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.play_loop import Stage, learn_by_play
from wordle_rl.train.scored_games import Scored
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.weight_sync import open_engine

TOKENS = SamplingSettings(max_completion_tokens=6)
ROLLED = GRPOSettings(groups_per_step=3, group_size=4, sample_games=2, max_refills=0)


def by_length(_transcript, turn) -> float:
    return len(turn.reply) % 5 / 4


class Schedule:
    """Pays by what was said, so that even an untrained model's games differ; remembers what it was asked."""

    def __init__(self, pay=by_length) -> None:
        self.pay = pay
        self.asked: list[float | None] = []

    def rubric(self, progress: float = 0.0, format_compliance: float | None = None):
        self.asked.append(format_compliance)
        return self

    def score(self, transcript, _solver) -> RewardBreakdown:
        shares = tuple(float(self.pay(transcript, turn)) for turn in transcript.own_turns)
        return RewardBreakdown({"said": shares}, {"said": 1.0}, shares, sum(shares))


class Roll:
    """Rollouts of an untrained model, called as a training calls them; keeps the scored games of every step."""

    def __init__(self, tokenizer, codec, words, directory, settings=ROLLED, prompter=None, secrets=None, pay=None):
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


SETTINGS = GRPOSettings(steps=2, groups_per_step=2, group_size=4, optimizer=fast(), sample_games=1, max_refills=0)


class Training:
    """Trains by GRPO and keeps what was played and what the learner was given.

    `pay` is the reward of a turn, `should_stop` ends games early; None: as the settings say. Set them before it trains.
    """

    def __init__(self, tokenizer, codec, words, monkeypatch) -> None:
        self.tokenizer, self.codec, self.words = tokenizer, codec, words
        self.pay = by_length
        self.should_stop: ShouldStop | None = None
        self.all_rollouts: list[GroupRollouts] = []
        self.played: list[Played] = []
        """Of every step of every training."""
        self.micro_batches: list[list[list[Example]]] = []
        """What the learner was given, in the same order."""
        training = self

        class Paying(GroupRollouts):
            def __init__(self, *args, **kwargs) -> None:
                super().__init__(*args, **kwargs)
                if training.pay is not None:
                    self.schedule = Schedule(training.pay)
                self.should_stop = training.should_stop or self.should_stop
                training.all_rollouts.append(self)

            def next(self, step, open_policy=None):
                training.played.append(super().next(step, open_policy))
                return training.played[-1]

        monkeypatch.setattr(grpo_module, "GroupRollouts", Paying)

    @property
    def games(self) -> list[list[Scored]]:
        """The scored games of every step."""
        return [games_of(played) for played in self.played]

    def setup(self, shape=Shape.TRANSCRIPT, **parts) -> GameSetup:
        """Games of three turns over all answers; `parts` are other fields of it."""
        context = context_for(self.words, compact(shape, max_turns=3), Solver(self.words))
        return GameSetup(context, **{"secrets": self.words.answers, "sampling": TOKENS, **parts})

    def learner(self, model, settings: GRPOSettings, **fitting) -> TorchLearner:
        """A learner of a model, as the pipeline makes it; `fitting` are settings of [model]."""
        training = self

        class Watched(TorchLearner):
            def update(self, micro_batches, loss, step):
                training.micro_batches.append([list(batch) for batch in micro_batches])
                return super().update(micro_batches, loss, step)

        return Watched(model, self.codec, **{"precision": "fp32"} | fitting, temperature=settings.temperature)

    def __call__(
        self,
        directory: Path,
        settings=SETTINGS,
        shape=Shape.TRANSCRIPT,
        model=None,
        progress=None,
        *,
        setup=None,
        open_policy=None,
        engine=None,
        **fitting,
    ):
        """Train a model and return it; a run that was stopped there is resumed."""
        model, setup = model or small_model(self.tokenizer), setup or self.setup(shape)
        learner = self.learner(model, settings, **fitting)
        if settings.plays_by_vllm and engine is None:
            engine = open_engine(learner, settings, setup)
        learn_by_play(
            grpo_module.GRPO,
            training_of(learner, make_run(directory, self.words), progress=progress),
            setup,
            settings,
            open_policy=open_policy,
            engine=engine,
        )
        if settings.plays_by_vllm:
            engine.close()
        return model


@pytest.fixture(name="train")
def train_fixture(tokenizer, codec, sixty, monkeypatch) -> Training:
    """GRPO over sixty words."""
    return Training(tokenizer, codec, sixty, monkeypatch)


@pytest.fixture(name="roll")
def roll_fixture(tokenizer, codec, sixty, tmp_path):
    """Makes rollouts over sixty words, each with a run of its own."""

    def make(**changes) -> Roll:
        return Roll(tokenizer, codec, sixty, tmp_path / f"run{len(list(tmp_path.iterdir()))}", **changes)

    return make


@pytest.fixture(name="outside")
def outside_fixture(tokenizer, codec, tmp_path) -> Roll:
    """Rollouts over the words of the reward tests in which no secret is an answer."""
    reward = {"weights": {"quick_regret": -6.0}, "keep_order": False}
    changes = {"outside_rate": 1.0, "credit": "guess", "reward": reward}
    settings = GRPOSettings.model_validate(ROLLED.model_dump(exclude_unset=True) | changes)
    return Roll(tokenizer, codec, WORDS, tmp_path, settings=settings)


def assert_scored_as_sampled(row: dict) -> None:
    """Check in the metrics of a step that tokens were scored as the sampler scored them.

    But for rounding, the estimate of a token's divergence is never negative: their mean bounds each of them.
    """
    assert row["importance_ratio/mean"] == pytest.approx(1.0, abs=2e-4)
    assert row["importance_ratio/max"] == pytest.approx(1.0, abs=1e-3)
    assert abs(row["sampler_kl"]) < 2e-8  # rounding can take it below 0


def update(settings: GRPOSettings, **changes: object) -> GRPOSettings:
    return settings.model_copy(update=changes)
