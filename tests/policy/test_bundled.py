"""The player that travels in the package: small, found by its name, and good."""

from functools import partial
from pathlib import Path

import pytest

from wordle_rl.boards import InitialState
from wordle_rl.config.context import GameContext
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.evaluate.play import evaluate
from wordle_rl.evaluate.players import find_player, open_player, words_of
from wordle_rl.policy.directory import find_model, game_of


@pytest.mark.parametrize(("part", "least"), [("train", 0.95), ("test", 0.6)])
def test_it_wins_nearly_every_training_word_and_most_others(part: str, least: float) -> None:
    context = GameContext.from_settings(words_of("bundled"), game_of(find_model(Path("bundled"))))
    player = find_player(PlayerSpec("bundled", SamplingSettings(temperature=0.0, max_completion_tokens=12)))
    secrets = context.split.named(part)
    asked = Asked(context, [*map(InitialState, secrets[:: len(secrets) // 60])], player)
    won = evaluate(asked, partial(open_player, asked), lambda game: game.transcript.won)
    assert sum(won) >= least * len(won)
