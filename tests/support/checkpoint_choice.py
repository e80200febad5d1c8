"""A checkpoint selection over real validations, which Ctrl-C may interrupt."""

import os
import signal

import pytest

torch = pytest.importorskip("torch")
from grpo_training import SETTINGS

from wordle_rl.train.checkpoint_selection import Validation

THIRDS = (1 / 3, 2 / 3, 1.0)


class Choosing:
    """Two steps of GRPO with a validation after each and two blends; Ctrl-C within one of its validations.

    `pressing` says how often Ctrl-C is pressed in which validation, counted from 0.
    """

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
        self.played, self.pressing = 0, pressing or {}
        setup = self.training.setup(secrets=self.split.train, validation=self.split.val)
        return self.training(directory, settings, model=model, setup=setup)
