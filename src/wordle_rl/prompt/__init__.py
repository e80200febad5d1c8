"""Prompts: all tags and wording live here.

Game state -> chat messages; reply -> `Guess` or `ParseFailure`.

    reply.py       the grammar of a reply: what is a guess, and why something is not
    knowledge.py   what the marks so far prove, in plain sentences
    english.py     the styles in sentences, english, symbols, letters and textarena, with their errors ("not a word")
    coded.py       the styles of a token per letter, compact and spelled, with theirs, and how replies are spelled
    textarena_texts.py  the texts of TextArena's Wordle
    trl_notebook.py, verifiers_style.py  the styles of other projects, which are made of these
    prompter.py    `Prompter`: every message of a game, in one style and shape; your own style and system prompt
"""

from wordle_rl.prompt.knowledge import Knowledge, describe_knowledge, knowledge_of
from wordle_rl.prompt.prompter import (
    Message,
    Prompter,
    PromptError,
    Shape,
    Style,
    StyleTexts,
    fault_in,
    find_style,
    name_of,
    style_named,
    tidied,
)
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
    "PromptError",
    "Prompter",
    "Shape",
    "Style",
    "StyleTexts",
    "Thinking",
    "describe_knowledge",
    "fault_in",
    "find_style",
    "knowledge_of",
    "name_of",
    "parse_reply",
    "style_named",
    "tidied",
    "with_opened_thought",
]
