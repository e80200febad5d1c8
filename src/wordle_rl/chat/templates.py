"""Chat templates: the text they put around messages, and variants of them fit for training.

Many stock templates rewrite history: Qwen3's and DeepSeek-R1's drop the thinking of earlier replies, Llama 3.2's
names today's date, Gemma's first two refuse a system message. A policy trained on its sampled completions would then
be served prompts it never saw. `training_template` wraps such a template: the messages up to the first reply are still
rendered by the stock template, every later turn is joined on exactly as `ChatCodec` joins it. The variant is saved with
the model, so that any server renders what was trained, token for token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from wordle_rl.errors import UserError
from wordle_rl.prompt import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_USER = "\N{SECTION SIGN}user\N{SECTION SIGN}"
_REPLY = "\N{SECTION SIGN}reply\N{SECTION SIGN}"
_THOUGHT = "\N{SECTION SIGN}thought\N{SECTION SIGN}"
_THINK_TAG = re.compile(r"</?think>")
_OPENED = re.compile(r"<think>\s*$")
_CLOSED = re.compile(r"<think>\s*</think>\s*$")
_THINKING = re.compile(r"<think>(.*?)</think>\s*", re.DOTALL)
_NO_THOUGHT = "\n</think>\n\n"
_CHANGES = re.compile(r"\{#- Training variant: (.*?)\. -#\}")


PLAIN_TEMPLATE = """\
{#- Training variant: a plain template, since the model has none. -#}
{%- for message in messages %}
{%- if message.role == 'assistant' %}{{- 'Assistant:\\n' }}{%- generation %}{{- message.content + eos_token }}\
{%- endgeneration %}{{- '\\n\\n' }}
{%- elif message.role == 'system' %}{{- message.content + '\\n\\n' }}
{%- else %}{{- 'User:\\n' + message.content + '\\n\\n' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- 'Assistant:\\n' }}{%- endif %}"""
"""For base models without a template: who speaks in words that any text model has met, a reply closed by the token that
ends a text, as no reply holds it inside."""


LINES_TEMPLATE = """\
{#- Training variant: a line for each message. -#}
{%- for message in messages %}
{%- if message.role == 'assistant' %}{%- generation %}{{- message.content + eos_token }}{%- endgeneration %}\
{%- else %}{{- message.content + '\\n' }}
{%- endif %}{%- endfor %}"""
"""The least that a template can be: who speaks follows from the order. For models that play this game alone."""


class ChatTemplateError(UserError):
    """A chat template from which the borders of a turn cannot be read."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Text that a template puts around the messages of a conversation.

    `turn_end` is the text of the token that closes a reply. A feedback message stands between `bridge_head` and
    `bridge_tail`, which asks for the next reply; `answer_end` is the part of the tail that stays when none is asked
    for. `opened` is the beginning of a reply that the tail already holds, such as `<think>` and a line break: the
    policy is not asked to write it, yet it is part of the reply. `thought` is the text before and after the thinking
    of a reply (`reasoning_content`), as the model was made to write it; None if the template shows no thinking in
    tags of `<think>`.
    """

    turn_end: str
    bridge_head: str
    bridge_tail: str
    answer_end: str
    opened: str = ""
    thought: tuple[str, str] | None = None

    @property
    def closes_thought(self) -> bool:
        """True if the prompt itself holds an empty thought, so that the model was made to reply without thinking."""
        return _CLOSED.search(self.bridge_tail) is not None

    def taught(self, reply: str) -> str:
        """A teacher's reply with its thinking in the model's own form, that of the template.

        A reply without thinking becomes one with an empty thought, as the template writes it. Where the prompt closes
        the thought, the reply has none.
        """
        thinking = _THINKING.match(reply)
        said = reply[thinking.end() :] if thinking else reply
        if self.closes_thought:
            return said
        if self.thought is None:
            return reply
        before, after = self.thought
        return before + (thinking[1].strip() if thinking else "") + after + said

    def spoken(self, reply: str) -> str:
        """The part of a reply that the policy writes itself, without what the prompt has opened for it.

        A reply without thinking closes the opened thought at once.
        """
        if not self.opened:
            return reply
        for opening in (self.opened, "<think>"):
            if reply.startswith(opening):
                return reply[len(opening) :]
        return reply if "</think>" in reply else _NO_THOUGHT + reply


def chat_template_of(tokenizer: PreTrainedTokenizerBase) -> str:
    """The tokenizer's template; of several named ones the default.

    Raises:
        ChatTemplateError: If there is none.
    """
    template = tokenizer.chat_template
    if isinstance(template, Mapping):
        template = template.get("default")
    if not template:
        raise ChatTemplateError("the tokenizer has no chat template; save one with the model")
    return str(template)


def render(
    tokenizer: PreTrainedTokenizerBase,
    template: str,
    messages: Sequence[Message],
    variables: Mapping[str, Any],
    *,
    ask: bool = True,
) -> str:
    """Render messages by a template; `ask`: end where a completion begins.

    Raises:
        ChatTemplateError: If the template refuses the messages or cannot be read.
    """
    from jinja2 import TemplateError

    try:
        text = tokenizer.apply_chat_template(
            cast("list[dict[str, str]]", list(messages)),
            tokenize=False,
            add_generation_prompt=ask,
            chat_template=template,
            **variables,
        )
    except TemplateError as error:
        raise ChatTemplateError(f"the chat template refuses a conversation: {error}") from error
    return str(text)


def read_frame(tokenizer: PreTrainedTokenizerBase, template: str, variables: Mapping[str, Any]) -> Frame:
    """Render a dialogue of marker words; read off the turn's end and the frame of a user message.

    Raises:
        ChatTemplateError: If the template does not show where a turn ends.
    """
    dialogue = [_message("user", "a"), _message("assistant", _REPLY), _message("user", _USER)]
    rendered = render(tokenizer, template, dialogue, variables)
    if rendered.count(_REPLY) != 1 or rendered.count(_USER) != 1:
        raise ChatTemplateError("the chat template drops or repeats a message")
    between, tail = rendered.split(_REPLY)[1].split(_USER)
    answer_end = render(tokenizer, template, dialogue, variables, ask=False).split(_USER)[-1]
    if not tail.startswith(answer_end):  # some close the whole conversation where no reply is asked for
        answer_end = tail
    finished = render(tokenizer, template, dialogue[:2], variables, ask=False).split(_REPLY)[-1]
    closing, closing_inside = _closing(tokenizer, between, finished)
    opened = _OPENED.search(tail)
    head = opened.group() if opened else ""
    thought = _thought_form(tokenizer, template, variables, head)
    return Frame(closing, between[len(closing_inside) :], tail, answer_end, head, thought)


def _closing(tokenizer: PreTrainedTokenizerBase, between: str, finished: str) -> tuple[str, str]:
    """The text that closes a reply, and what stands for it where another message follows.

    Most templates close every reply with the same token. GLM's close none: the tag of the next speaker ends a turn, and
    the model was made to write it. gpt-oss' close the last one with a token of its own, which the model writes.

    Args:
        tokenizer: Whose special tokens they are.
        between: What follows a reply before the next message.
        finished: What follows the last reply.
    """
    inside = _first_token_text(tokenizer, between)
    if common := _common_prefix(between, finished):
        closing = _first_token_text(tokenizer, common)
        if closing == inside or closing == _first_token_text(tokenizer, finished):
            return closing, closing
    closing = _first_token_text(tokenizer, finished) if finished else inside
    if not (_is_special(tokenizer, closing) and _is_special(tokenizer, inside)):
        raise ChatTemplateError("the chat template does not close an assistant turn with any token")
    return closing, inside


def _is_special(tokenizer: PreTrainedTokenizerBase, text: str) -> bool:
    """True if a text is a single special token."""
    return any(str(token) == text and token.special for token in tokenizer.added_tokens_decoder.values())


def _lead_of(tokenizer: PreTrainedTokenizerBase, template: str, variables: Mapping[str, Any]) -> str:
    """Text before a reply that a prompt does not end in, such as the tag of gpt-oss' channel for final replies.

    A model writes it itself before it replies; here the prompt does. It ends in a special token.
    """
    question = [_message("user", "a")]
    prompt = render(tokenizer, template, question, variables)
    whole = render(tokenizer, template, [*question, _message("assistant", _REPLY)], variables, ask=False)
    lead = whole.split(_REPLY)[0].removeprefix(prompt)
    if not whole.startswith(prompt) or not lead or _THINK_TAG.search(lead):
        return ""
    special = tuple(str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
    return lead if lead.endswith(special) else ""


def _thought_form(
    tokenizer: PreTrainedTokenizerBase, template: str, variables: Mapping[str, Any], opened: str
) -> tuple[str, str] | None:
    """Text around the thinking of a reply that follows a prompt, read off a message with `reasoning_content`.

    A template that opens thoughts, yet takes none in a message (DeepSeek-R1's), is taken to close them like the others.
    """
    question = _message("user", "a")
    reply = cast("Message", {**_message("assistant", _REPLY), "reasoning_content": _THOUGHT})
    prompt = render(tokenizer, template, [question], variables)
    rendered = render(tokenizer, template, [question, reply], variables, ask=False)
    if rendered.startswith(prompt) and _THOUGHT in rendered:
        before, rest = rendered[len(prompt) - len(opened) :].split(_THOUGHT, 1)
        after = rest.split(_REPLY)[0]
        if before.strip() == "<think>" and after.strip() == "</think>":
            return before, after
    return (opened, _NO_THOUGHT) if opened else None


def named_template(name: str) -> str:
    """The template that `model.chat_template` names: `lines`, or the text of a file.

    Raises:
        ChatTemplateError: If there is no such file.
    """
    if name == "lines":
        return LINES_TEMPLATE
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ChatTemplateError(f"model.chat_template {name!r} is neither lines nor a file: {error}") from error


def training_template(tokenizer: PreTrainedTokenizerBase, variables: Mapping[str, Any] | None = None) -> str:
    """The tokenizer's template if it leaves every turn as it was spoken, else a variant that does.

    A base model without a template (GPT-2) gets a plain one, see `PLAIN_TEMPLATE`, if it has a token for the end of a
    text.

    Template variables such as `{"enable_thinking": False}` become the variant's defaults, so that a server which
    does not pass them renders what was trained.

    Raises:
        ChatTemplateError: If there is no template, or none that shows where a turn ends.
    """
    given = dict(variables or {})
    if not tokenizer.chat_template and tokenizer.eos_token is not None:
        return PLAIN_TEMPLATE
    template = chat_template_of(tokenizer)
    changes: list[str] = []
    opening = [_message("user", "a")]
    if render(tokenizer, _FIXED_DATE + template, opening, given) != render(tokenizer, template, opening, given):
        template = _FIXED_DATE + template
        changes.append("the date is fixed")
    if render(tokenizer, template, opening, given) != render(tokenizer, template, opening, {}):
        template = "".join(map(_default, given.items())) + template
        changes.append(f"{', '.join(given)} kept as trained with")
    no_system = not _takes_system(tokenizer, template, given)
    if no_system:
        changes.append("the system message opens the first user message")
    if _rewrites(tokenizer, template, given):
        changes.append("earlier replies stay as they were spoken")
    if lead := _lead_of(tokenizer, template, given):
        changes.append("prompts end where the final reply begins")
    if no_system or lead or _rewrites(tokenizer, template, given):
        template = _wrapped(template, read_frame(tokenizer, template, given), no_system, lead)
    if _rewrites(tokenizer, template, given) or not _takes_system(tokenizer, template, given):
        raise ChatTemplateError(
            "the chat template rewrites earlier turns in a way that cannot be undone; save another one with the model"
        )
    return f"{{#- Training variant: {'; '.join(changes)}. -#}}{template}" if changes else template


def changes_of(template: str) -> tuple[str, ...]:
    """Changes of `training_template` to a stock template, in a few words each."""
    return tuple(change for listed in _CHANGES.findall(template) for change in listed.split("; "))


def _message(role: str, content: str) -> Message:
    return Message(role=role, content=content)


_GAME = (
    _message("user", "a 0"),
    _message("assistant", "<think>\nb 1\n</think>\n\nc 1"),
    _message("user", "a 1"),
    _message("assistant", "<think>b 2</think>\nc 2"),
    _message("user", "a 2"),
    _message("assistant", " c 3\n"),
    _message("user", "a 3"),
)
"""Replies as models think on their own, as a teacher writes them, and without thinking, spaces around them."""


def _takes_system(tokenizer: PreTrainedTokenizerBase, template: str, variables: Mapping[str, Any]) -> bool:
    """True if a system message shows in the prompt."""
    opening = [_message("system", _REPLY), _message("user", _USER)]
    try:
        rendered = render(tokenizer, template, opening, variables)
    except ChatTemplateError:
        return False
    return rendered.count(_REPLY) == 1 and rendered.count(_USER) == 1


def _rewrites(tokenizer: PreTrainedTokenizerBase, template: str, variables: Mapping[str, Any]) -> bool:
    """True if a conversation, rendered again as it grows, differs from its turns joined on to each other."""
    frame = read_frame(tokenizer, template, variables)
    joined = render(tokenizer, template, _GAME[:1], variables)
    for end, message in enumerate(_GAME[1:], start=2):
        if message["role"] == "assistant":
            joined += frame.spoken(message["content"]) + frame.turn_end
            if not render(tokenizer, template, _GAME[:end], variables, ask=False).startswith(joined):
                return True
        else:
            joined += frame.bridge_head + message["content"] + frame.bridge_tail
            if render(tokenizer, template, _GAME[:end], variables) != joined:
                return True
    return False


_FIXED_DATE = (
    '{%- macro strftime_now(format) -%}{{- {"%d %b %Y": "26 Jul 2024"}.get(format, "2024-07-26") -}}{%- endmacro %}'
)
"""Stands in for the function by which templates ask for today's date."""


def _default(variable: tuple[str, Any]) -> str:
    name, value = variable
    return f"{{%- if {name} is not defined %}}{{%- set {name} = {_literal(value)} %}}{{%- endif %}}"


def _literal(value: Any) -> str:
    """A string, number or truth value as the template language writes it."""
    return json.dumps(value, ensure_ascii=False)


_HEAD = """\
{%- set kept = namespace(turns=messages, first=messages | length, ask=add_generation_prompt is defined and \
add_generation_prompt) %}
{%- for turn in messages %}{%- if turn.role == 'assistant' and loop.index0 < kept.first %}\
{%- set kept.first = loop.index0 %}{%- endif %}{%- endfor %}
{%- set messages = messages[:kept.first] %}
{%- set add_generation_prompt = kept.ask or kept.first < kept.turns | length %}"""

_FOLD_SYSTEM = """\
{%- if messages and messages[0].role == 'system' %}
{%- set messages = [{'role': 'user', 'content': messages[0].content + '\\n\\n' + messages[1].content}] + messages[2:] %}
{%- endif %}"""

# Content may arrive in parts, as servers pass it to templates made for images; no loop over them here, since servers
# infer from such a loop which form a template wants.
_TAIL = """\
{% for turn in kept.turns[kept.first:] %}
{%- set said = turn.content if turn.content is string else turn.content | map(attribute='text') | join %}
{%- if turn.role == 'assistant' %}THINKING{%- generation %}{{- SPOKEN + TURN_END }}{%- endgeneration %}
{%- else %}{{- BRIDGE_HEAD + said | trim + ANSWER_END }}
{%- if kept.ask or not loop.last %}{{- QUESTION }}{%- endif %}{%- endif %}{%- endfor %}"""

# Clients that send thinking apart from the rest of a reply get it in the model's own form.
_THINKING_APART = """\
{%- if turn.reasoning_content is string %}\
{%- set said = BEFORE + turn.reasoning_content | trim + AFTER + said | trim %}{%- endif %}"""


def _wrapped(template: str, frame: Frame, no_system: bool, lead: str) -> str:
    """A template that renders the opening by the given one and joins all later turns on in the frame.

    Where a reply is asked for, `lead` ends the prompt.
    """
    spoken = "said"
    if frame.opened:
        spoken = f"({_literal(_NO_THOUGHT)} + said if '</think>' not in said else said)"
        for opening in ("<think>", frame.opened):
            start = _literal(opening)
            spoken = f"(said[{len(opening)}:] if said.startswith({start}) else {spoken})"
    before, after = map(_literal, frame.thought or ("", ""))
    apart = _THINKING_APART.replace("BEFORE", before).replace("AFTER", after)
    pieces = {
        "THINKING": apart if frame.thought else "",
        "SPOKEN": spoken,
        "TURN_END": _literal(frame.turn_end),
        "BRIDGE_HEAD": _literal(frame.bridge_head),
        "ANSWER_END": _literal(frame.answer_end),
        "QUESTION": _literal(frame.bridge_tail.removeprefix(frame.answer_end) + lead),
    }
    tail = re.sub("|".join(pieces), lambda found: pieces[found.group()], _TAIL)
    # A template loses its last line break when it is read; one in the middle would stay.
    asks = f"{{% if add_generation_prompt %}}{{{{- {_literal(lead)} }}}}{{% endif %}}" if lead else ""
    return _HEAD + (_FOLD_SYSTEM if no_system else "") + template.removesuffix("\n") + asks + tail


def _first_token_text(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """The text of the first token of `text`: the special token that closes a turn."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if not ids:
        raise ChatTemplateError("the chat template does not close an assistant turn with any token")
    first = str(tokenizer.decode(ids[:1], skip_special_tokens=False))
    if not text.startswith(first):
        raise ChatTemplateError(f"the chat template closes a turn with {text!r}, which is not one token")
    return first


def _common_prefix(a: str, b: str) -> str:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return a[:length]
