"""Read the text that chat templates put around messages, and make variants of them fit for training.

Many stock templates rewrite history. Qwen3's and DeepSeek-R1's drop the thinking of earlier replies, Llama 3.2's names
today's date, and Gemma's first two refuse a system message. A policy trained on its sampled completions would then be
served prompts it never saw. `training_template` wraps such a template: the stock template still renders the messages up
to the first reply, and every later turn is concatenated exactly as `ChatCodec` does. The variant is saved with the
model, so any server renders token for token what was trained.
"""

from __future__ import annotations

import json
import os.path
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from wordle_rl.errors import UserError, first_line
from wordle_rl.prompt import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_USER = "\N{SECTION SIGN}user\N{SECTION SIGN}"
_REPLY = "\N{SECTION SIGN}reply\N{SECTION SIGN}"
_THOUGHT = "\N{SECTION SIGN}thought\N{SECTION SIGN}"
_THINK_TAG = re.compile(r"</?think>")
_OPENED = re.compile(r"<think>\s*$")
_CLOSED = re.compile(r"</think>\s*$")  # GLM 4.7 and DeepSeek V3.1 write no opening tag before it
_OTHER_THOUGHT = re.compile(r"<\|START_THINKING\|>\s*$|<(?:thinking|thought|reasoning)>\s*$", re.IGNORECASE)
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
"""For base models without a template (GPT-2). Plain words name the speaker; the end-of-text token closes a reply, since
no reply contains it."""


LINES_TEMPLATE = """\
{#- Training variant: a line for each message. -#}
{%- for message in messages %}
{%- if message.role == 'assistant' %}{%- generation %}{{- message.content + eos_token }}{%- endgeneration %}\
{%- else %}{{- message.content + '\\n' }}
{%- endif %}{%- endfor %}"""
"""The smallest possible template: the order tells who speaks. For models that play only this game."""


class ChatTemplateError(UserError):
    """A chat template that does not show where a turn begins or ends."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Text that a template puts around the messages of a conversation."""

    turn_end: str
    """The token that closes a reply."""
    bridge_head: str
    """Before a feedback message."""
    bridge_tail: str
    """After a feedback message. It asks for the next reply."""
    answer_end: str
    """The part of the tail that stays when no reply is asked for."""
    opened: str = ""
    """Start of a reply that the tail already holds, such as `<think>`. The policy does not write it, yet it belongs to
    the reply."""
    thought: tuple[str, str] | None = None
    """Before and after the thinking of a reply. None if the template shows no thinking in `<think>` tags."""

    @property
    def closes_thought(self) -> bool:
        """True if the prompt itself holds an empty thought, so that the model replies without thinking."""
        return _CLOSED.search(self.bridge_tail) is not None

    def taught(self, reply: str) -> str:
        """Return a teacher's reply with its thinking in the template's form.

        A reply without thinking gets an empty thought, as the template writes it. If the prompt closes the thought,
        the reply has none.
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
        """Return the part of a reply that the policy writes, without what the prompt opened for it.

        A reply without thinking closes the opened thought at once.
        """
        if not self.opened:
            return reply
        for opening in (self.opened, "<think>"):
            if reply.startswith(opening):
                return reply[len(opening) :]
        return reply if "</think>" in reply else _NO_THOUGHT + reply


@dataclass(frozen=True)
class ChatTemplate:
    """A template, the tokenizer it is for, and values for its own variables."""

    tokenizer: PreTrainedTokenizerBase
    text: str
    variables: Mapping[str, Any]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, variables: Mapping[str, Any] | None = None) -> ChatTemplate:
        """Take the tokenizer's template; of several named ones, the default."""
        text = tokenizer.chat_template
        if isinstance(text, Mapping):
            text = text.get("default")
        if not text:
            raise ChatTemplateError("the tokenizer has no chat template; save one with the model")
        return cls(tokenizer, str(text), dict(variables or {}))

    def render(self, messages: Sequence[Message], *, ask: bool = True) -> str:
        """Render messages. With `ask`, end where a completion begins."""
        try:
            text = self.tokenizer.apply_chat_template(
                cast("list[dict[str, str]]", list(messages)),
                tokenize=False,
                add_generation_prompt=ask,
                chat_template=self.text,
                **self.variables,
            )
        except Exception as error:  # a template is foreign code: it may loop over `tools`, which is None here
            raise ChatTemplateError(
                f"the chat template refuses a conversation ({first_line(error)}); name another one as "
                "model.chat_template"
            ) from error
        return str(text)

    def after(self, text: str) -> ChatTemplate:
        """Return the template with a text before it."""
        return replace(self, text=text + self.text)


