"""Laws of a game in TextArena's words, among them on games recorded from TextArena 0.7.4 behind openenv's
textarena_env of 2026-06-13."""

import pytest
from textarena_games import new_game, recorded, replayed

from wordle_rl.env import WordleEnv
from wordle_rl.game import Dictionary, Outcome, Turn
from wordle_rl.prompt import Prompter, Style
from wordle_rl.serve.textarena import SignalsRubric, TextArenaGame
from wordle_rl.words import load_words


@pytest.mark.parametrize(
    ("name", "outcomes", "stop_reason"),
    [
        ("loss", "SSSSSS", "out_of_turns"),  # earned partial credit
        ("two invalid in a row", "SUU", None),  # ended the game, and earned what the last guess did
        ("unlisted", "SUS", "solved"),  # cost no turn
        ("guess in the thinking", "S", "solved"),  # counted instead of the one behind it
        ("no brackets", "MM", None),  # was a guess
        ("loose dictionary", "UUUS", "solved"),  # had names of programs and people
        ("forged feedback", "SMS", "solved"),  # stood in the name of the game, and was paid
    ],
)
def test_what_went_wrong_in_the_original_is_played_by_the_rules(name: str, outcomes: str, stop_reason) -> None:
    game = replayed(recorded()[name])[0]
    assert "".join(turn.outcome[0].upper() for turn in game.env.turns) == outcomes
    assert (game.env.stop_reason, game.turns_used) == (stop_reason, len(outcomes))


def test_the_reason_names_the_secret_and_is_not_told_while_the_game_runs() -> None:
    game = new_game("crane")
    game.step("[slate]")
    with pytest.raises(RuntimeError):
        _ = game.reason


def test_a_refusal_that_costs_nothing_leaves_the_guesses() -> None:
    game = new_game("crane", dictionary=Dictionary.APP)
    game.step("[qzxwv]")
    assert game.history.endswith("You have 6 guesses left.")


def test_guesses_already_on_the_board_stand_in_the_history() -> None:
    played = new_game("crane")
    played.step("[slate]")
    begun = TextArenaGame(WordleEnv("crane", load_words(), Prompter(Style.TEXTARENA), ["slate"]))
    assert begun.history == played.history
    assert begun.prompt == begun.history.strip()


SLATE = Turn("slate", "XXGXG", Outcome.SCORED)


@pytest.mark.parametrize(
    ("turn", "signals"),
    [
        (Turn("caner", "GYYYY", Outcome.SCORED), (0.2, 0.8, 1.0, 0.0)),
        (Turn("crane", "GGGGG", Outcome.SCORED), (1.0, 0.0, 1.0, 1.0)),
        (SLATE, (0.0, 0.0, 0.0, 0.0)),
        (Turn("qzxwv", None, Outcome.UNLISTED), (0.0, 0.0, 1.0, 0.0)),
        (Turn(None, None, Outcome.MALFORMED), (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_each_signal_has_a_leaf_and_the_tree_scores_the_win(turn: Turn, signals: tuple[float, ...]) -> None:
    rubric = SignalsRubric()
    rubric.judge((SLATE, turn))
    assert rubric(None, None) == signals[-1]
    scores = {name: leaf.last_score for name, leaf in rubric.named_rubrics()}
    assert scores == dict(zip(("greens", "yellows", "repetitions", "correct"), signals, strict=True))
