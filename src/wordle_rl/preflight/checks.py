"""The list of checks before a training: `run` stops at exactly what `preflight` reports as a problem.

A check takes a `Plan` and returns findings. Raising `ConfigError` or `RunError` counts as a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.lengths import longest_game
from wordle_rl.chat.templates import ChatTemplateError
from wordle_rl.config import ConfigError, ModelSettings, RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.data.dataset import Example
from wordle_rl.data.trace_filter import TracesFromFile
from wordle_rl.policy.base import find_backend
from wordle_rl.policy.numbers import ModelNumbers
from wordle_rl.preflight.device import check_room
from wordle_rl.preflight.findings import Finding
from wordle_rl.preflight.model_fit import (
    check_engines,
    check_model,
    check_on_policy,
    check_teacher,
    check_teacher_replies,
)
from wordle_rl.preflight.teacher_sample import reply_lengths, teacher_examples
from wordle_rl.prompt import Style
from wordle_rl.prompt.notebook import RULES as NOTEBOOK_RULES
from wordle_rl.prompt.textarena_texts import fixed_texts
from wordle_rl.runs import RunError
from wordle_rl.runs.distributed import check_processes
from wordle_rl.runs.trackers import Tracking, check_trackers
from wordle_rl.train.starts_file import start_boards_of


class LookedUp(NamedTuple):
    """What can be read of a model without its weights, and what went wrong."""

    numbers: ModelNumbers | None
    codec: ChatCodec | None
    fault: str = ""


@dataclass(frozen=True)
class Plan:
    """A run, or the part of it that is still ahead.

    Attributes:
        config: All settings.
        context: Words, split, prompts and solver of the run.
        ahead: Stages to be done: `traces`, `sft`, the name of the algorithm, `eval`.
        begins: The model that the first of these trainings starts from.
        boards: The file of initial states, if there is one.
    """

    config: RunConfig
    context: GameContext
    ahead: Collection[str]
    begins: ModelSettings
    boards: Path | None = field(default=None)

    @classmethod
    def whole(cls, config: RunConfig, context: GameContext) -> Plan:
        """Plan a run of which nothing is done yet."""
        teaches = {"traces"} & {*config.chain}
        return cls(config, context, {*teaches, *config.trained, "eval"}, config.model, config.rl.starts.file)

    @property
    def plays(self) -> bool:
        """True if RL is ahead."""
        return self.config.algorithm in self.ahead

    @property
    def trains(self) -> bool:
        """True if any training is ahead."""
        return self.plays or "sft" in self.ahead

    @property
    def begins_here(self) -> bool:
        """True if the first training starts from `model.path`, not from a model that this run trained."""
        return "sft" in self.ahead or (self.plays and self.config.start == "base")

    @cached_property
    def model(self) -> LookedUp:
        """The model of `model.path`."""
        from wordle_rl.policy.loading import load_codec, load_numbers

        numbers = None
        try:
            numbers = load_numbers(self.config.model)
            codec, _ = load_codec(self.config.model)
        except (ConfigError, ChatTemplateError) as error:
            return LookedUp(numbers, None, str(error))
        return LookedUp(numbers, codec)

    @cached_property
    def taught(self) -> list[Example]:
        """A few teacher games as sequences; empty if there is nothing to teach, or no tokenizer."""
        if "traces" not in self.ahead or not self.trains or self.model.codec is None or _opener(self):
            return []
        return teacher_examples(self.config, self.context, self.model.codec)


def _backend(plan: Plan) -> list[Finding]:
    if plan.config.backend != "torch":
        find_backend(plan.config.backend).check(plan.config)
    return []


def _on_policy(plan: Plan) -> list[Finding]:
    return check_on_policy(plan.config) if plan.plays else []


def _system_prompt(plan: Plan) -> list[Finding]:
    game, split = plan.config.game, plan.context.split
    messages = []
    texts = {Style.TEXTARENA_ORIGINAL: fixed_texts()}
    texts |= dict.fromkeys((Style.NOTEBOOK, Style.NOTEBOOK_PLAYER0), (*fixed_texts(), NOTEBOOK_RULES))
    if named := sorted(split.strict_words_in(*(texts.get(game.style, ()) if isinstance(game.style, Style) else ()))):
        messages.append(
            f"the fixed texts of game.style {game.style} contain {named[0]!r}, a strict word "
            "(words.strict_fraction); set another words.split_seed, or words.strict_fraction to 0"
        )
    if named := sorted(split.strict_words_in(game.system_prompt)):
        messages.append(
            f"game.system_prompt contains {named[0]!r}, a strict word (words.strict_fraction), which training must "
            "never name; reword it"
        )
    return [Finding("problem", message) for message in messages]


def _opener(plan: Plan) -> list[Finding]:
    config, words = plan.config, plan.context.for_training.solver.words
    opener, message = config.traces.teacher.opener, ""
    if config.traces.file is not None or not ("traces" in plan.ahead or (plan.plays and config.algorithm == "distill")):
        return []
    if opener in plan.context.split.strict:
        message = (
            f"traces.teacher.opener {opener!r} is a strict word (words.strict_fraction), which training never names; "
            "give another opener"
        )
    elif opener is not None and opener not in words:
        message = (
            f"traces.teacher.opener {opener!r} is not in word list {words.name!r}; give a listed word, or let the "
            "teacher choose (no opener in a config file, None on the command line)"
        )
    return [Finding("problem", message)] if message else []


def _given_games(plan: Plan) -> list[Finding]:
    config, context = plan.config, plan.context
    if config.traces.file is not None and "traces" in plan.ahead:
        next(iter(TracesFromFile(context.words, context.split, config.traces, config.game)))  # raises if none is usable
    return []


def _given_starts(plan: Plan) -> list[Finding]:
    if plan.boards is None or not plan.plays:
        return []
    return [Finding("note", start_boards_of(plan.config, plan.context, plan.boards).counted())]


def _launch(plan: Plan) -> list[Finding]:
    check_processes(plan.config, plan.ahead)
    return []


def _trackers(plan: Plan) -> list[Finding]:
    config = plan.config
    if plan.trains:
        check_trackers(config.trackers, Tracking.named(Path(), config.report_project, config.trackio_space))
    return []


def _packages(plan: Plan) -> list[Finding]:
    from wordle_rl.policy.device import check_bf16
    from wordle_rl.policy.loading import check_packages

    if plan.trains:
        check_packages(plan.config.model)
    if plan.config.model.precision == "bf16" and plan.trains:
        check_bf16('model.precision "bf16"')
    return []


def _engines(plan: Plan) -> list[Finding]:
    return check_engines(plan.config) if plan.begins_here else []


def _model(plan: Plan) -> list[Finding]:
    if not plan.begins_here:
        return []
    numbers, codec, fault = plan.model
    if numbers is None or codec is None:
        return [Finding("problem", fault)]
    return check_model(plan.config, plan.context, codec, numbers)


def _teacher(plan: Plan) -> list[Finding]:
    config, taught = plan.config, plan.taught
    if not taught:
        return []
    traces = config.traces
    thinks = traces.narrate or traces.file is not None or traces.teacher.is_own  # otherwise replies are only a guess
    lengths = [len(example.token_ids) for example in taught]
    return [
        *(check_teacher(lengths, config.model.max_length) if "sft" in plan.ahead else ()),
        *(check_teacher_replies(reply_lengths(taught), config.max_completion_tokens) if thinks else ()),
    ]


def _room(plan: Plan) -> list[Finding]:
    if not {*plan.ahead} - {"traces"} or (plan.begins_here and plan.model.numbers is None):
        return []
    teacher = max((len(example.token_ids) for example in plan.taught), default=None)
    codec, context = plan.model.codec, plan.context
    game = longest_game(context.words, context.prompter, codec, plan.config.max_completion_tokens) if codec else None
    return check_room(plan.config, plan.begins, plan.ahead, teacher, game)


CHECKS: tuple[Callable[[Plan], list[Finding]], ...] = (
    _backend,
    _on_policy,
    _system_prompt,
    _opener,
    _given_games,
    _given_starts,
    _launch,
    _trackers,
    _packages,
    _engines,
    _model,
    _teacher,
    _room,
)
"""All checks that need neither weights nor games of the model, in the order of the report."""


def findings_of(plan: Plan) -> Iterator[Finding]:
    """Yield the findings of all checks, each message once."""
    said: set[str] = set()
    for check in CHECKS:
        try:
            found = check(plan)
        except (ConfigError, RunError) as error:
            found = [Finding("problem", str(error))]
        for finding in found:
            if finding.message not in said:
                said.add(finding.message)
                yield finding