def read_frame(template: ChatTemplate) -> Frame:
    """Read the frame off a rendered dialogue of marker words."""
    dialogue = [_message("user", "a"), _message("assistant", _REPLY), _message("user", _USER)]
    rendered = template.render(dialogue)
    if rendered.count(_REPLY) != 1 or rendered.count(_USER) != 1:
        raise ChatTemplateError("the chat template drops or repeats a message")
    between, tail = rendered.split(_REPLY)[1].split(_USER)
    answer_end = template.render(dialogue, ask=False).split(_USER)[-1]
    if not tail.startswith(answer_end):  # some templates close the whole conversation when no reply is asked for
        answer_end = tail
    finished = template.render(dialogue[:2], ask=False).split(_REPLY)[-1]
    closing, closing_inside = _closing(template.tokenizer, between, finished)
    if other := _OTHER_THOUGHT.search(tail):
        raise ChatTemplateError(
            f"the chat template opens a thought with {other.group().strip()}, and only <think> is known; close the "
            "thought in the template, or name another one as model.chat_template"
        )
    opened = _OPENED.search(tail)
    head = opened.group() if opened else ""
    thought = _thought_form(template, head)
    return Frame(closing, between[len(closing_inside) :], tail, answer_end, head, thought)


def _closing(tokenizer: PreTrainedTokenizerBase, between: str, finished: str) -> tuple[str, str]:
    """Return the text that closes a reply, and the text that replaces it before another message.

    Most templates close every reply with the same token. GLM's closes none: the tag of the next speaker ends a turn,
    and the model was trained to write it. gpt-oss closes the last reply with its own token, which the model writes.
    `between` is the text from a reply to the next message, `finished` the text after the last reply.
    """
    inside = _first_token_text(tokenizer, between)
    if common := os.path.commonprefix((between, finished)):  # noqa: RUF071  # by characters, as it is meant here
        closing = _first_token_text(tokenizer, common)
        if closing == inside or closing == _first_token_text(tokenizer, finished):
            return closing, closing
    closing = _first_token_text(tokenizer, finished) if finished else inside
    if not {closing, inside} <= _special_tokens(tokenizer):
        raise ChatTemplateError("the chat template does not close an assistant turn with any token")
    return closing, inside


def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    return {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}


def _lead_of(template: ChatTemplate) -> str:
    """Return text before a reply that the prompt does not hold, such as gpt-oss' tag for final replies.

    The model usually writes this text itself; our prompts include it. It ends in a special token.
    """
    question = [_message("user", "a")]
    prompt = template.render(question)
    whole = template.render([*question, _message("assistant", _REPLY)], ask=False)
    lead = whole.split(_REPLY)[0].removeprefix(prompt)
    if not whole.startswith(prompt) or not lead or _THINK_TAG.search(lead):
        return ""
    return lead if lead.endswith(tuple(_special_tokens(template.tokenizer))) else ""


def _thought_form(template: ChatTemplate, opened: str) -> tuple[str, str] | None:
    """Return the text around a reply's thinking, read off a message with `reasoning_content`.

    A template that opens thoughts but takes none in a message (DeepSeek-R1's) is assumed to close them like the others.
    """
    question = _message("user", "a")
    reply = cast("Message", {**_message("assistant", _REPLY), "reasoning_content": _THOUGHT})
    prompt = template.render([question])
    rendered = template.render([question, reply], ask=False)
    if rendered.startswith(prompt) and _THOUGHT in rendered:
        before, rest = rendered[len(prompt) - len(opened) :].split(_THOUGHT, 1)
        after = rest.split(_REPLY)[0]
        if before.strip() == "<think>" and after.strip() == "</think>":
            return before, after
    return (opened, _NO_THOUGHT) if opened else None


