"""The parts of an endpoint's response: the text, reasoning sent separately from it, and why it ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from wordle_rl.prompt import Thinking, with_opened_thought
from wordle_rl.runs import without_lone_surrogates

_TAGS = re.compile(r"</?(?:think|guess)>")
"""Removed from reasoning that becomes part of a reply, where they would be parsed."""


class AnswerError(ValueError):
    """A response without a message; a server may send anything with status 200."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message: its text, the reasoning sent separately from it, and why it ended.

    `finish` is the endpoint's own word: usually `stop`, `length` if the reply was cut; it is `refusal` if the text is
    a refusal. Texts hold no halves of surrogate pairs, which cannot be written to a file.
    """

    text: str
    reasoning: str = ""
    finish: str = "stop"


def read_answer(answer: object, clean: Callable[[str], str] = str) -> Said:
    """The message of a response.

    Args:
        answer: The response.
        clean: Removes from a text what may be neither stored nor sent back.

    Raises:
        AnswerError: If there is none, it is not text, or an error ended it early.
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
        raise AnswerError(f"an error broke the reply off: {_message_of((choice.model_extra or {}).get('error'))}")
    message, extra = choice.message, choice.message.model_extra or {}
    reasoning = extra.get("reasoning_content") or extra.get("reasoning")
    stopped_by = finish if isinstance(finish, str) and finish else "stop"
    return Said(
        clean(without_lone_surrogates(_text_of(message.content) or _text_of(message.refusal))),
        clean(without_lone_surrogates(reasoning)) if isinstance(reasoning, str) else "",
        "refusal" if message.refusal else clean(without_lone_surrogates(stopped_by)),
    )


def as_reply(said: Said, thinking: Thinking) -> tuple[str, bool]:
    """A message as a reply that the rules of the game can parse.

    A `<think>` that the prompt ended with is put back. If thinking is required and absent, the endpoint's separate
    reasoning is prepended as `<think>…</think>`.

    Returns:
        The reply, and whether its thinking is that separate reasoning.
    """
    text = with_opened_thought(said.text)
    reasoning = _TAGS.sub(" ", said.reasoning).strip()
    if thinking is Thinking.REQUIRED and "<think>" not in text and reasoning:
        return f"<think>{reasoning}</think>\n{text}", True
    return text, False


def _message_of(error: object) -> str:
    """An error's own message, in one line."""
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(message or error or "no details").split())


def _text_of(content: object) -> str:
    """Content as text: the string, or its text parts joined; empty if there is none."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    spoken = [text for text in texts if isinstance(text, str)]
    if not spoken or len(spoken) < len(texts):
        raise AnswerError("the endpoint sent a message that is no text")
    return "".join(spoken)
