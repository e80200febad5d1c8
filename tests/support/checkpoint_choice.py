"""A checkpoint selection over scripted costs."""

import os
import signal

import pytest

torch = pytest.importorskip("torch")
from contexts import context_for
from grpo_training import SETTINGS
from training_fixtures import compact, make_run, small_model

from wordle_rl.rl.grpo.train import train_grpo
from wordle_rl.rl.grpo.validation import Validation
from wordle_rl.rl.setup import GameSetup
from wordle_rl.solver import Solver


class Choosing:
    """Two steps of GRPO with a validation after each and two blends; Ctrl-C within one of its validations."""

    def __init__(self, training, split, monkeypatch) -> None:
        self.training, self.split = training, split
        self.played, self.pressing = 0, {}
        validate = Validation.__call__

        def listen(validation, step, alpha, number):
            for _ in range(self.pressing.get(self.played, 0)):
                os.kill(os.getpid(), signal.SIGINT)
            self.played += 1
            return validate(validation, step, alpha, number)

        monkeypatch.setattr(Validation, "__call__", listen)

    def __call__(self, directory, model=None, pressing=None, **changes):
        settings = SETTINGS.model_copy(update={"validate_every_steps": 1, "interpolation_alphas": THIRDS, **changes})
        words, codec = self.training.words, self.training.codec
        setup = GameSetup(
            context_for(words, compact(max_turns=3), Solver(words, use_cache=False)), self.split.train, self.split.val
        )
        model = model or small_model(codec.tokenizer)
        self.played, self.pressing = 0, pressing or {}
        train_grpo(model, codec, setup, settings, make_run(directory, words))
        return model


THIRDS = (1 / 3, 2 / 3, 1.0)
