"""What a chat endpoint sent, taken apart: what it said, what it thought apart from that, and how it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass

from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from wordle_rl.prompt import Thinking, with_opened_thought
from wordle_rl.runs import writable

_TAGS = re.compile(r"</?(?:think|guess)>")
"""What reasoning must not hold where it is read as part of a reply."""


class AnswerError(ValueError):
    """An answer that holds no message; a server may send anything with status 200."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message: its text, what was reasoned outside the text, and why it ended.

    `finish` is the endpoint's own word, `stop` as a rule and `length` where the reply was cut; `refusal` where the text
    is a refusal. No text holds halves of surrogate pairs, which no file can hold.
    """

    text: str
    reasoning: str = ""
    finish: str = "stop"


def read_answer(answer: object) -> Said:
    """The message of an answer.

    Raises:
        AnswerError: If there is none, it is no text, or an error broke it off.
    """
    if not isinstance(answer, ChatCompletion):
        raise AnswerError("the endpoint sent no choices")
    if error := (answer.model_extra or {}).get("error"):
        raise AnswerError(f"the endpoint sent an error: {_told(error)}")
    choices: object = answer.choices
    if not isinstance(choices, list) or not choices:
        raise AnswerError("the endpoint sent no choices")
    choice: object = choices[0]
    if not isinstance(choice, Choice) or not isinstance(choice.message, ChatCompletionMessage):
        raise AnswerError("the endpoint sent a choice without a message")
    finish: object = choice.finish_reason
    if finish == "error":
        raise AnswerError(f"an error broke the reply off: {_told((choice.model_extra or {}).get('error'))}")
    message, extra = choice.message, choice.message.model_extra or {}
    reasoning = extra.get("reasoning_content") or extra.get("reasoning")
    return Said(
        writable(_text_of(message.content) or _text_of(message.refusal)),
        writable(reasoning) if isinstance(reasoning, str) else "",
        "refusal" if message.refusal else writable(finish) if isinstance(finish, str) and finish else "stop",
    )


def as_reply(said: Said, thinking: Thinking) -> tuple[str, bool]:
    """What was said as the rules of a game read it.

    A thought that the prompt opened is whole again. One that came apart stands before the text where a reply must hold
    one and the text holds none.

    Returns:
        The reply, and whether its thought is the one that came apart.
    """
    text = with_opened_thought(said.text)
    apart = _TAGS.sub(" ", said.reasoning).strip()
    if thinking is Thinking.REQUIRED and "<think>" not in text and apart:
        return f"<think>{apart}</think>\n{text}", True
    return text, False


def _told(error: object) -> str:
    """What an error says of itself, in one line."""
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(message or error or "it does not say which").split())


def _text_of(content: object) -> str:
    """Content as text: a string, or the parts of it that are text; none is empty."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    spoken = [text for text in texts if isinstance(text, str)]
    if not spoken or len(spoken) < len(texts):
        raise AnswerError("the endpoint sent a message that is no text")
    return "".join(spoken)
