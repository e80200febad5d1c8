"""Laws of the messages: whatever is sent gets a defined answer, and the session and its neighbours play on."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordle_rl.serve.environment import WordleEnvironment
from wordle_rl.serve.openenv_client import WordleAction
from wordle_rl.serve.protocol import EnvironmentProtocol, Reason, Refusal
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.tasks import ServedGames

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
OPTIONS = "seed episode_id split index words hard_mode style reward given max_given self env"
option_names = st.sampled_from(OPTIONS.split())
likely = json_values | st.sampled_from(
    ["train", "val", "test", "compact", "sparse", "default", "crane", [], ["crane"], 0, 1, 3, 2**63, -1]
)
messages = st.one_of(
    st.fixed_dictionaries({"type": st.just("reset"), "data": st.dictionaries(option_names, likely, max_size=4)}),
    st.fixed_dictionaries({"type": st.just("step"), "data": st.dictionaries(st.just("message"), likely)}),
    st.fixed_dictionaries({"type": st.just("step"), "data": json_values}),
    st.fixed_dictionaries({"type": json_values}, optional={"data": json_values}),
    st.dictionaries(st.text(max_size=8), json_values, max_size=3),
    json_values,
)
texts = st.one_of(
    messages.map(json.dumps), st.text(max_size=60), st.binary(max_size=40).map(lambda raw: raw.decode("latin-1"))
)

ODD = (
    "", " ", "null", "[]", "1", "1e999", "NaN", "{", '{"type":', "\x00", '"\\ud800"', "9" * 5000, "[" * 100_000,
    '{"type":"reset","data":[]}', '{"type":"reset","data":null}', '{"type":"step"}', '{"type":["step"]}',
    '{"type":"step","data":{"message":"\\ud83d"}}', '{"type":"step","data":{"message":"x","extra":1}}',
    '{"type":"step","data":{"message":null}}', '{"type":"reset","data":{"seed":1.5}}',
    '{"type":"reset","data":{"seed":"1"}}', '{"type":"reset","data":{"given":["\\u0000"]}}',
    '{"type":"reset","data":{"max_given":20}}', '{"type":"mcp","data":{}}',
    json.dumps({"type": "reset", "data": {"seed": 10**4000}}), json.dumps({"x" * 100_000: 1}),
)  # fmt: skip


@pytest.fixture(scope="module")
def games() -> ServedGames:
    return ServedGames(ServeSettings())


def answered(protocol: EnvironmentProtocol, text: str) -> dict | None:
    """The answer to a message; a refusal as the socket would send it."""
    try:
        said = asyncio.run(protocol.answer(text))
    except Refusal as error:
        said = error.as_text()
    return None if said is None else json.loads(said)


def session(games: ServedGames) -> EnvironmentProtocol:
    return EnvironmentProtocol(WordleEnvironment(games), WordleAction)


def check_defined(answer: dict | None) -> None:
    if answer is not None:
        assert answer.keys() == {"type", "data"}
        if answer["type"] == "error":
            assert answer["data"]["reason"] in {reason.value for reason in Reason} - {"failed"}
            assert len(answer["data"]["message"]) < 1000
            assert isinstance(answer["data"]["code"], str)


@settings(max_examples=50)
@given(sent=st.lists(texts, max_size=10))
def test_whatever_is_sent_is_answered_and_the_session_plays_on(games, sent) -> None:
    protocol = session(games)
    for text in sent:
        check_defined(answered(protocol, text))
    begun = answered(protocol, '{"type":"reset","data":{"seed":3}}')
    assert begun["type"] == "observation"
    step = answered(protocol, '{"type":"step","data":{"message":"<guess>crane</guess>"}}')
    assert step["data"]["observation"]["outcome"] == "scored"


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_an_odd_message_is_refused(games, text) -> None:
    protocol = session(games)
    for begin in (False, True):
        if begin:
            answered(protocol, '{"type":"reset"}')
        answer = answered(protocol, text)
        assert answer["type"] == "error"
        check_defined(answer)
