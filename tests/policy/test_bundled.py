"""The player that travels in the package: small, found by its name, and good."""

from pathlib import Path

from wordle_rl.boards import InitialState
from wordle_rl.config.context import GameContext
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.asked import PlayerSpec
from wordle_rl.evaluate.players import make_player, words_of
from wordle_rl.policy.directory import find_model, game_of
from wordle_rl.rollout import play


def test_it_wins_nearly_every_game() -> None:
    game = game_of(find_model(Path("bundled")))
    assert game is not None
    context = GameContext.from_settings(words_of("bundled"), game)
    greedy = SamplingSettings(temperature=0.0, max_completion_tokens=12)
    player = make_player(PlayerSpec("bundled", greedy), context.words, context.solver)
    secrets = context.split.train[:: len(context.split.train) // 60]
    games = play([InitialState(s) for s in secrets], context.words, player.prompter, player.sampler)
    assert sum(game.transcript.won for game in games) >= 0.95 * len(secrets)