def named_template(name: str, tokenizer: PreTrainedTokenizerBase | None = None) -> str:
    """Return the template that `model.chat_template` names: `lines`, or the text of a file.

    `lines` begins with the token that the tokenizer puts before every text, if it does (Gemma, Llama).
    """
    if name == "lines":
        bos = tokenizer.bos_token_id if tokenizer is not None else None
        if tokenizer is None or bos is None or tokenizer("a")["input_ids"][:1] != [bos]:
            return LINES_TEMPLATE
        return "{{- bos_token }}" + LINES_TEMPLATE
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ChatTemplateError(f"model.chat_template {name!r} is neither `lines` nor a file: {error}") from error


def training_template(tokenizer: PreTrainedTokenizerBase, variables: Mapping[str, Any] | None = None) -> str:
    """Return the tokenizer's template if it keeps every turn unchanged, else a variant that does.

    A base model without a template gets `PLAIN_TEMPLATE`, provided it has an end-of-text token. Template variables such
    as `{"enable_thinking": False}` become defaults of the variant, so a server that does not pass them renders what was
    trained.
    """
    if not tokenizer.chat_template and tokenizer.eos_token is not None:
        return PLAIN_TEMPLATE
    template = ChatTemplate.of(tokenizer, variables)
    given = template.variables
    changes: list[str] = []
    if template.text not in (PLAIN_TEMPLATE, LINES_TEMPLATE):
        _check_bounded(template.text, json.dumps({**tokenizer.special_tokens_map, **given}))
    opening = [_message("user", "a")]
    if not _takes_text(template):
        template = template.after(_IN_PARTS)
        changes.append("messages are handed over in parts")
    # Each check renders with and without one change, so the variant names only what this template needs.
    if template.after(_FIXED_DATE).render(opening) != template.render(opening):
        template = template.after(_FIXED_DATE)
        changes.append("the date is fixed")
    if template.render(opening) != replace(template, variables={}).render(opening):
        defaults = [
            f"{{%- if {n} is not defined %}}{{%- set {n} = {_literal(v)} %}}{{%- endif %}}" for n, v in given.items()
        ]
        template = template.after("".join(defaults))
        changes.append(f"{', '.join(given)} kept as trained with")
    no_system = not _takes_system(template)
    if no_system:
        changes.append("the system message opens the first user message")
    if rewrites := _rewrites(template):
        changes.append("earlier replies stay as they were spoken")
    if lead := _lead_of(template):
        changes.append("prompts end where the final reply begins")
    if no_system or lead or rewrites:
        template = replace(template, text=_wrapped(template, no_system, lead))
    if not _takes_system(template) or _rewrites(template):
        raise ChatTemplateError(
            "the chat template rewrites earlier turns in a way that cannot be undone; save another one with the model"
        )
    return f"{{#- Training variant: {'; '.join(changes)}. -#}}{template.text}" if changes else template.text


def changes_of(template: str) -> tuple[str, ...]:
    """Return what `training_template` changed, in a few words each; empty for a stock template."""
    return tuple(change for listed in _CHANGES.findall(template) for change in listed.split("; "))


def _message(role: str, content: str) -> Message:
    return Message(role=role, content=content)


_SYSTEM = _message("system", "s 0")
_GAME = (
    _message("user", "a 0"),
    _message("assistant", "<think>\nb 1\n</think>\n\nc 1"),
    _message("user", "a 1"),
    _message("assistant", "<think>b 2</think>\nc 2"),
    _message("user", "a 2"),
    _message("assistant", " c 3\n"),
    _message("user", "a 3"),
)
"""A probe game: thinking as models write it, thinking as a teacher writes it, and no thinking, with stray spaces."""


