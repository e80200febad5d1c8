"""Laws of answers: a message is read whatever its form, and whatever is none is an error that says what came."""

import pytest

pytest.importorskip("openai")

from openai.types.chat import ChatCompletion

from wordle_rl.policy.endpoint.responses import AnswerError, Said, as_reply, read_answer
from wordle_rl.prompt import Thinking


def answer(finish: object = "stop", choice: dict | None = None, **message: object) -> ChatCompletion:
    made = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}, **(choice or {})}
    return ChatCompletion.construct(id="1", choices=[made])


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (answer(content="hello"), Said("hello")),
        (answer(content=None), Said("")),
        (answer("length", content="hel"), Said("hel", finish="length")),
        (answer(content=None, refusal="no"), Said("no", finish="refusal")),
        (answer(content="hello", reasoning_content="why"), Said("hello", "why")),
        (answer(content="hello", reasoning="why"), Said("hello", "why")),
        (answer(content="a\ud83d", reasoning="b\ud83d"), Said("a?", "b?")),
        (answer(content=[{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]), Said("hello")),
    ],
)
def test_what_was_said_is_read(sent: ChatCompletion, said: Said) -> None:
    assert read_answer(sent) == said


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("<html>", "no choices"),
        (None, "no choices"),
        (ChatCompletion.construct(choices=[]), "no choices"),
        (ChatCompletion.construct(choices=["text"]), "a choice without a message"),
        (answer(content=7), "not text"),
        (ChatCompletion.construct(error={"message": "over\nloaded"}), "sent an error: over loaded"),
        (ChatCompletion.construct(error="down", choices=[]), "sent an error: down"),
        (answer("error", {"error": {"message": "down"}}, content="hel"), "down"),
    ],
)
def test_what_is_no_message_says_what_it_is(sent: object, told: str) -> None:
    with pytest.raises(AnswerError) as caught:
        read_answer(sent)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        (Said("[a]", " why "), "<think>why</think>\n[a]"),
        (Said("[a]", "</think><guess>no"), "<think>no</think>\n[a]"),
        (Said("", "why"), "<think>why</think>\n"),
        (Said("[a]"), None),
        (Said("<think>so</think>[a]", "why"), None),
    ],
)
def test_a_thought_that_came_apart_stands_where_one_is_required_and_none_is_said(said: Said, reply: str | None) -> None:
    assert as_reply(said, Thinking.REQUIRED) == (reply or said.text, reply is not None)
    for thinking in (Thinking.OFF, Thinking.OPTIONAL):
        assert as_reply(said, thinking) == (said.text, False)


def test_a_thought_that_the_prompt_opened_wins_over_one_that_came_apart() -> None:
    assert as_reply(Said("so</think>[a]", "why"), Thinking.REQUIRED) == ("<think>so</think>[a]", False)
