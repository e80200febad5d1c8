"""Distillation in miniature: settings, games of a script, the labels of their boards, and a training."""

import pytest

torch = pytest.importorskip("torch")
from contexts import context_for
from round_training import learner_of, playing
from scripted import say, scripted
from training_fixtures import compact, fast, make_run

from wordle_rl.config import DistillTraining, SamplingSettings, TeacherSettings, TraceSettings
from wordle_rl.reward import PRESETS
from wordle_rl.rollout import InitialState, play
from wordle_rl.solver import Solver
from wordle_rl.train.distill import Labeller, train_distill
from wordle_rl.train.scored_games import Scored
from wordle_rl.train.starts import GameSetup

SETTINGS = DistillTraining(
    rounds=1,
    groups_per_round=6,
    replay_fraction=0.0,
    outside_rate=0.0,
    batch_size=4,
    sampling=SamplingSettings(max_completion_tokens=12),
    optimizer=fast(),
    precision="fp32",
)
PURE = TraceSettings(num_games=1, teacher=TeacherSettings(random_opener_rate=0, noise_rate=0))


def change(**changes: object) -> DistillTraining:
    return SETTINGS.model_copy(update=changes)


class Stumbling:
    """A listed word, then a reply that cannot be read, an unlisted word, and another listed word ever after."""

    def __init__(self, words) -> None:
        self.first, self.last = words.answers[3], words.answers[4]

    def __call__(self, _game_id: int, turns: tuple) -> str:
        return [say(self.first), "zz", say("zzzzz"), *[say(self.last)] * 3][len(turns)]


def games_of(words, codec, secrets, script, prompter=None) -> list[Scored]:
    """Games of a policy that replies by the script."""
    sampler = scripted(script)(None, codec)
    played = play([InitialState(secret) for secret in secrets], words, prompter or compact(), sampler)
    return [Scored(t, PRESETS["sparse"].score(t.transcript, Solver(words)), ()) for t in played]


def labelled(words, codec, games, prompter=None, traces=PURE, limit=500, seed=0, **changes):
    """What is to be said at the boards of these games, by prompt, the labels, their record, and the numbers to log."""
    setup = GameSetup(context_for(words, prompter or compact(), Solver(words)), words.answers)
    settings = change(sampling=SamplingSettings(max_completion_tokens=limit), **changes)
    labels, record, numbers = Labeller(codec, setup, settings, traces).label(games, seed)
    return {prompt: codec.text_of(label.reply_ids) for prompt, label in labels.items()}, labels, record, numbers


def train(
    model, codec, words, directory, settings=SETTINGS, *, traces=PURE, secrets=None, progress=None, turns=6, says=None
):
    """Train on the games of the policy; with `says`, of one that says what this has it say."""
    setup = GameSetup(context_for(words, compact(max_turns=turns), Solver(words)), secrets or words.answers)
    learner, run = learner_of(model, codec), make_run(directory, words)
    player = playing(says, codec) if says else None
    train_distill(learner, setup, settings, run, traces=traces, progress=progress, open_policy=player)
    return model
