"""Laws of a session: tasks, rewards, state, and what it never says."""

import json
import random

import pytest

from wordle_rl.serve.app import in_textarena_words
from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.tasks import ServedGames
from wordle_rl.serve.textarena import TextArenaAction, TextArenaEnvironment
from wordle_rl.words import load_words

GAMES = ServedGames(in_textarena_words(ServeSettings()))


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


def test_no_byte_before_the_end_holds_the_secret() -> None:
    rng = random.Random(0)
    guesses = load_words().guesses
    for seed in range(25):
        secret, session = secret_of(seed), environment()
        said = [session.reset(seed=seed, episode_id=f"game {seed}").model_dump_json()]
        while True:
            word = rng.choice([word for word in rng.sample(guesses, 20) if word != secret])
            observation = say(session, rng.choice([f"[{word}]", "no guess", "[zzzzz]", "[abc]"]))
            if observation.done:
                break
            said += [observation.model_dump_json(), session.state.model_dump_json(), repr(session.state)]
            with pytest.raises(Refusal) as refused:
                session.reset(seed=-1)
            said.append(json.dumps(refused.value.as_json()))
        assert all(secret not in text.lower() for text in said)
        assert session.state.raw_state["game_state"]["secret_word"] == secret


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
