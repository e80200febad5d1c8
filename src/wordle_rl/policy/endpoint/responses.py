"""Parse an endpoint's response: text, separate reasoning, and why it ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from wordle_rl.prompt import Thinking, with_opened_thought
from wordle_rl.runs import without_lone_surrogates

_TAGS = re.compile(r"</?(?:think|guess)>")
"""Tags to remove from separate reasoning before it becomes part of a reply, where they would be parsed."""


class AnswerError(ValueError):
    """A response without a message; a server can send anything with status 200."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message. Texts have no lone surrogates, which cannot be written to a file.

    Attributes:
        text: The text.
        reasoning: Reasoning that the endpoint sent separately.
        finish: Why it ended, in the endpoint's words: usually `stop`, or `length` if it was cut; `refusal` for a
            refusal.
    """

    text: str
    reasoning: str = ""
    finish: str = "stop"


def read_answer(answer: object, clean: Callable[[str], str] = str) -> Said:
    """Return the message of a response.

    Args:
        answer: The response.
        clean: Removes secrets from a text.

    Raises:
        AnswerError: If there is no message, it is not text, or an error ended it early.
    """
    if not isinstance(answer, ChatCompletion):
        raise AnswerError("the endpoint sent no choices")
    if error := (answer.model_extra or {}).get("error"):
        raise AnswerError(f"the endpoint sent an error: {_message_of(error)}")
    choices: object = answer.choices
    if not isinstance(choices, list) or not choices:
        raise AnswerError("the endpoint sent no choices")
    choice: object = choices[0]
    if not isinstance(choice, Choice) or not isinstance(choice.message, ChatCompletionMessage):
        raise AnswerError("the endpoint sent a choice without a message")
    finish: object = choice.finish_reason
    if finish == "error":
        raise AnswerError(f"an error ended the reply early: {_message_of((choice.model_extra or {}).get('error'))}")
    message, extra = choice.message, choice.message.model_extra or {}
    reasoning = extra.get("reasoning_content") or extra.get("reasoning")
    stopped_by = finish if isinstance(finish, str) and finish else "stop"
    return Said(
        clean(without_lone_surrogates(_text_of(message.content) or _text_of(message.refusal))),
        clean(without_lone_surrogates(reasoning)) if isinstance(reasoning, str) else "",
        "refusal" if message.refusal else clean(without_lone_surrogates(stopped_by)),
    )


def as_reply(said: Said, thinking: Thinking) -> tuple[str, bool]:
    """Convert a message to a reply that the game can parse.

    If the prompt ended with `<think>`, it is put back. If thinking is required and missing, separate reasoning is
    prepended as `<think>…</think>`.

    Returns:
        The reply, and whether its thinking is the separate reasoning.
    """
    text = with_opened_thought(said.text)
    reasoning = _TAGS.sub(" ", said.reasoning).strip()
    if thinking is Thinking.REQUIRED and "<think>" not in text and reasoning:
        return f"<think>{reasoning}</think>\n{text}", True
    return text, False


def _message_of(error: object) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(message or error or "no details").split())


def _text_of(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    spoken = [text for text in texts if isinstance(text, str)]
    if not spoken or len(spoken) < len(texts):
        raise AnswerError("the endpoint sent a message that is not text")
    return "".join(spoken)