@lru_cache(maxsize=64)
def _check_bounded(template: str, variables: str) -> None:
    # Render probe games in a process of its own, and refuse a template that goes beyond its limits.
    opening = [_message("system", "a"), *_GAME]
    dialogues = [opening[start:end] for start in (0, 1) for end in range(start + 1, len(opening) + 1)]
    renderings = [
        {"messages": dialogue, "add_generation_prompt": ask, "tools": None, **json.loads(variables)}
        for dialogue in [*dialogues, [*opening, *10 * _GAME[1:]]]
        for ask in (True, False)
    ]
    probe = [sys.executable, "-P", str(Path(__file__).with_name("template_probe.py"))]
    given = json.dumps({"template": template, "renderings": renderings})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # it must find jinja2
    try:
        subprocess.run(
            probe, input=given, text=True, env=environment, stderr=subprocess.DEVNULL, timeout=120, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise ChatTemplateError(
            "the chat template takes more than 2 s, 1 GiB or a million characters for a short game; save another one "
            "with the model"
        ) from None


def _takes_text(template: ChatTemplate) -> bool:
    # False for templates of models with pictures that read content in parts only (SmolVLM, LLaVA).
    try:
        return _USER in template.render([_message("user", _USER)])
    except ChatTemplateError:
        return False


def _takes_system(template: ChatTemplate) -> bool:
    try:
        rendered = template.render([_message("system", _REPLY), _message("user", _USER)])
    except ChatTemplateError:
        return False
    return rendered.count(_REPLY) == 1 and rendered.count(_USER) == 1


def _rewrites(template: ChatTemplate) -> bool:
    # Does rendering a growing conversation again differ from concatenating its turns? Most games begin with a system
    # message, which some templates move to the last user message (Mistral's).
    frame = read_frame(template)
    for opening in [[], [_SYSTEM]] if _takes_system(template) else [[]]:
        game = [*opening, *_GAME]
        joined = template.render(game[: len(opening) + 1])
        for end in range(len(opening) + 2, len(game) + 1):
            content, is_reply = game[end - 1]["content"], game[end - 1]["role"] == "assistant"
            joined += (
                frame.spoken(content) + frame.turn_end if is_reply else frame.bridge_head + content + frame.bridge_tail
            )
            rendered = template.render(game[:end], ask=not is_reply)
            if not (rendered.startswith(joined) if is_reply else rendered == joined):
                return True
    return False


_FIXED_DATE = (
    '{%- macro strftime_now(format) -%}{{- {"%d %b %Y": "26 Jul 2024"}.get(format, "2024-07-26") -}}{%- endmacro %}'
)
"""Shadows the function with which templates ask for today's date."""


_IN_PARTS = """\
{%- set parts = namespace(messages=[]) %}{%- for turn in messages %}{%- set parts.messages = parts.messages + \
[dict(turn, content=[{'type': 'text', 'text': turn.content}] if turn.content is string else turn.content)] %}\
{%- endfor %}{%- set messages = parts.messages %}"""


def _literal(value: Any) -> str:
    # JSON of a string, number or truth value is also a literal of the template language.
    return json.dumps(value, ensure_ascii=False)


# Cut the messages at the first reply: the stock template that follows sees only the opening.
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

# Servers may pass content in parts, as for image models. `map` joins them; a loop over them would make servers infer
# that the template wants parts.
_TAIL = """\
{% for turn in kept.turns[kept.first:] %}
{%- set said = turn.content if turn.content is string else turn.content | map(attribute='text') | join %}
{%- if turn.role == 'assistant' %}THINKING{%- generation %}{{- SPOKEN + TURN_END }}{%- endgeneration %}
{%- else %}{{- BRIDGE_HEAD + said | trim + ANSWER_END }}
{%- if kept.ask or not loop.last %}{{- QUESTION }}{%- endif %}{%- endif %}{%- endfor %}"""

# Clients that send thinking apart from the reply get it in the model's own form.
_THINKING_APART = """\
{%- if turn.reasoning_content is string %}\
{%- set said = BEFORE + turn.reasoning_content | trim + AFTER + said | trim %}{%- endif %}"""


def _wrapped(template: ChatTemplate, no_system: bool, lead: str) -> str:
    # The template renders the opening, then later turns are concatenated in the frame. `lead` ends each prompt.
    frame, spoken = read_frame(template), "said"
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
    # Templates drop their last line break when parsed; inside the wrapped text it would stay.
    asks = f"{{% if add_generation_prompt %}}{{{{- {_literal(lead)} }}}}{{% endif %}}" if lead else ""
    return _HEAD + (_FOLD_SYSTEM if no_system else "") + template.text.removesuffix("\n") + asks + tail


def _first_token_text(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if not ids:
        raise ChatTemplateError("the chat template does not close an assistant turn with any token")
    first = str(tokenizer.decode(ids[:1], skip_special_tokens=False))
    if not text.startswith(first):
        raise ChatTemplateError(f"the chat template closes a turn with {text!r}, which is not one token")
    return first
