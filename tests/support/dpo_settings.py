"""Settings of DPO in miniature, and scripted pairs."""

import pytest

torch = pytest.importorskip("torch")
from scripted import say, scripted
from training_fixtures import compact, fast

from wordle_rl.config import DPOTraining, SamplingSettings
from wordle_rl.prompt import Shape
from wordle_rl.reward import PRESETS
from wordle_rl.rollout import InitialState, play
from wordle_rl.solver import Solver
from wordle_rl.train.scored_games import Scored

SETTINGS = DPOTraining(
    rounds=1,
    groups_per_round=1,
    group_size=2,
    boards_per_round=8,
    guesses_per_board=4,
    batch_size=2,
    sampling=SamplingSettings(max_completion_tokens=12),
    optimizer=fast(),
    precision="fp32",
)


class Script:
    """Two games: one finds the secret at the second turn, one never. Boards are then asked for four guesses each."""

    def __init__(self, words) -> None:
        self.secret, self.first, self.second, self.third = words.answers[:4]

    def __call__(self, game_id: int, turns: tuple) -> str | None:
        if not turns:
            return say([self.first, self.first, "zzzzz", self.second][game_id % 4])
        return say([self.secret, self.second, "zzzzz", self.third][game_id % 4])

    def games(self, words, codec, shape=Shape.TRANSCRIPT) -> list[Scored]:
        played = play([InitialState(self.secret)] * 2, words, compact(shape, max_turns=3), scripted(self)(None, codec))
        return [Scored(t, PRESETS["sparse"].score(t.transcript, Solver(words)), ()) for t in played]
