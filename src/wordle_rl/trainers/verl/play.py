"""Games as verl's workers play them: made once a process from the run's config, asked of a server turn by turn.

With a tool, guesses are calls in the form of Hermes and Qwen: a call of `guess` is read where tags would be, and what
the environment sends back after one is a tool message.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self, cast

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.templates import ChatTemplateError
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.game import Outcome, Turn
from wordle_rl.policy.loading import load_codec
from wordle_rl.prompt import FailureReason, Guess, Message, ParseFailure, Prompter, Thinking, parse_reply
from wordle_rl.prompt.reply import ReplyForm, TaggedForm
from wordle_rl.reward import RewardBreakdown, Rubric
from wordle_rl.rollout import SampleTokens, Trajectory, open_game, play_tokens
from wordle_rl.runs import parse_json
from wordle_rl.train.starts import PrefixGuesses


@dataclass(frozen=True)
class RunGames:
    """What the games of a run share."""

    config: RunConfig
    context: GameContext
    codec: ChatCodec
    rubric: Rubric

    @classmethod
    def of(cls, config: RunConfig, model: str, *, tool: bool = False) -> Self:
        """Make it from a config and the trained model, a directory or a name; with `tool`, guesses are tool calls."""
        context = GameContext.of(config).for_training
        if tool:
            tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
            codec: ChatCodec = ToolCodec(tokenizer, config.model.template_kwargs)
            context = replace(context, prompter=ToolPrompter(**vars(context.prompter)))
        else:
            codec = load_codec(config.model.model_copy(update={"path": model}))
        return cls(config, context, codec, config.grpo.reward.schedule().rubric())

    def start(self, secret: str, step: int, index: int) -> InitialState:
        """Return the initial state of a training group: of the secret in row `index`, after `step` optimizer steps."""
        rng = random.Random(f"{self.config.seed}:{step}:{index}")
        return InitialState(secret, self._prefixes(secret, rng))

    @cached_property
    def _prefixes(self) -> PrefixGuesses:
        context, hard_mode = self.context, self.context.prompter.rules.hard_mode
        return PrefixGuesses(context.words, context.solver, self.config.grpo.starts, hard_mode=hard_mode)

    async def play(self, start: InitialState, sample: SampleTokens, max_tokens: int) -> Trajectory:
        """Play one game, truncated where it may exceed `max_tokens` after its opening prompt."""
        running = open_game(0, start, self.context.words, self.context.prompter, self.codec)
        budget = len(running.prompt_ids) + max_tokens - self.config.max_completion_tokens
        return await play_tokens(running, self.codec, sample, budget)

    def score(self, trajectory: Trajectory) -> RewardBreakdown:
        """Reward a finished game."""
        return self.rubric.score(trajectory.transcript, self.context.solver)


@lru_cache(maxsize=2)
def run_games(run_directory: Path, model: str, *, tool: bool = False) -> RunGames:
    """Return the games of a run directory, made once for a process."""
    return RunGames.of(stored_config(run_directory / "config.json"), model, tool=tool)


# --- guesses by tool calls: rules, feedback and rewards stay as they are ---

GUESS_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "guess",
        "description": "Guess a word.",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string", "description": "The word, in small letters."}},
            "required": ["word"],
        },
    },
}
"""The tool as chat templates take it."""

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_TAG = re.compile(r"</?guess>")
_MARK = "\N{SECTION SIGN}feedback\N{SECTION SIGN}"


class ToolForm(TaggedForm):
    """A reply is thinking as the settings have it, and exactly one call of the tool."""

    def __init__(self) -> None:
        super().__init__(('<tool_call>\n{"name": "guess", "arguments": {"word": "', '"}}\n</tool_call>'))

    def parse(self, reply: str, thinking: Thinking, word_length: int) -> Guess | ParseFailure:  # noqa: ARG002
        """Read a reply.

        Examples:
            >>> form = ToolForm()
            >>> call = '<tool_call>{"name": "guess", "arguments": {"word": "crane"}}</tool_call>'
            >>> form.parse(call, Thinking.OFF, 5)
            Guess(word='crane', thinking='')
            >>> form.parse("<guess>crane</guess>", Thinking.OFF, 5).reason.value
            'no_guess'
        """
        if _TAG.search(reply):
            return ParseFailure(FailureReason.NO_GUESS, has_tags=True)
        return parse_reply(_CALL.sub(_in_tags, reply), thinking)


@dataclass(frozen=True)
class ToolPrompter(Prompter):
    """Wording of a game in which guesses are tool calls.

    Examples:
        >>> print(ToolPrompter().reply("crane"))
        <tool_call>
        {"name": "guess", "arguments": {"word": "crane"}}
        </tool_call>
        >>> ToolPrompter().parse(ToolPrompter().reply("crane"))
        Guess(word='crane', thinking='')
    """

    @cached_property
    def form(self) -> ReplyForm:
        """Calls of the tool."""
        return ToolForm()

    def feedback(self, turns: Sequence[Turn]) -> Message:
        """Return the message that answers the last of `turns`: a tool message, unless there was no call to answer."""
        message = super().feedback(turns)
        role = "user" if turns[-1].outcome is Outcome.MALFORMED else "tool"
        return Message(role=role, content=message["content"])


def _in_tags(call: re.Match[str]) -> str:
    try:
        called = parse_json(call[1])
    except ValueError:
        return call[0]
    match called:
        case {"name": "guess", "arguments": {"word": str(word)}} if "<" not in word and len(called["arguments"]) == 1:
            return f"<guess>{word}</guess>"
    return call[0]


class ToolCodec(ChatCodec):
    """Encodes conversations with tool messages; the opening prompt describes the tool."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, template_kwargs: Mapping[str, Any] | None = None) -> None:
        super().__init__(tokenizer, {**(template_kwargs or {}), "tools": [GUESS_TOOL]})
        call = {"type": "function", "function": {"name": "guess", "arguments": {"word": "crane"}}}
        dialogue = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": _MARK},
        ]
        # How the template wraps a tool message is read off a rendering in which a mark stands for it.
        rendered = self.template.render(cast("list[Message]", dialogue))
        if rendered.count(_MARK) != 1 or "<tool_call>" not in rendered.split(_MARK)[0].rsplit("crane", 1)[0][-80:]:
            raise ChatTemplateError("the chat template has no tool calls in tags of <tool_call>; play without --tool")
        before, self._tool_tail = rendered.split(_MARK)
        self._tool_head = before.rsplit(self.frame.turn_end, 1)[1]

    def bridge_ids(self, feedback: Message) -> list[int]:
        """Return the ids between the end of one completion and the start of the next."""
        if feedback["role"] != "tool":
            return super().bridge_ids(feedback)
        return list(self._cached(self._tool_head + feedback["content"].strip() + self._tool_tail))
