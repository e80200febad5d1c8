"""Laws of a session: its signals, and what of a game may be asked for."""

import pytest

from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.tasks import ServedGames
from wordle_rl.serve.textarena import TextArenaAction, TextArenaEnvironment

GAMES = ServedGames(ServeSettings())


def environment() -> TextArenaEnvironment:
    return TextArenaEnvironment(GAMES)


def say(session: TextArenaEnvironment, message: str):
    return session.step(TextArenaAction(message=message))


def secret_of(seed: int) -> str:
    """The secret that the state tells once a game is lost."""
    session = environment()
    session.reset(seed=seed)
    while not say(session, "pass").done:
        pass
    return session.state.raw_state["game_state"]["secret_word"]


def test_the_signals_of_a_turn_lie_in_the_rubric_and_not_in_the_observation() -> None:
    session = environment()
    session.reset(seed=5)
    observation = say(session, f"[{secret_of(5)}]")
    scores = {name: leaf.last_score for name, leaf in session.rubric.named_rubrics()}
    assert scores == {"greens": 1.0, "yellows": 0.0, "repetitions": 1.0, "correct": 1.0}
    assert observation.info == {}
    assert set(observation.metadata) == {"env_id", "turn"}


def test_the_wording_is_fixed() -> None:
    with pytest.raises(Refusal) as refused:
        environment().reset(style="english")
    assert refused.value.reason is Reason.BAD_OPTION


def test_a_session_may_ask_for_hard_mode_and_for_a_board() -> None:
    session = environment()
    session.reset(seed=1, hard_mode=True, given=["slate"])
    assert session.state.turn == 1
    assert session.state.raw_state["game_state"]["guess_history"][0][0] == "slate"
    assert "You submitted [slate]" in say(session, "[slate]").messages[0].content
