"""The only home of tags and wording: game state -> chat messages, reply -> `Guess` or `ParseFailure`.

reply.py       the grammar of a reply: what is a guess, and why something is none
knowledge.py   what the marks so far prove, and saying it in plain sentences
prompter.py    `Prompter`: every message of a game, in one style and shape
"""

from wordle_rl.prompt.knowledge import Knowledge, describe_knowledge, knowledge_of
from wordle_rl.prompt.prompter import Message, Prompter, Shape, Style, system_prompt
from wordle_rl.prompt.reply import (
    THINK_TAGS,
    FailureReason,
    Guess,
    ParseFailure,
    Thinking,
    parse_reply,
    with_opened_thought,
)

__all__ = [
    "THINK_TAGS",
    "FailureReason",
    "Guess",
    "Knowledge",
    "Message",
    "ParseFailure",
    "Prompter",
    "Shape",
    "Style",
    "Thinking",
    "describe_knowledge",
    "knowledge_of",
    "parse_reply",
    "system_prompt",
    "with_opened_thought",
]
